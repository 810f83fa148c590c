/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and reads policy files; json_read.c reads the document. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/path.h"
#include "policy/policy_internal.h"

/* The directory that relative paths of the document are relative to. A link to a policy is not
 * followed for this: the link's directory counts. */
static int document_dir(const char *path, char ret[PATH_MAX], struct cordon_error *err)
{
	char cwd[PATH_MAX], dir[PATH_MAX];
	size_t len = path_dir_len(path);

	if (len >= sizeof(dir))
		return cordon_err(err, CORDON_E_POLICY, ENAMETOOLONG, "cannot open policy '%.100s'",
				  path);
	memcpy(dir, path, len);
	dir[len] = '\0';
	if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return cordon_err_cwd(err, errno);
	if (path_normalise(path[0] == '/' ? NULL : cwd, len ? dir : ".", ret, PATH_MAX) < 0)
		return cordon_err(err, CORDON_E_POLICY, ENAMETOOLONG, "cannot open policy '%.100s'",
				  path);
	return 0;
}

/* Non-blocking, and only a regular file: a FIFO or device must not hang us. */
static int open_document(const char *path, struct cordon_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return cordon_err(err, CORDON_E_POLICY, errno, "cannot open policy '%.100s'", path);
	if (fstat(fd, &st) < 0) {
		cordon_err(err, CORDON_E_POLICY, errno, "cannot open policy '%.100s'", path);
	} else if (!S_ISREG(st.st_mode)) {
		cordon_err(err, CORDON_E_POLICY, 0, "policy '%.100s' is not a regular file", path);
	} else if (st.st_size > (off_t)POLICY_FILE_MAX) {
		cordon_err(err, CORDON_E_POLICY, 0, "%.100s: larger than %zu bytes", path,
			   POLICY_FILE_MAX);
	} else {
		return fd;
	}
	close(fd);
	return -CORDON_E_POLICY;
}

int cordon_policy_file(struct cordon_policy *policy, const char *path, struct cordon_error *err)
{
	char dir[PATH_MAX], *text;
	ssize_t len;
	int fd, r;

	if (!policy || !path)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "cordon_policy_file: an argument is NULL");
	fd = open_document(path, err);
	if (fd < 0)
		return fd;
	r = document_dir(path, dir, err);
	text = r < 0 ? NULL : malloc(POLICY_FILE_MAX + 1);
	if (!text) {
		close(fd);
		return r < 0 ? r : policy_nomem(err);
	}
	len = read_full(fd, text, POLICY_FILE_MAX + 1);
	close(fd);
	if (len < 0)
		r = cordon_err(err, CORDON_E_POLICY, (int)-len, "cannot read policy '%.100s'",
			       path);
	else
		r = cordon_policy_json(policy, text, (size_t)len, path, dir, err);
	free(text);
	return r;
}

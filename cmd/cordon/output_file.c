/* SPDX-License-Identifier: Apache-2.0 */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/way.h"

int output_open_dir(const char *what, const char *path, const char **ret_name,
		    struct cordon_error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct way w;
	int r;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return cordon_err(err, CORDON_E_USAGE, 0, "%s'%s' is not a file name", what, path);
	r = way_open(path, (size_t)(name - path), &w);
	if (r < 0)
		return way_error(&w, what, path, -r, err);
	*ret_name = name;
	return w.fd;
}

int output_open(const char *what, const char *path, int flags, int mode, int any,
		struct cordon_error *err)
{
	struct way w = { .fd = -1 };
	const char *name = "";
	struct stat st;
	int fd, r;

	w.fd = output_open_dir(what, path, &name, err);
	if (w.fd < 0)
		return w.fd;
	flags |= O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC;
	fd = openat(w.fd, name, flags | O_NOFOLLOW | (any ? 0 : O_NONBLOCK), (mode_t)mode);
	if (fd < 0 && errno == ELOOP && any && way_may_follow(w.fd, name))
		fd = openat(w.fd, name, flags, (mode_t)mode);
	r = fd < 0 ? -errno : 0;
	if (r == -ELOOP)
		way_refuse(&w, name);
	close(w.fd);
	if (r < 0)
		return way_error(&w, what, path, -r, err);
	if (!any && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return cordon_err(err, CORDON_E_PATH, 0, "cannot write %s'%s': not a regular file",
				  what, path);
	}
	return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A client's configuration file: reading it, and putting a new text in its place. */
#include "config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"

#define FILE_MAX ((size_t)4 << 20)

int config_read(const char *path, struct strbuf *text, struct stat *st, struct cordon_error *err)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), r;

	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot read '%s'", path);
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode)) {
		close(fd);
		return cordon_err(err, CORDON_E_PATH, 0, "'%s' is no ordinary file", path);
	}
	text->max = FILE_MAX;
	r = read_strbuf(fd, text);
	close(fd);
	strbuf_puts(text, ""); /* there is a text, even an empty one */
	if (r >= 0 && (text->failed || !text->data))
		r = -ENOMEM;
	return r < 0 ? cordon_err(err, CORDON_E_PATH, -r, "cannot read '%s'", path) : 0;
}

/* It must not become somebody else's: its owner could not read it any more, or others could. */
static int keep_owner(int fd, const struct stat *old)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_uid != old->st_uid || st.st_gid != old->st_gid) &&
	    fchown(fd, old->st_uid, old->st_gid) < 0)
		return -errno;
	return fchmod(fd, old->st_mode & 0777) < 0 ? -errno : 0;
}

static int has_changed(const struct stat *a, const struct stat *b)
{
	return a->st_dev != b->st_dev || a->st_ino != b->st_ino || a->st_size != b->st_size ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

/* Beside it first: a reader sees the old file or the new one. A link stays a link. */
int config_replace(const char *path, const struct strbuf *text, const struct stat *old,
		   struct cordon_error *err)
{
	char real[PATH_MAX], temporary[PATH_MAX + 32];
	struct stat st;
	int fd, r;

	if (!realpath(path, real) || stat(real, &st) < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot write '%s'", path);
	if (has_changed(&st, old))
		return cordon_err(err, CORDON_E_STATE, 0, "'%s' has changed meanwhile", path);
	snprintf(temporary, sizeof(temporary), "%s.cordon-%d", real, (int)getpid());
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot write beside '%s'", path);
	r = write_full(fd, text->data, text->len);
	if (r == 0)
		r = keep_owner(fd, &st);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temporary, real) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	(void)unlink(temporary);
	return cordon_err(err, CORDON_E_PATH, -r, "cannot write '%s'", path);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory with the program of one run (cordon_run_options.code_dir).
 *
 * What runs keep in a private directory each of them can change, so a program that lies there is
 * whatever another run made of it. This one is shown to its own run alone, read-only.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/private.h"

/* Without links: init follows none. */
static const char *real_path(struct arena *arena, int fd)
{
	char link[64], real[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, real, sizeof(real) - 1);
	if (len <= 0 || real[0] != '/')
		return NULL;
	real[len] = '\0';
	return arena_strdup(arena, real);
}

int code_dir_open(const char *path, struct arena *arena, struct plan_private_dir *ret,
		  struct cordon_error *err)
{
	struct plan_private_dir dir = { .fd = -1 };
	struct stat st;
	int r;

	if (!path)
		return 0;
	if (path[0] != '/')
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "the directory of the run's program, '%s', is no absolute path",
				  path);
	dir.fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir.fd < 0 || fstat(dir.fd, &st) < 0)
		goto fail;
	dir.path = real_path(arena, dir.fd);
	if (!dir.path)
		goto fail;
	dir.dev = st.st_dev;
	dir.ino = st.st_ino;
	code_dir_close(ret);
	*ret = dir;
	return 0;
fail:
	r = cordon_err(err, CORDON_E_PATH, errno, "the directory of the run's program, '%s'", path);
	code_dir_close(&dir);
	return r;
}

void code_dir_close(struct plan_private_dir *dir)
{
	if (dir->fd >= 0)
		close(dir->fd);
	dir->fd = -1;
}

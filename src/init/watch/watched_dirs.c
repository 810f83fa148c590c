/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories under limits.disk (disk.c): found while the view is built, and kept open, so that
 * nothing the tree does later can replace them.
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "init/mount_ops.h"
#include "init/watch/watch.h"

long disk_take_upper(struct init *in, int dir_fd)
{
	long fd = raw4(__NR_openat, dir_fd, "upper",
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd >= 0)
		in->upper_fd = (int)fd;
	return fd < 0 ? fd : 0;
}

static long note_device(int fd, uint64_t *ret)
{
	struct statx st = { 0 };
	long r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &st);

	*ret = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
	return r;
}

static struct watched_dir *add_watched(struct init *in, const char *path, int fd, int is_private)
{
	struct watched_dir *w;

	if (in->n_watched == WATCHED_MAX)
		return 0;
	w = &in->watched[in->n_watched++];
	*w = (struct watched_dir){ .fd = fd, .path = path, .is_private = is_private };
	return w;
}

long disk_take_private(struct init *in, int object_fd, const char *path)
{
	struct watched_dir *w;
	long r, fd;

	if (!in->limits.disk_bytes)
		return 0;
	fd = raw4(__NR_openat, object_fd, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	w = add_watched(in, path, (int)fd, 1);
	r = w ? note_device((int)fd, &w->devs[0]) : -EINVAL;
	if (w)
		w->devs[1] = w->devs[0];
	return r;
}

long disk_open(struct init *in)
{
	const struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int is_copy = in->upper_fd < 0;
	struct watched_dir *w;
	struct spot at;
	const char *path;
	long fd, r;

	if (!in->plan->workspace || !in->limits.disk_bytes)
		return 0;
	path = str_at(in, in->plan->workspace);
	at = spot_of(in, path);
	/* The root's descriptor is closed by now. */
	fd = raw4(__NR_openat2, at.fd < 0 ? AT_FDCWD : at.fd, at.fd < 0 ? path : at.name, &how,
		  sizeof(how));
	if (fd < 0)
		return fd;
	w = add_watched(in, path, is_copy ? (int)fd : in->upper_fd, 0);
	if (!w)
		return -EINVAL;
	r = note_device((int)fd, &w->devs[0]);
	if (r == 0)
		r = note_device(w->fd, &w->devs[1]);
	if (!is_copy)
		close_fd(fd);
	return r;
}

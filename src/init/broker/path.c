/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the broker that finds objects: what a guest means, and whether it may change it.
 *
 * Every open here is O_PATH: it needs no rights, starts no device, waits for no FIFO, and pins the
 * object, so that the object that was checked is the one that is changed. We have the guest's ids
 * and no capabilities, hence can only walk where it could walk.
 */
#include "init/broker/parts.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>

#include "bare/fd.h"
#include "bare/text.h"
#include "init/broker/thread_raw.h"

#define PIN (O_PATH | O_CLOEXEC)
#define STATX_WANTED (STATX_TYPE | STATX_MODE | STATX_INO)
#define DEPTH_MAX 1024 /* directories above an object; deeper ones are refused */
#define TRIES 3	       /* a rename in the middle of a check looks like a wrong object */

long broker_stat(int fd, const char *name, struct statx *ret)
{
	return thread5(__NR_statx, fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		       STATX_WANTED, ret);
}

int broker_is_same(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
	       a->stx_dev_minor == b->stx_dev_minor;
}

/* The guest's Landlock domain keeps these inodes alive, so their numbers mean nothing else. */
static int is_root(const struct broker *b, const struct statx *st)
{
	for (uint32_t i = 0; i < b->n_roots; i++) {
		if (b->roots[i].ino == st->stx_ino && b->roots[i].dev_major == st->stx_dev_major &&
		    b->roots[i].dev_minor == st->stx_dev_minor)
			return 1;
	}
	return 0;
}

/* Looks for a write grant from @fd (which is consumed) upwards. */
static long check_ancestors(const struct broker *b, int fd)
{
	struct statx st, above;
	long r = broker_stat(fd, "", &st);

	for (int depth = 0; r == 0 && depth < DEPTH_MAX; depth++) {
		long up;

		if (is_root(b, &st)) {
			close_fd(fd);
			return 0;
		}
		up = thread4(__NR_openat, fd, "..", PIN | O_DIRECTORY, 0);
		close_fd(fd);
		if (up < 0)
			return up;
		fd = (int)up;
		r = broker_stat(fd, "", &above);
		if (r == 0 && broker_is_same(&st, &above))
			break; /* the top */
		st = above;
	}
	close_fd(fd);
	return r < 0 ? r : -EPERM;
}

/*
 * Opens the directory in which the object has its name. The name that the kernel shows is only a
 * hint where to look; the identity then proves that the object is there.
 */
static long open_parent(const struct broker *b, int object_fd, const struct statx *object)
{
	const struct open_how how = { .flags = PIN | O_DIRECTORY,
				      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	char number[16], path[BROKER_PATH_MAX + 1];
	struct statx st;
	char *name;
	long n, fd, r;

	text_number(number, sizeof(number), "", (uint32_t)object_fd);
	n = thread4(__NR_readlinkat, b->self_fds, number, path, sizeof(path) - 1);
	if (n < 0)
		return n;
	path[n] = 0;
	name = (size_t)n < sizeof(path) - 1 ? broker_split(path) : NULL;
	if (!name)
		return -EPERM;
	fd = thread4(__NR_openat2, AT_FDCWD, *path ? path : "/", &how, sizeof(how));
	if (fd < 0)
		return fd;
	r = broker_stat((int)fd, name, &st);
	if (r == 0 && !broker_is_same(&st, object))
		r = -ENOENT;
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	return fd;
}

/*
 * The way up starts at the parent also for directories: a directory without search permission
 * must be allowed to get it back.
 */
long broker_check_inside(const struct broker *b, int object_fd, struct statx *ret_st)
{
	struct statx st;
	long fd = -ENOENT, r = broker_stat(object_fd, "", &st);

	if (r < 0)
		return r;
	r = broker_check_type(st.stx_mode);
	if (r < 0)
		return r;
	if (!is_root(b, &st)) {
		for (int i = 0; fd == -ENOENT && i < TRIES; i++)
			fd = open_parent(b, object_fd, &st);
		if (fd < 0)
			/* Without a name (unlinked, pipe, socket, memfd) it is inside nothing. */
			return fd == -EACCES ? fd : -EPERM;
		r = check_ancestors(b, (int)fd);
		if (r < 0)
			return r;
	}
	*ret_st = st;
	return 0;
}

long broker_open_guest_fd(int task_fd, int fd)
{
	char name[16];
	long r;

	if (fd < 0)
		return -EBADF;
	text_number(name, sizeof(name), "fd/", (uint32_t)fd);
	r = thread4(__NR_openat, task_fd, name, PIN, 0);
	return r == -ENOENT ? -EBADF : r;
}

/* Where the guest's path starts; the object itself if it is named by a descriptor. */
long broker_open_base(int task_fd, const struct broker_call *call, const char *path)
{
	if (call->by_fd)
		return broker_open_guest_fd(task_fd, call->dir_fd);
	if (call->follow && broker_fd_alias(path) >= 0)
		return broker_open_guest_fd(task_fd, broker_fd_alias(path));
	if (*path == '/')
		return thread4(__NR_openat, AT_FDCWD, "/", PIN | O_DIRECTORY, 0);
	if (!*path && !call->empty_ok)
		return -ENOENT;
	if (call->dir_fd != AT_FDCWD)
		return broker_open_guest_fd(task_fd, call->dir_fd);
	return thread4(__NR_openat, task_fd, "cwd", PIN | O_DIRECTORY, 0);
}

/*
 * Links below /proc that lead to open files would lead to our own here: they are refused, except
 * the names of the guest's descriptors, which broker_open_base() has handled.
 */
long broker_open_object(int base_fd, const struct broker_call *call, const char *path)
{
	const struct open_how how = { .flags = PIN | (call->follow ? 0 : O_NOFOLLOW),
				      .resolve = RESOLVE_NO_MAGICLINKS };

	if (call->by_fd || !*path || (call->follow && broker_fd_alias(path) >= 0))
		return thread3(__NR_fcntl, base_fd, F_DUPFD_CLOEXEC, 3);
	return thread4(__NR_openat2, base_fd, path, &how, sizeof(how));
}

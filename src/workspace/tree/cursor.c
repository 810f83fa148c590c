/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/tree/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/calls.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define FILE_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* One step down, never through a link or a mount. */
static int open_below(int dir_fd, const char *name, int flags)
{
	const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
				 RESOLVE_NO_XDEV;
	struct stat parent, st;
	int r;

	/* -EAGAIN: a concurrent rename, so the kernel could not verify RESOLVE_BENEATH. */
	for (int i = 0; i < 100; i++) {
		r = sys_openat2(dir_fd, name, (unsigned)flags, resolve);
		if (r != -EAGAIN && r != -EINTR)
			break;
	}
	if (r != -ENOSYS && r != -EPERM)
		return r == -ELOOP ? -ENOTDIR : r;

	/* A seccomp filter around us refuses it. One name with O_NOFOLLOW is equivalent, except for
	 * mounts of the same filesystem. */
	r = openat(dir_fd, name, flags);
	if (r < 0)
		return errno == ELOOP ? -ENOTDIR : -errno;
	if (fstat(dir_fd, &parent) < 0 || fstat(r, &st) < 0) {
		int e = errno;

		close(r);
		return -e;
	}
	if (parent.st_dev != st.st_dev) {
		close(r);
		return -EXDEV;
	}
	return r;
}

/* By an O_PATH descriptor, which fchmod() does not take. */
static int chmod_fd(int path_fd, unsigned mode)
{
	char link[40];

	if (syscall(SYS_fchmodat2, path_fd, "", mode & 07777, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL && errno != EPERM)
		return -errno;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	return chmod(link, (mode_t)(mode & 07777)) < 0 ? -errno : 0;
}

/* Whether we have the owner's permissions @need. Root has them whatever the mode is. */
static bool is_open_to_us(int fd, unsigned mode, unsigned need)
{
	int how = ((need & 0400) ? R_OK : 0) | ((need & 0200) ? W_OK : 0) |
		  ((need & 0100) ? X_OK : 0);

	if ((mode & need) == need)
		return true;
	return syscall(SYS_faccessat2, fd, "", how, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

/*
 * Takes @path_fd (closes it) of a directory, opens it for reading and fills in @level. With
 * @may_open the mode is raised where it has to be.
 */
static int enter(int path_fd, unsigned need, bool may_open, struct cursor_level *level)
{
	struct stat st;
	int r = 0, fd = -1;

	if (fstat(path_fd, &st) < 0)
		r = -errno;
	if (r == 0)
		*level = (struct cursor_level){ .dev = st.st_dev,
						.ino = st.st_ino,
						.mode = st.st_mode & 07777 };
	if (r == 0 && may_open && st.st_uid == geteuid() &&
	    !is_open_to_us(path_fd, st.st_mode, need)) {
		r = chmod_fd(path_fd, level->mode | need);
		level->is_opened = r == 0;
	}
	if (r == 0) {
		fd = openat(path_fd, ".", DIR_FLAGS);
		if (fd < 0)
			r = -errno;
	}
	if (r < 0 && level->is_opened)
		(void)chmod_fd(path_fd, level->mode);
	close(path_fd);
	return r < 0 ? r : fd;
}

static int room_for_level(struct cursor *c)
{
	size_t cap = c->cap ? c->cap * 2 : 16;
	struct cursor_level *levels;

	if (c->depth + 1 < c->cap)
		return 0;
	if (cap > SIZE_MAX / sizeof(*levels))
		return -ENOMEM;
	levels = realloc(c->levels, cap * sizeof(*levels));
	if (!levels)
		return -ENOMEM;
	c->levels = levels;
	c->cap = cap;
	return 0;
}

int cursor_start(struct cursor *c, int root_fd, bool may_open)
{
	int r;

	*c = (struct cursor)CURSOR_INIT;
	c->may_open = may_open;
	c->need = 0500;
	r = room_for_level(c);
	if (r < 0)
		return r;
	c->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
	r = c->root_fd < 0 ? -errno : fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
	if (r >= 0)
		r = enter(r, c->need, may_open, &c->levels[0]);
	else if (c->root_fd >= 0)
		r = -errno;
	if (r < 0) {
		cursor_done(c);
		return r;
	}
	c->fd = r;
	return 0;
}

static bool is_one_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The usual case, no mode to raise: opened by one call instead of two. */
static int enter_plainly(const struct cursor *c, const char *name, struct cursor_level *level)
{
	struct stat st;
	int fd = open_below(c->fd, name, DIR_FLAGS);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	if (c->may_open && !is_open_to_us(fd, st.st_mode, c->need)) {
		close(fd);
		return -EACCES;
	}
	*level = (struct cursor_level){ .dev = st.st_dev,
					.ino = st.st_ino,
					.mode = st.st_mode & 07777 };
	return fd;
}

int cursor_down(struct cursor *c, const char *name)
{
	struct cursor_level level = { 0 };
	int r;

	if (!is_one_name(name))
		return -EINVAL;
	r = room_for_level(c);
	if (r < 0)
		return r;
	r = enter_plainly(c, name, &level);
	if (r == -EACCES && c->may_open) {
		r = open_below(c->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r >= 0)
			r = enter(r, c->need, true, &level);
	}
	if (r < 0)
		return r;
	close(c->fd);
	c->fd = r;
	c->levels[++c->depth] = level;
	return 0;
}

int cursor_up(struct cursor *c)
{
	const struct cursor_level *level = &c->levels[c->depth], *above;
	struct stat st;
	int fd;

	if (c->depth == 0)
		return -EINVAL;
	above = &c->levels[c->depth - 1];
	fd = openat(c->fd, "..", DIR_FLAGS);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	if (st.st_dev != above->dev || st.st_ino != above->ino) {
		close(fd);
		return -ESTALE;
	}
	if (level->is_opened)
		(void)fchmod(c->fd, (mode_t)level->mode);
	close(c->fd);
	c->fd = fd;
	c->depth--;
	return 0;
}

/* Restores all modes on the way to the root, as far as it still exists. */
static void climb(struct cursor *c)
{
	size_t opened = 0;

	for (size_t i = 1; i <= c->depth; i++) {
		if (c->levels[i].is_opened)
			opened = i;
	}
	if (opened == 0)
		return;
	while (c->depth > 0) {
		if (cursor_up(c) < 0)
			break;
	}
	if (c->depth > 0 && c->levels[c->depth].is_opened)
		(void)fchmod(c->fd, (mode_t)c->levels[c->depth].mode);
}

void cursor_done(struct cursor *c)
{
	if (c->fd >= 0) {
		climb(c);
		if (c->levels[0].is_opened)
			(void)chmod_fd(c->root_fd, c->levels[0].mode);
		close(c->fd);
	}
	if (c->root_fd >= 0)
		close(c->root_fd);
	free(c->levels);
	*c = (struct cursor)CURSOR_INIT;
}

static int to_root(struct cursor *c)
{
	int fd;

	if (c->depth == 0)
		return 0;
	climb(c);
	if (c->depth == 0)
		return 0;
	fd = openat(c->root_fd, ".", DIR_FLAGS);
	if (fd < 0)
		return -errno;
	close(c->fd);
	c->fd = fd;
	c->depth = 0;
	return 0;
}

int cursor_goto(struct cursor *c, const char *path)
{
	char name[NAME_MAX + 1];
	int r = *path == '/' ? -EINVAL : to_root(c);

	while (r == 0) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0)
			break;
		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		path += len;
		r = cursor_down(c, name);
	}
	return r;
}

/* Opens a file of ours whose mode forbids it: raises the mode, opens, restores the mode. */
static int open_closed_file(int dir_fd, const char *name, const struct stat *want)
{
	int path_fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int fd, r;

	if (path_fd < 0)
		return -errno;
	if (fstat(path_fd, &st) < 0)
		r = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_dev != want->st_dev || st.st_ino != want->st_ino)
		r = -ESTALE;
	else if (st.st_uid != geteuid())
		r = -EACCES;
	else
		r = chmod_fd(path_fd, (st.st_mode & 07777) | 0400);
	if (r == 0) {
		fd = openat(dir_fd, name, FILE_FLAGS);
		r = fd < 0 ? -errno : fd;
		(void)chmod_fd(path_fd, st.st_mode & 07777);
	}
	close(path_fd);
	return r;
}

int cursor_open_file(const struct cursor *c, const char *name, struct stat *ret_st)
{
	struct stat before, st;
	int fd;

	if (!is_one_name(name))
		return -EINVAL;
	/* Checked first: opening a device may have side effects. */
	if (fstatat(c->fd, name, &before, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(before.st_mode))
		return -EINVAL;
	fd = openat(c->fd, name, FILE_FLAGS);
	if (fd < 0 && errno == EACCES && c->may_open) {
		fd = open_closed_file(c->fd, name, &before);
		if (fd < 0)
			return fd;
	}
	if (fd < 0)
		return errno == ELOOP ? -EINVAL : -errno;
	if (fstat(fd, &st) < 0) {
		int e = errno;

		close(fd);
		return -e;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	if (ret_st)
		*ret_st = st;
	return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. Making, moving and opening a directory, and changing what it has, all change
 * its ctime. So everything below a directory with a new one may be new, whatever its own times say:
 * it may have been moved there as a whole. Below an old one only what is new itself is new.
 *
 * Old directories have to be walked, too: a change far down does not show further up. That stays
 * cheap since `git status` walks the same ones, and people keep them few; those that are large
 * (node_modules) are ignored. What is ignored can come back by a change of a .gitignore, so after
 * such a change everything in its reach counts as new.
 */
#include "git/untracked.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "git/fingerprint.h"
#include "git/put_aside.h"

#define DIRS_MAX 4000000 /* a run takes a while to make so many */
#define DEPTH_MAX 200	 /* directories inside each other */

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* A directory being read, and those that it lies in. */
struct level {
	struct git_untracked *u;
	int depth;
	bool is_git;	 /* in a repository's own directory, where only pipes matter */
	bool is_changed; /* it, or one that it lies in */
	bool is_new;	 /* as far as can be told */
	size_t len;	 /* of the path */
	char *path;	 /* PATH_MAX bytes, common to all */
	struct git_ignore ignore;
};

void git_counts_init(struct git_counts *counts, int fd)
{
	struct statfs fs;
	struct stat st;

	*counts = (struct git_counts){ .is_exact = false };
	if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
		return;
	counts->dev = st.st_dev;
	/* Elsewhere the number may be anything. */
	counts->is_exact = fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
			   fs.f_type == TMPFS_MAGIC;
}

long git_count_dirs(const struct git_counts *counts, const struct stat *st)
{
	if (!counts->is_exact || st->st_dev != counts->dev || st->st_nlink < 2)
		return -1;
	return (long)st->st_nlink - 2;
}

static int walk(const struct level *above, int dir_fd, const char *name);

static int walk_entries(const struct level *level, DIR *stream)
{
	int fd = dirfd(stream), r = 0;
	struct dirent *entry;

	while (r == 0 && (errno = 0, entry = readdir(stream)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
			r = walk(level, fd, entry->d_name);
		level->path[level->len] = '\0';
		if (r == 0 && level->is_new)
			r = git_pipes_check(level->u->pipes, fd, entry->d_name, entry->d_type,
					    level->path, level->is_git);
	}
	return r == 0 && errno ? -errno : r;
}

static int list(const struct level *level, int fd)
{
	/* Not by opening ".": it may be a directory that can be read but not searched. */
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0), r;
	DIR *stream = own < 0 ? NULL : fdopendir(own);

	if (!stream) {
		r = -errno;
		if (own >= 0)
			close(own);
		return r;
	}
	r = walk_entries(level, stream);
	closedir(stream);
	return r;
}

static int check_repository(const struct level *level, int fd)
{
	struct stat st;

	if (level->is_git || fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	level->path[level->len] = '\0';
	return level->u->found(level->u->ctx, fd, level->path, level->is_new);
}

/* All of it is new. The repository comes last: a pipe in it may be put aside by itself. */
static int look_into_new(const struct level *level, int fd)
{
	int r = list(level, fd);

	if (r == 0)
		r = check_repository(level, fd);
	return r < 0 ? r : 0;
}

static int look_into_old(struct level *level, int fd, const struct stat *st)
{
	int r = check_repository(level, fd);

	if (r < 0 || r == 1 || git_count_dirs(&level->u->counts, st) == 0)
		return r < 0 ? r : 0;
	r = git_ignore_read(fd, ".gitignore", &level->u->since, false, &level->ignore);
	if (r == 0)
		r = list(level, fd);
	git_ignore_done(&level->ignore);
	return r;
}

/* Takes @fd over. */
static int look_into(struct level *level, int fd, const struct stat *st)
{
	int r = level->is_changed ? look_into_new(level, fd) : look_into_old(level, fd, st);

	close(fd);
	return r;
}

/* The command may have closed it, to be opened by another run. */
static int open_closed(struct level *level, int dir_fd, const char *name, const struct stat *st)
{
	struct git_opened dir = { .fd = openat(dir_fd, name,
					       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) };
	int fd, r = 0;

	if (dir.fd < 0)
		return 0;
	git_open_dir(&dir);
	fd = openat(dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* What is closed to its owner's processes is so to git. */
	if (fd >= 0)
		r = look_into(level, fd, st);
	git_close_dir(&dir);
	close(dir.fd);
	return r;
}

/* An old directory without any other: only a repository of its own could be of interest. */
static bool is_empty_leaf(const struct level *level, int dir_fd, const char *name,
			  const struct stat *st)
{
	char path[NAME_MAX + sizeof("/.git")];
	struct stat dot_git;

	if (level->is_changed || git_count_dirs(&level->u->counts, st) != 0)
		return false;
	snprintf(path, sizeof(path), "%s/.git", name);
	return fstatat(dir_fd, path, &dot_git, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int enter(struct level *level, const struct level *above, int dir_fd, const char *name,
		 const struct stat *st)
{
	int fd;

	if (is_empty_leaf(level, dir_fd, name, st))
		return 0;
	if (++level->u->dirs > DIRS_MAX)
		return -E2BIG;
	if (level->depth > DEPTH_MAX)
		return -ELOOP;
	level->ignore = (struct git_ignore){ .above = &above->ignore, .dir_len = level->len };
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return look_into(level, fd, st);
	if (errno == EACCES)
		return level->is_changed ? open_closed(level, dir_fd, name, st) : 0;
	return errno == ENOENT ? 0 : -errno;
}

static int walk(const struct level *above, int dir_fd, const char *name)
{
	struct level level = {
		.u = above->u,
		.depth = above->depth + 1,
		.is_git = above->is_git || strcmp(name, ".git") == 0,
		.path = above->path,
	};
	size_t len = strlen(name);
	bool is_old;
	struct stat st;

	/* Longer paths are too long for git as well. */
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    above->len + len + 2 > PATH_MAX)
		return 0;
	is_old = git_is_later(&level.u->since, &st.st_ctim);
	if (level.is_git && is_old)
		return 0;
	level.len = above->len + (above->len > 0) + len;
	if (above->len > 0)
		level.path[above->len] = '/';
	memcpy(level.path + level.len - len, name, len + 1);
	level.is_changed = above->is_changed || !is_old;
	if (!level.is_changed && git_is_ignored(&above->ignore, level.path))
		return 0;
	level.is_new = above->is_new || level.is_changed || git_ignore_has_changed(&above->ignore);
	return enter(&level, above, dir_fd, name, &st);
}

int git_untracked_walk(struct git_untracked *u, const struct git_untracked_dir *dir)
{
	size_t len = strlen(dir->path), own = strlen(dir->name);
	char full[PATH_MAX];
	int r;
	struct level above = {
		.u = u, .path = full, .is_new = dir->is_new, .ignore = *dir->ignore
	};

	if (len + 1 > sizeof(full) || own > len)
		return 0;
	memcpy(full, dir->path, len + 1);
	above.len = len > own ? len - own - 1 : 0;
	r = walk(&above, dir->dir_fd, dir->name);
	u->has_failed |= r < 0;
	return r;
}

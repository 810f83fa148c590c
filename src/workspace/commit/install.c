/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives one name of the base its new file without losing what is written there at the same moment.
 *
 * The old file is never overwritten. It is exchanged with the new one, then examined: it can no
 * longer be reached by its name, so if it is what was checked, and is not open for writing, it can
 * be removed. Otherwise both are exchanged again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "sys/calls.h"
#include "workspace/commit/commit.h"

#define YOUNG_S 3		     /* longer than the time stamp granularity of any filesystem */
#define HASHED_MAX ((off_t)64 << 20) /* larger files are told by their times */
#define SWAPS_MAX 100		     /* against a process that keeps renaming */

/* The same object with the same content, as far as can be told from its inode. Renaming sets ctime
 * on most filesystems, so it counts only before that. */
static bool is_same(const struct stat *a, const struct stat *b, bool with_ctime)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
	       a->st_size == b->st_size && ws_is_same_time(&a->st_mtim, &b->st_mtim) &&
	       (!with_ctime || ws_is_same_time(&a->st_ctim, &b->st_ctim));
}

static int open_quietly(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_young(const struct stat *st)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return st->st_mtim.tv_sec >= now.tv_sec - YOUNG_S ||
	       st->st_ctim.tv_sec >= now.tv_sec - YOUNG_S;
}

static int hash_of(int dir_fd, const char *name, struct ws_hash *ret)
{
	int fd, r;

	fd = open_quietly(dir_fd, name);
	if (fd < 0)
		return fd;
	r = ws_hash_file(fd, ret);
	close(fd);
	return r;
}

int install_look(int dir_fd, const char *name, struct arena *arena, struct commit_old **ret)
{
	struct commit_old old = { 0 };

	*ret = NULL;
	if (fstatat(dir_fd, name, &old.st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISREG(old.st.st_mode) && old.st.st_size <= HASHED_MAX &&
	    (is_young(&old.st) || old.st.st_nlink > 1))
		old.has_hash = hash_of(dir_fd, name, &old.hash) == 0;
	*ret = arena_alloc(arena, sizeof(old));
	if (!*ret)
		return -ENOMEM;
	**ret = old;
	return 0;
}

/*
 * A lease is only granted while the file is not open for writing. Where it is refused for other
 * reasons (another owner, a filesystem without leases) nothing is known.
 */
static bool is_being_written(int fd)
{
	/* Should the file be opened by another name meanwhile: SIGURG is ignored by default. */
	if (fcntl(fd, F_SETSIG, SIGURG) < 0)
		return false;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return errno == EAGAIN;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/* Whether @name is what was checked, and is not being written. */
static bool is_as_checked(int dir_fd, const char *name, const struct commit_old *old)
{
	struct ws_hash hash;
	struct stat st;
	bool is_ok;
	int fd;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_same(&st, &old->st, false))
		return false;
	if (!S_ISREG(st.st_mode))
		return true;
	fd = open_quietly(dir_fd, name);
	if (fd < 0)
		/* Closed to us: only its times tell. */
		return fd == -EACCES && !old->has_hash;
	is_ok = !is_being_written(fd);
	/* After the lease: a writer may have finished just before it. */
	is_ok = is_ok && fstat(fd, &st) == 0 && is_same(&st, &old->st, false);
	if (is_ok && old->has_hash)
		is_ok = ws_hash_file(fd, &hash) == 0 &&
			memcmp(&hash, &old->hash, sizeof(hash)) == 0;
	close(fd);
	return is_ok;
}

/* A file with several names gets a new ctime when this commit replaces another of them. Its content
 * is compared when the name has been exchanged. */
static bool is_untouched(int dir_fd, const char *name, const struct commit_old *old)
{
	bool with_ctime = S_ISDIR(old->st.st_mode) || old->st.st_nlink == 1;
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       is_same(&st, &old->st, with_ctime);
}

static int inode_of(int dir_fd, const char *name, ino_t *ret)
{
	struct stat st;

	*ret = 0;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	*ret = st.st_ino;
	return 0;
}

static int drop(int dir_fd, const char *temp)
{
	int r = sys_unlinkat(dir_fd, temp, 0);

	return r == -ENOENT ? 0 : r;
}

/* Gives up with @r. @temp is our own file, which never had another name. */
static int give_up(int dir_fd, const char *temp, int r)
{
	int dropped = drop(dir_fd, temp);

	return r != INSTALL_CHANGED || dropped == 0 ? r : dropped;
}

/*
 * Exchanges back: @temp holds the user's file, @name had ours (@ours). If another file was renamed
 * over ours in between, that one comes out and has to go in again, because it was meant to replace
 * what we are about to put back. Repeated until ours comes out.
 */
static int put_back(int dir_fd, const char *temp, const char *name, ino_t ours)
{
	ino_t expected = ours, put = 0, out = 0;
	int r;

	for (int i = 0; i < SWAPS_MAX; i++) {
		r = inode_of(dir_fd, temp, &put);
		if (r < 0)
			return r;
		r = sys_renameat2(dir_fd, temp, name, RENAME_EXCHANGE);
		if (r == -ENOENT) {
			/* Deleted while ours was there: so the user wants no such file. */
			r = drop(dir_fd, temp);
			return r < 0 ? r : INSTALL_CHANGED;
		}
		if (r == 0)
			r = inode_of(dir_fd, temp, &out);
		if (r < 0)
			return r;
		if (out == expected) {
			r = drop(dir_fd, temp);
			return r < 0 ? r : INSTALL_CHANGED;
		}
		expected = put;
	}
	return -EBUSY;
}

/* Where names cannot be exchanged. */
static int replace(int dir_fd, const char *temp, const char *name, const struct commit_old *old)
{
	int r = INSTALL_CHANGED;

	if (is_as_checked(dir_fd, name, old))
		r = sys_renameat2(dir_fd, temp, name, 0);
	return r == 0 ? 0 : give_up(dir_fd, temp, r);
}

int install_over(int dir_fd, const char *temp, const char *name, const struct commit_old *old)
{
	ino_t ours;
	int r;

	r = inode_of(dir_fd, temp, &ours);
	if (r < 0)
		return r;
	if (!is_untouched(dir_fd, name, old))
		return give_up(dir_fd, temp, INSTALL_CHANGED);
	r = sys_renameat2(dir_fd, temp, name, RENAME_EXCHANGE);
	if (r == -EINVAL)
		return replace(dir_fd, temp, name, old);
	if (r < 0)
		return give_up(dir_fd, temp, r == -ENOENT ? INSTALL_CHANGED : r);
	if (!is_as_checked(dir_fd, temp, old))
		return put_back(dir_fd, temp, name, ours);
	return drop(dir_fd, temp);
}

/* Renames unless there is something called @to. */
static int rename_new(int dir_fd, const char *from, const char *to)
{
	ino_t ino;
	int r;

	r = sys_renameat2(dir_fd, from, to, RENAME_NOREPLACE);
	if (r != -EINVAL)
		return r;
	r = inode_of(dir_fd, to, &ino);
	if (r == 0)
		return -EEXIST;
	return r == -ENOENT ? sys_renameat2(dir_fd, from, to, 0) : r;
}

int install_new(int dir_fd, const char *temp, const char *name)
{
	int r = rename_new(dir_fd, temp, name);

	if (r == 0)
		return 0;
	return give_up(dir_fd, temp, r == -EEXIST ? INSTALL_CHANGED : r);
}

static int remove_dir(int dir_fd, const char *name)
{
	int r = sys_unlinkat(dir_fd, name, AT_REMOVEDIR);

	if (r == -ENOENT)
		return 0;
	/* It is not empty, or something else by now. */
	return r == -ENOTEMPTY || r == -EEXIST || r == -ENOTDIR || r == -EBUSY ? INSTALL_CHANGED
									       : r;
}

int install_nothing(int dir_fd, const char *temp, const char *name, const struct commit_old *old)
{
	int r;

	if (S_ISDIR(old->st.st_mode))
		return remove_dir(dir_fd, name);
	if (!is_untouched(dir_fd, name, old)) {
		ino_t ino;

		return inode_of(dir_fd, name, &ino) == -ENOENT ? 0 : INSTALL_CHANGED;
	}
	r = rename_new(dir_fd, name, temp);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (is_as_checked(dir_fd, temp, old))
		return drop(dir_fd, temp);
	r = rename_new(dir_fd, temp, name);
	if (r == -EEXIST)
		/* A new file was saved where we had taken the old one away. */
		r = drop(dir_fd, temp);
	return r < 0 ? r : INSTALL_CHANGED;
}

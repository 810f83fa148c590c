/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk. Its memory does not depend on the tree: it keeps descriptors of the last OPEN_MAX
 * directories on the way down, and the position in each listing. Further up the way back leads over
 * "..", and only into the directory it came from: the guest renames as it likes. If it is another
 * one, the walk starts again, a few times.
 *
 * A file with several names is counted for each name by its share. All of them lie in here, since a
 * hard link cannot leave a mount. So there is no table that the guest could fill.
 */
#include "init/watch/dir_usage.h"

#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <stddef.h>

#include "bare/dirents.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "init/init.h"
#include "init/watch/figures.h"

#define LEVELS_MAX 8192 /* nothing deeper is counted */
#define OPEN_MAX 64
#define ENTRIES_BYTES 4096
#define TRIES 3
#define PAGE 4096u
#define AHEAD (64u << 10) /* blocks a file may have beyond its end: names, attributes, lists */
#define ONE_INODE ((uint64_t)1 << 16)
#define SEEK_FROM_START 0

/* One of the directories from the top to where the walk is. */
struct level {
	uint64_t ino;
	int64_t off; /* in its listing, after the directory below */
};

struct slot {
	int fd, level;
	struct dir_cursor cursor;
	char entries[ENTRIES_BYTES] __attribute__((aligned(8)));
};

static struct level levels[LEVELS_MAX];
static struct slot slots[OPEN_MAX]; /* a level's is level % OPEN_MAX */

struct walk {
	uint64_t dev;
	int level;
	const struct dir_time *since;
	uint64_t bytes, shares; /* of inodes, in parts of one */
	uint64_t old_bytes, old_shares;
	int is_blind;
};

static void close_slot(struct slot *s)
{
	drop_fd(&s->fd);
}

static struct slot *slot_of(int level)
{
	return &slots[level % OPEN_MAX];
}

/* Into no other mount: what is mounted in a copy is not part of it. */
static long open_dir(int dir_fd, const char *name)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return raw_syscall(__NR_openat2, dir_fd, RAW_ARG(name), RAW_ARG(&how), sizeof(how), 0, 0);
}

static uint64_t round_up(uint64_t value)
{
	return (value + PAGE - 1) / PAGE * PAGE;
}

static void add(struct walk *w, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * STAT_BLOCK, links = 1, most, share;

	if ((st->st_mode & S_IFMT) == S_IFREG) {
		/* Some file systems reserve as much again ahead of a writer, and free it later. The
		 * command itself cannot reserve: a filter refuses fallocate(). */
		most = round_up((uint64_t)st->st_size) + AHEAD;
		bytes = bytes < most ? bytes : most;
	}
	if ((st->st_mode & S_IFMT) != S_IFDIR && st->st_nlink > 1)
		links = st->st_nlink;
	bytes = (bytes + links - 1) / links;
	share = (ONE_INODE + links - 1) / links;
	w->bytes += bytes;
	w->shares += share;
	/* Nobody can set this time. */
	if ((int64_t)st->st_ctime < w->since->sec ||
	    ((int64_t)st->st_ctime == w->since->sec &&
	     (int64_t)st->st_ctime_nsec <= w->since->nsec)) {
		w->old_bytes += bytes;
		w->old_shares += share;
	}
}

/* A name that is gone or no longer a directory does not matter. */
static long note_error(struct walk *w, long r)
{
	if (r == -EACCES || r == -EPERM) {
		w->is_blind = 1;
		return 0;
	}
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV || r == -ESTALE)
		return 0;
	return r;
}

/* @fd becomes the directory of @level, to be read from @off. */
static long enter(struct walk *w, int level, long fd, int64_t off)
{
	struct slot *s = slot_of(level);
	struct stat st;
	long r = raw_syscall(__NR_fstat, fd, RAW_ARG(&st), 0, 0, 0, 0);

	if (r == 0 && level == 0)
		w->dev = st.st_dev;
	/* On the way up it must be the directory that the walk came from. */
	if (r == 0 && (st.st_dev != w->dev || (level < w->level && st.st_ino != levels[level].ino)))
		r = -EAGAIN;
	if (r == 0 && (off || level < w->level))
		r = raw_syscall(__NR_lseek, fd, off, SEEK_FROM_START, 0, 0, 0);
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	close_slot(s);
	s->fd = (int)fd;
	s->level = level;
	s->cursor = (struct dir_cursor){ fd, s->entries, sizeof(s->entries), 0, 0 };
	levels[level].ino = st.st_ino;
	w->level = level;
	return 0;
}

static long go_down(struct walk *w, const struct slot *from, const struct dir_entry *e)
{
	long fd;

	if (w->level + 1 == LEVELS_MAX) {
		w->is_blind = 1;
		return 0;
	}
	levels[w->level].off = e->off;
	fd = open_dir(from->fd, e->name);
	return fd < 0 ? note_error(w, fd) : enter(w, w->level + 1, fd, 0);
}

static long go_up(struct walk *w)
{
	struct slot *from = slot_of(w->level), *to = slot_of(w->level - 1);
	long fd, r = 0;

	if (to->fd < 0 || to->level != w->level - 1) {
		fd = open_dir(from->fd, "..");
		r = fd < 0 ? fd : enter(w, w->level - 1, fd, levels[w->level - 1].off);
	} else {
		w->level--;
	}
	close_slot(from);
	/* It was moved or locked meanwhile: start again. */
	return r == -EACCES || r == -ENOENT || r == -EXDEV ? -EAGAIN : r;
}

static long take_entry(struct walk *w, const struct slot *s, const struct dir_entry *e)
{
	struct stat st;
	long r;

	r = raw_syscall(__NR_newfstatat, s->fd, RAW_ARG(e->name), RAW_ARG(&st), AT_SYMLINK_NOFOLLOW,
			0, 0);
	if (r < 0)
		return note_error(w, r);
	add(w, &st);
	return (st.st_mode & S_IFMT) == S_IFDIR ? go_down(w, s, e) : 0;
}

static long walk(struct walk *w)
{
	long r = 0;

	while (r == 0) {
		struct slot *s = slot_of(w->level);
		const struct dir_entry *e = dir_next(&s->cursor);

		if (e) {
			r = take_entry(w, s, e);
			continue;
		}
		r = s->cursor.len == -ENOENT ? 0 : s->cursor.len;
		if (r == 0 && w->level == 0)
			return 0;
		if (r == 0)
			r = go_up(w);
	}
	return r;
}

static long walk_from(int dir_fd, struct walk *w)
{
	long r, fd = open_dir(dir_fd, ".");

	w->level = 0;
	for (int i = 0; i < OPEN_MAX; i++)
		slots[i].fd = -1;
	r = fd < 0 ? fd : enter(w, 0, fd, 0);
	if (r == 0)
		r = walk(w);
	for (int i = 0; i < OPEN_MAX; i++)
		close_slot(&slots[i]);
	return r;
}

long dir_usage_count(int dir_fd, const struct dir_time *since, struct dir_usage *ret)
{
	long r = -EAGAIN;

	for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
		struct walk w = { .since = since };

		r = walk_from(dir_fd, &w);
		ret->bytes = w.bytes;
		ret->inodes = (w.shares + ONE_INODE - 1) / ONE_INODE;
		ret->old_bytes = w.old_bytes;
		ret->old_inodes = w.old_shares / ONE_INODE;
		ret->is_blind = w.is_blind;
	}
	return r;
}

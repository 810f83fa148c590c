/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying trees: two cursors go through both at once. Directories are created with mode 0700 and
 * get their mode and times when they are left.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "workspace/tree/cursor.h"
#include "workspace/tree/links.h"
#include "workspace/tree/tree.h"

#define PROGRESS_EVERY 64
#define NAMES_PER_ENTRY 16
#define SWAPS_MAX 8
#define SWAPPED 1 /* the original was replaced meanwhile */

struct level {
	struct names names;
	size_t next;
	struct stat st; /* of the original */
};

struct copier {
	struct cursor from, to;
	struct tree_copy *copy;
	struct level *levels; /* one for each level of the cursors */
	size_t n, cap;
	struct links links;
	bool any_shared, any_copied;
};

static unsigned new_mode(const struct copier *c, const struct stat *st)
{
	unsigned mode = st->st_mode & 07777;

	/* Another user's set-id program must not become one that runs as us. */
	if (!c->copy->is_upper && st->st_uid != geteuid())
		mode &= ~(unsigned)(S_ISUID | S_ISGID);
	return mode;
}

static int set_mode_and_times(const struct copier *c, int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };

	/* First: it takes set-id bits away. */
	if (c->copy->gives_away && fchown(fd, c->copy->uid, c->copy->gid) < 0)
		return -errno;
	if (fchmod(fd, (mode_t)new_mode(c, st)) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int set_attributes(const struct copier *c, int from_fd, int to_fd)
{
	return c->copy->is_upper ? file_copy_upper_attributes(from_fd, to_fd)
				 : file_copy_attributes(from_fd, to_fd);
}

/* Both cursors are in the directory: reads its names. */
static int begin_level(struct copier *c)
{
	size_t cap = c->cap ? c->cap * 2 : 16;
	struct level *levels, *level;
	int r;

	if (c->n == c->cap) {
		levels = realloc(c->levels, cap * sizeof(*levels));
		if (!levels)
			return -ENOMEM;
		c->levels = levels;
		c->cap = cap;
	}
	level = &c->levels[c->n];
	*level = (struct level){ 0 };
	if (fstat(c->from.fd, &level->st) < 0)
		return -errno;
	/* The original mode, not the one that the cursor raised for the visit. */
	level->st.st_mode = (level->st.st_mode & S_IFMT) | c->from.levels[c->from.depth].mode;
	r = set_attributes(c, c->from.fd, c->to.fd);
	if (r == 0)
		r = names_read(c->from.fd, &level->names);
	if (r == 0)
		c->n++;
	return r;
}

static int end_level(struct copier *c)
{
	struct level *level = &c->levels[c->n - 1];
	int fd = fcntl(c->to.fd, F_DUPFD_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	r = cursor_up(&c->from);
	if (r == 0)
		r = cursor_up(&c->to);
	if (r == 0)
		r = set_mode_and_times(c, fd, &level->st);
	close(fd);
	if (r < 0)
		return r;
	names_done(&level->names);
	c->n--;
	return 0;
}

static int give_away(const struct copier *c, const char *name)
{
	if (!c->copy->gives_away)
		return 0;
	return fchownat(c->to.fd, name, c->copy->uid, c->copy->gid, AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

/* Another filesystem is mounted there: the directory is made, but not entered. */
static int copy_mount_point(struct copier *c, const char *name, const struct stat *st)
{
	if (mkdirat(c->to.fd, name, (mode_t)(st->st_mode & 0777)) < 0)
		return -errno;
	c->copy->entries++;
	return give_away(c, name);
}

static int copy_directory(struct copier *c, const char *name, const struct stat *st)
{
	int r = cursor_down(&c->from, name);

	if (r == -EXDEV)
		return copy_mount_point(c, name, st);
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? SWAPPED : r;
	if (mkdirat(c->to.fd, name, 0700) < 0)
		r = -errno;
	c->copy->entries++;
	if (r == 0)
		r = cursor_down(&c->to, name);
	return r < 0 ? r : begin_level(c);
}

static int fill_file(struct copier *c, int from, int to, const struct stat *st)
{
	bool is_shared;
	int r = file_copy_counted(from, to, st, &is_shared, c->copy);

	if (r == 0 && st->st_size > 0) {
		c->any_shared |= is_shared;
		c->any_copied |= !is_shared;
	}
	if (r == 0)
		r = set_attributes(c, from, to);
	if (r == 0)
		r = set_mode_and_times(c, to, st);
	return r;
}

static int copy_file(struct copier *c, const char *name)
{
	struct stat st;
	int from = cursor_open_file(&c->from, name, &st), to, r;

	if (from == -ENOENT || from == -EINVAL || from == -ESTALE)
		return SWAPPED;
	if (from < 0)
		return from;
	if (st.st_nlink > 1) {
		r = links_make(&c->links, &st, c->to.fd, name);
		if (r != 0) {
			close(from);
			return r < 0 ? r : 0;
		}
	}
	to = openat(c->to.fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = to < 0 ? -errno : fill_file(c, from, to, &st);
	c->copy->entries++;
	close(from);
	if (to >= 0 && close(to) < 0 && r == 0)
		r = -errno;
	if (r == 0 && st.st_nlink > 1)
		r = links_add(&c->links, &st, c->to.fd, name);
	return r;
}

static int copy_symlink(struct copier *c, const char *name, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	char target[PATH_MAX + 1];
	ssize_t len = readlinkat(c->from.fd, name, target, sizeof(target));

	if (len < 0)
		return errno == ENOENT || errno == EINVAL ? SWAPPED : -errno;
	if ((size_t)len == sizeof(target))
		return -ENAMETOOLONG;
	target[len] = '\0';
	if (symlinkat(target, c->to.fd, name) < 0 || give_away(c, name) < 0 ||
	    utimensat(c->to.fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	c->copy->entries++;
	return 0;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int make_node(struct copier *c, const char *name, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	mode_t mode = st->st_mode & (S_IFMT | 0777);

	if (mknodat(c->to.fd, name, mode, makedev(0, 0)) < 0)
		return -errno;
	c->copy->entries++;
	if (is_whiteout(st))
		return 0;
	if (give_away(c, name) < 0 || fchmodat(c->to.fd, name, mode & 0777, 0) < 0 ||
	    utimensat(c->to.fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

/* A whiteout, a FIFO or a socket. An overlay's whiteouts are names of one file. */
static int copy_node(struct copier *c, const char *name, const struct stat *st)
{
	int r = st->st_nlink > 1 ? links_make(&c->links, st, c->to.fd, name) : 0;

	if (r != 0)
		return r < 0 ? r : 0;
	r = make_node(c, name, st);
	return r == 0 && st->st_nlink > 1 ? links_add(&c->links, st, c->to.fd, name) : r;
}

static bool is_node(const struct copier *c, const struct stat *st)
{
	if (is_whiteout(st))
		return c->copy->is_upper;
	return c->copy->has_special && (S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode));
}

/* 0, -errno or SWAPPED; then nothing was made. */
static int copy_as(struct copier *c, const char *name, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return copy_directory(c, name, st);
	if (S_ISREG(st->st_mode))
		return copy_file(c, name);
	if (S_ISLNK(st->st_mode))
		return copy_symlink(c, name, st);
	return is_node(c, st) ? copy_node(c, name, st) : 0;
}

/* The next name of the current directory. The host may replace it at any moment. */
static int copy_entry(struct copier *c)
{
	struct level *level = &c->levels[c->n - 1];
	const char *name = level->names.v[level->next++];
	struct stat st;
	int r;

	for (int i = 0; i < SWAPS_MAX; i++) {
		if (fstatat(c->from.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : -errno;
		r = copy_as(c, name, &st);
		if (r == 0)
			c->copy->files++;
		if (r != SWAPPED)
			return r;
	}
	return 0;
}

/* -EDQUOT if there is more than may be; -ECANCELED if whoever asked for it has enough. */
static int check(const struct copier *c)
{
	const struct tree_room *room = c->copy->room;
	struct tree_copy *copy = c->copy;

	copy->is_too_much = room && (copy->bytes > room->bytes || copy->entries > room->entries ||
				     copy->files / NAMES_PER_ENTRY > room->entries);
	if (copy->is_too_much)
		return -EDQUOT;
	return copy->files % PROGRESS_EVERY == 0 && copy->progress &&
			       copy->progress(copy->arg, copy)
		       ? -ECANCELED
		       : 0;
}

static int walk(struct copier *c)
{
	int r = begin_level(c);

	if (r == 0)
		r = links_start(&c->links, c->to.root_fd, &c->levels[0].names);
	while (r == 0) {
		const struct level *level = &c->levels[c->n - 1];

		if (level->next < level->names.n) {
			r = copy_entry(c);
			if (r == 0)
				r = check(c);
		} else if (c->n > 1) {
			r = end_level(c);
		} else {
			break;
		}
	}
	return r;
}

/* Puts the path of what is being copied into copy->failed, the end of it if it is too long. */
static void tell_where(const struct copier *c)
{
	char *buf = c->copy->failed;
	size_t at = sizeof(c->copy->failed) - 1;

	buf[at] = '\0';
	for (size_t i = c->n; i-- > 0;) {
		const struct level *level = &c->levels[i];
		const char *name = level->next > 0 ? level->names.v[level->next - 1] : "";
		size_t len = strlen(name);

		if (len + 1 > at)
			break;
		if (buf[at] != '\0' && len > 0)
			buf[--at] = '/';
		at -= len;
		memcpy(buf + at, name, len);
	}
	memmove(buf, buf + at, sizeof(c->copy->failed) - at);
}

int tree_copy(int from_fd, int to_fd, struct tree_copy *copy)
{
	struct copier c = {
		.from = CURSOR_INIT, .to = CURSOR_INIT, .copy = copy, .links = { .stage_fd = -1 }
	};
	int r, r2;

	copy->files = copy->bytes = copy->entries = 0;
	copy->was_reflinked = copy->is_too_much = false;
	copy->failed[0] = '\0';
	r = cursor_start(&c.from, from_fd, copy->is_upper);
	if (r == 0)
		r = cursor_start(&c.to, to_fd, false);
	if (r == 0)
		r = walk(&c);
	if (r < 0)
		tell_where(&c);
	r2 = links_done(&c.links);
	if (r == 0)
		r = r2;
	if (r == 0)
		r = set_mode_and_times(&c, to_fd, &c.levels[0].st);
	copy->was_reflinked = r == 0 && c.any_shared && !c.any_copied;
	while (c.n > 0)
		names_done(&c.levels[--c.n].names);
	free(c.levels);
	cursor_done(&c.from);
	cursor_done(&c.to);
	return r;
}

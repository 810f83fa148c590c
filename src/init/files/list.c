/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is there: one object, or everything in a directory.
 *
 * Each directory is read once, from beginning to end, so that nothing is told twice. The
 * directories in it are noted, and visited afterwards.
 */
#include "init/files/server.h"
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "bare/dirents.h"
#include "bare/fd.h"
#include "bare/raw.h"

#define TYPE_SHIFT 12 /* from an entry's type to st_mode */

/* Where the link leads, in s->text; 0 if it is none any more. */
static size_t target_of(struct server *s, long dir, const char *name)
{
	long n = raw_syscall(__NR_readlinkat, dir, RAW_ARG(name), RAW_ARG(s->text), sizeof(s->text),
			     0, 0);

	return n < 0 ? 0 : (size_t)n;
}

static void fill_record(const struct statx *st, struct cordon_files_record *ret)
{
	*ret = (struct cordon_files_record){
		.size = st->stx_size,
		.mtime_ns = st->stx_mtime.tv_sec * 1000000000 + (int64_t)st->stx_mtime.tv_nsec,
		.mode = st->stx_mode,
		.uid = st->stx_uid,
		.gid = st->stx_gid,
	};
}

long serve_stat(struct server *s)
{
	int flags = s->request.flags & CORDON_FILES_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
	struct cordon_files_record record;
	struct statx st;
	long r = serve_statx(AT_FDCWD, s->path, flags, &st);

	if (r < 0)
		return r;
	fill_record(&st, &record);
	if (S_ISLNK(st.stx_mode))
		record.target_len = (uint32_t)target_of(s, AT_FDCWD, s->path);
	serve_put(s, &record, sizeof(record));
	serve_put(s, s->text, record.target_len);
	return 0;
}

struct listing {
	struct server *s;
	uint64_t left; /* records */
	uint32_t bytes;
};

/* 1 if it is a directory, 0 if not, -ENOENT if it is gone, -E2BIG if there is too much. */
static long put_entry(struct listing *l, long dir, const struct dir_entry *e,
		      const struct serve_level *level)
{
	const struct serve_walk *w = &l->s->walk;
	size_t name_len = str_len(e->name);
	struct cordon_files_record record = { .mode = (uint32_t)e->type << TYPE_SHIFT };
	struct statx st;
	long r = serve_statx(dir, e->name, AT_SYMLINK_NOFOLLOW, &st);

	if (r == -ENOENT)
		return r;
	if (r == 0)
		fill_record(&st, &record);
	if (r == 0 && S_ISLNK(record.mode))
		record.target_len = (uint32_t)target_of(l->s, dir, e->name);
	record.name_len = level->relative + (uint32_t)name_len;
	/* The guest decides how long each of them is. */
	if (record.name_len + record.target_len + sizeof(record) >
	    CORDON_FILES_LIST_BYTES - l->bytes)
		return -E2BIG;
	l->bytes += record.name_len + record.target_len + (uint32_t)sizeof(record);
	serve_put(l->s, &record, sizeof(record));
	serve_put(l->s, w->relative, level->relative);
	serve_put(l->s, e->name, name_len);
	serve_put(l->s, l->s->text, record.target_len);
	return S_ISDIR(record.mode);
}

/* All of one directory; with @notes what lies in it is noted. 1: there is more than is wanted. */
static long list_dir(struct listing *l, long dir, const struct serve_level *level, int notes)
{
	struct serve_walk *w = &l->s->walk;
	struct dir_cursor cursor = walk_entries(w, dir);
	const struct dir_entry *e;
	long r;

	while ((e = dir_next(&cursor))) {
		if (l->left == 0)
			return 1;
		r = put_entry(l, dir, e, level);
		if (r == -E2BIG)
			return r;
		if (r < 0)
			continue;
		l->left--;
		if (r > 0 && notes)
			r = walk_note(w, e->name);
		if (r < 0)
			return r;
	}
	return cursor.len;
}

/* Appends the name of a directory in @level, and a slash. */
static long extend(struct serve_walk *w, const struct serve_level *level, const char *name,
		   struct serve_level *ret)
{
	size_t len = str_len(name);

	if (len + 1 > SERVE_RELATIVE_BYTES - level->relative)
		return -ENAMETOOLONG;
	memcpy(w->relative + level->relative, name, len);
	w->relative[level->relative + len] = '/';
	ret->relative = level->relative + (uint32_t)len + 1;
	return 0;
}

static int can_search(long dir)
{
	long fd = raw_syscall(__NR_openat, dir, RAW_ARG("."), O_PATH | O_CLOEXEC, 0, 0, 0);

	close_fd(fd);
	return fd >= 0;
}

/* The directory @name in the current one, with what is in it. 1: there is more than is wanted. */
static long visit(struct listing *l, uint32_t name, int notes)
{
	struct serve_walk *w = &l->s->walk;
	struct serve_level there = { .name = name };
	long fd = serve_open_dir(w->fd, w->names + name), r;

	if (fd < 0) {
		/* If it is gone or replaced, go on; if it may not be read, tell the client. */
		if (fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
			l->s->end_flags |= CORDON_FILES_SKIPPED;
		walk_forget(w, name);
		return 0;
	}
	r = extend(w, &w->levels[w->depth], w->names + name, &there);
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	/* Nothing in it could be visited, and there would be no way back. */
	if (!can_search(fd)) {
		r = list_dir(l, fd, &there, 0);
		close_fd(fd);
		walk_forget(w, name);
		return r;
	}
	r = walk_down(w, fd, name);
	if (r < 0)
		return r;
	w->levels[w->depth].relative = there.relative;
	return list_dir(l, w->fd, &w->levels[w->depth], notes);
}

/* Back to the nearest directory in which there is something left to visit; 1: there is none. */
static long climb(struct serve_walk *w)
{
	uint32_t depth = w->depth;

	while (!walk_has_more(w, depth)) {
		if (depth == 0)
			return 1;
		walk_forget(w, w->levels[depth--].name);
	}
	return walk_up(w, depth);
}

static long list_all(struct listing *l)
{
	struct serve_walk *w = &l->s->walk;
	uint32_t depth = l->s->request.depth;
	long r = list_dir(l, w->fd, &w->levels[0], depth != 1);

	while (r == 0) {
		r = climb(w);
		if (r > 0)
			return 0;
		/* The contents of the current directory are at the (depth + 1)th level. */
		if (r == 0)
			r = visit(l, walk_next(w), depth == 0 || w->depth + 2 < depth);
	}
	return r;
}

long serve_list(struct server *s)
{
	struct listing l = { s, s->request.max ? s->request.max : ~(uint64_t)0, 0 };
	int flags = s->request.flags & CORDON_FILES_NOFOLLOW ? O_NOFOLLOW : 0;
	long r, fd = raw_syscall(__NR_openat, AT_FDCWD, RAW_ARG(s->path),
				 O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | flags, 0, 0, 0);

	if (fd < 0)
		return fd;
	r = walk_start(&s->walk, fd);
	if (r == 0)
		r = list_all(&l);
	if (r > 0) {
		s->end_flags |= CORDON_FILES_MORE;
		r = 0;
	}
	walk_end(&s->walk);
	return r;
}

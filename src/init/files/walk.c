/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in a tree that may be deeper than a path can be long or descriptors are available, and
 * that other processes may be changing. See struct serve_walk.
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

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#define UP_STEPS 256u
#define UP_BYTES ((size_t)3 * UP_STEPS)
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

long serve_statx(long dir, const char *name, int flags, struct statx *ret)
{
	return raw_syscall(__NR_statx, dir, RAW_ARG(name), flags | AT_NO_AUTOMOUNT,
			   STATX_BASIC_STATS, RAW_ARG(ret), 0);
}

struct serve_id serve_id_of(const struct statx *st)
{
	return (struct serve_id){ st->stx_ino, st->stx_dev_major, st->stx_dev_minor };
}

int serve_is_same(const struct serve_id *a, const struct serve_id *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

long serve_open_dir(long dir, const char *name)
{
	return raw_syscall(__NR_openat, dir, RAW_ARG(name), DIR_FLAGS, 0, 0, 0);
}

static long id_of_fd(long fd, struct serve_id *ret)
{
	struct statx st;
	long r = serve_statx(fd, "", AT_EMPTY_PATH, &st);

	if (r == 0)
		*ret = serve_id_of(&st);
	return r;
}

struct dir_cursor walk_entries(struct serve_walk *w, long dir)
{
	return (struct dir_cursor){ .fd = dir, .buffer = w->entries, .size = sizeof(w->entries) };
}

long walk_start(struct serve_walk *w, long fd)
{
	w->fd = fd;
	w->depth = 0;
	/* Where a directory's names begin tells whose they are; 0 is the top's own, which has none.
	 */
	w->n_names = 1;
	w->levels[0] = (struct serve_level){ .name = 0 };
	return id_of_fd(fd, &w->levels[0].id);
}

/* Where the names that were noted in a directory begin: behind its own. */
static uint32_t first_name(const struct serve_walk *w, uint32_t depth)
{
	uint32_t name = w->levels[depth].name;

	return name + (uint32_t)str_len(w->names + name) + 1;
}

long walk_note(struct serve_walk *w, const char *name)
{
	size_t len = str_len(name) + 1;

	if (len > SERVE_NAMES_BYTES - w->n_names)
		return -ENOMEM;
	memcpy(w->names + w->n_names, name, len);
	w->n_names += (uint32_t)len;
	return 0;
}

uint32_t walk_next(const struct serve_walk *w)
{
	uint32_t first = first_name(w, w->depth), at = w->n_names;

	if (at <= first)
		return SERVE_NO_NAME;
	/* The last one: back to the end of the one before. */
	for (at--; at > first && w->names[at - 1]; at--)
		;
	return at;
}

int walk_has_more(const struct serve_walk *w, uint32_t depth)
{
	return w->n_names > first_name(w, depth);
}

void walk_forget(struct serve_walk *w, uint32_t name)
{
	w->n_names = name;
}

long walk_down(struct serve_walk *w, long fd, uint32_t name)
{
	struct serve_level *level = &w->levels[w->depth + 1];
	long r = w->depth + 1 < SERVE_LEVELS_MAX ? 0 : -ENAMETOOLONG;

	if (r == 0) {
		*level = (struct serve_level){ .name = name };
		r = id_of_fd(fd, &level->id);
	}
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	close_fd(w->fd);
	w->fd = fd;
	w->depth++;
	return 0;
}

/* "..", so many times as fit or are wanted; how many. */
static uint32_t way_up(uint32_t steps, char ret[UP_BYTES])
{
	uint32_t n = steps < UP_STEPS ? steps : UP_STEPS;

	for (uint32_t i = 0; i < n; i++)
		memcpy(ret + (size_t)3 * i, "../", 3);
	ret[(size_t)3 * n - 1] = 0;
	return n;
}

/* Several steps cost little more than one: opening a directory makes Landlock check all those above
 * it. */
long walk_up(struct serve_walk *w, uint32_t depth)
{
	while (w->depth > depth) {
		char path[UP_BYTES];
		uint32_t n = way_up(w->depth - depth, path);
		struct serve_id id;
		long fd = serve_open_dir(w->fd, path), r;

		if (fd < 0)
			return -ESTALE;
		r = id_of_fd(fd, &id);
		if (r == 0 && !serve_is_same(&id, &w->levels[w->depth - n].id))
			r = -ESTALE;
		if (r < 0) {
			close_fd(fd);
			return r;
		}
		close_fd(w->fd);
		w->fd = fd;
		w->depth -= n;
	}
	return 0;
}

void walk_end(struct serve_walk *w)
{
	close_fd(w->fd);
	w->fd = -1;
}

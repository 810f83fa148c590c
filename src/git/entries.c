/* SPDX-License-Identifier: Apache-2.0 */
#include "git/entries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "git/index.h"
#include "git/read.h"

struct collector {
	struct arena *arena;
	struct git_entries *entries;
	struct git_reading *reading;
	bool wants_all, has_unnamed;
	bool is_unclean; /* it has a path that no git writes */
	int (*each_file)(void *ctx, const char *path, size_t len); /* instead of collecting */
	void *ctx;
};

int git_count_kept(struct git_reading *reading, size_t bytes)
{
	reading->kept += bytes;
	return reading->kept > GIT_KEPT_MAX ? -E2BIG : 0;
}

/* The index is sorted, so a directory mostly follows itself. */
static int collect_dir(struct collector *c, const char *path, size_t len)
{
	struct git_entries *e = c->entries;
	const char **dir;

	while (len > 0 && path[len - 1] != '/')
		len--;
	len -= len > 0;
	if (e->n_dirs > 0 && strncmp(e->dirs[e->n_dirs - 1], path, len) == 0 &&
	    e->dirs[e->n_dirs - 1][len] == '\0')
		return 0;
	if (git_count_kept(c->reading, len + 1 + 2 * sizeof(*dir)) < 0)
		return -E2BIG;
	dir = arena_add(c->arena, &e->dirs, &e->n_dirs, &e->cap_dirs, sizeof(*dir));
	if (!dir)
		return -ENOMEM;
	*dir = arena_strndup(c->arena, path, len);
	return *dir ? 0 : -ENOMEM;
}

static int collect_file(struct collector *c, const char *path, size_t len)
{
	if (!git_index_path_is_clean(path, len)) {
		c->is_unclean = true;
		return 0;
	}
	return c->each_file ? c->each_file(c->ctx, path, len) : collect_dir(c, path, len);
}

static int collect(void *ctx, uint32_t mode, const char *path, size_t len)
{
	struct collector *c = ctx;
	struct git_entries *e = c->entries;
	bool is_link = (mode & GIT_INDEX_TYPE) == GIT_INDEX_LINK;
	bool is_sparse = (mode & GIT_INDEX_TYPE) == GIT_INDEX_SPARSE_DIR;
	struct git_entry *v;

	if (len == 0) {
		c->has_unnamed |= is_link || is_sparse;
		return 0;
	}
	if (!is_link && !is_sparse && !c->wants_all)
		return collect_file(c, path, len);
	if (c->each_file)
		return 0;
	if (is_sparse && path[len - 1] == '/')
		len--;
	if (!git_index_path_is_clean(path, len)) {
		c->is_unclean = true;
		return 0;
	}
	/* The array grows by copying itself. */
	if (git_count_kept(c->reading, len + 1 + 2 * sizeof(*v)) < 0)
		return -E2BIG;
	v = arena_add(c->arena, &e->v, &e->n, &e->cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->path = arena_strndup(c->arena, path, len);
	v->is_sparse = is_sparse;
	return v->path ? 0 : -ENOMEM;
}

/* @held: bytes of another one that is in memory meanwhile. */
static int read_index(int git_fd, const char *name, size_t held, struct git_reading *reading,
		      char **ret, size_t *ret_len)
{
	int r = git_read_file(git_fd, name, GIT_INDEX_MAX - held, ret, ret_len);

	if (r < 0)
		return r;
	reading->bytes += *ret_len;
	if (reading->bytes <= GIT_INDEXES_MAX)
		return 0;
	free(*ret);
	return -EFBIG;
}

/* The shared half of a split index. Entries of it that the other half replaces count as well. */
static int collect_shared(struct collector *c, int git_fd, const struct git_index_info *info,
			  unsigned hash_len, size_t held)
{
	char name[sizeof("sharedindex.") + 2 * GIT_INDEX_HASH_MAX], *data;
	struct git_index_info unused;
	int at = snprintf(name, sizeof(name), "sharedindex."), r;
	size_t len;

	for (unsigned i = 0; i < hash_len; i++)
		at += snprintf(name + at, sizeof(name) - (size_t)at, "%02x", info->base[i]);
	r = read_index(git_fd, name, held, c->reading, &data, &len);
	if (r < 0)
		return r == -ENOENT ? -EINVAL : r;
	/* An entry without a name takes one from the shared index: it could be any. */
	c->wants_all = c->has_unnamed;
	c->entries->is_split = true;
	r = git_index_read(data, len, hash_len, collect, c, &unused);
	free(data);
	return r;
}

static const unsigned hash_lens[] = { 20, 32 };

/* The config says which hash the repository uses. It is not read: an index can hardly be read both
 * ways, and if it can, both count. */
static int read_entries(const struct collector *how, int git_fd)
{
	struct git_entries *found = how->entries;
	int r, best = -EINVAL;
	size_t len;
	char *data;

	r = read_index(git_fd, "index", 0, how->reading, &data, &len);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < ARRAY_SIZE(hash_lens); i++) {
		struct collector c = *how;
		struct git_index_info info;
		size_t n = found->n, n_dirs = found->n_dirs;

		r = git_index_read(data, len, hash_lens[i], collect, &c, &info);
		if (r == 0 && info.has_base)
			r = collect_shared(&c, git_fd, &info, hash_lens[i], len);
		/* Git never writes such a path, but would use it as it is. */
		if (r == 0 && c.is_unclean) {
			best = -EINVAL;
			break;
		}
		if (r == 0) {
			best = 0;
		} else {
			found->n = n;
			found->n_dirs = n_dirs;
		}
		if (r == -ENOMEM || r == -E2BIG) {
			best = r; /* nothing is known */
			break;
		}
	}
	free(data);
	return best;
}

static int note_path(void *ctx, uint32_t mode, const char *path, size_t len)
{
	bool *is_unclean = ctx;

	if (mode == GIT_INDEX_SPARSE_DIR && len > 0 && path[len - 1] == '/')
		len--;
	*is_unclean |= len > 0 && !git_index_path_is_clean(path, len);
	return 0;
}

bool git_index_is_sound(const char *data, size_t len)
{
	bool ret = false;

	for (size_t i = 0; i < ARRAY_SIZE(hash_lens); i++) {
		struct git_index_info info;
		bool is_unclean = false;

		if (git_index_read(data, len, hash_lens[i], note_path, &is_unclean, &info) < 0)
			continue;
		if (is_unclean)
			return false;
		ret = true;
	}
	return ret;
}

int git_entries_collect(struct arena *arena, int git_fd, struct git_reading *reading,
			struct git_entries *ret)
{
	struct git_entries found = { .n = 0 };
	const struct collector how = { .arena = arena, .entries = &found, .reading = reading };
	int r;

	if (fstatat(git_fd, "index", &found.index, 0) < 0)
		memset(&found.index, 0, sizeof(found.index));
	r = read_entries(&how, git_fd);
	if (r == 0)
		*ret = found;
	return r;
}

int git_entries_files(int git_fd, struct git_reading *reading,
		      int (*fn)(void *ctx, const char *path, size_t len), void *ctx)
{
	struct git_entries unused = { .n = 0 };
	const struct collector how = {
		.entries = &unused, .reading = reading, .each_file = fn, .ctx = ctx
	};

	return read_entries(&how, git_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run leaves in a repository's own directory.
 *
 * The guest may write there, so the host's git would read, follow or obey what it left. What is new
 * or changed may stay only if it is on the allow-list (git/allowed.h); everything else is found.
 */
#ifndef GIT_INSIDE_H
#define GIT_INSIDE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include "base/arena.h"

#define GIT_HEAD_MAX 4096

struct git_inside_name;

/* Before the run: the names at the top, and a few directories below. */
struct git_inside {
	struct git_inside_name *v; /* sorted by path */
	size_t n, cap;
	char *head; /* the content of HEAD, NULL = none */
	size_t head_len;
};

/* @with_times: for a search with is_shared. 0, -E2BIG if there are too many names, or -errno. */
int git_inside_note(struct arena *arena, int git_fd, bool with_times, struct git_inside *ret);

struct git_inside_search {
	const struct git_inside *before;
	struct timespec since; /* what has changed since then is new */
	/* Another run was going on when @before was noted: it is only believed about what is older
	 * than @since. */
	bool is_shared;
	/* @name in @dir_fd, at @path relative to the repository, has to go. 0 to go on; anything
	 * else ends the search and is returned. */
	int (*found)(void *ctx, int dir_fd, const char *name, const char *path, mode_t mode);
	void *ctx;
};

/* 0, what @found returned, or -errno if not everything could be looked at. */
int git_inside_search(const struct git_inside_search *search, int git_fd);

#endif

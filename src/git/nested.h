/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories inside a repository.
 *
 * An entry of the index with mode 160000 (a "gitlink", mostly a submodule) makes git at the top run
 * git in that directory as well, which obeys the config it finds there. No mount can keep a command
 * from making such a directory or entry. So they are recorded before the run, and when its tree is
 * gone, every such repository that is new, or obeys something other than before, is found.
 */
#ifndef GIT_NESTED_H
#define GIT_NESTED_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/arena.h"
#include "git/entries.h"

/* A repository whose index can name others inside its work tree. */
struct git_repo {
	int git_fd, work_fd;		/* O_PATH */
	const char *git_dir, *work_dir; /* for messages */
	const char *below;		/* only there can the run write; NULL = everywhere */
	const char *home;		/* the user's, for his git config; NULL = none */
	bool has_safe_modules;		/* it cannot write to the repositories of submodules */
};

struct git_nested_seen;

/* The first walk's records. */
struct git_nested {
	struct git_entries entries;
	struct git_nested_seen *v; /* sorted by path */
	size_t n, cap;
	/* The second walk could not look at all untracked directories: without the index git would
	 * enter them all the same. */
	bool has_failed;
	bool has_ignored; /* there was a .gitignore where the run can write, or may have been */
};

struct git_nested_walk {
	/* Other runs were going on already: what has changed since then may be theirs. */
	struct timespec since;
	bool is_shared;
	/* Second walk; NULL = it is the first. @dir_fd, at @path relative to the work tree, must
	 * not be entered by git. 0, or -errno, which is an error of the walk. */
	int (*found)(void *ctx, int dir_fd, const char *path);
	/* The same for a pipe (git/pipes.h). */
	int (*found_pipe)(void *ctx, int dir_fd, const char *name, const char *path);
	void *ctx;
};

/* Before the run. *newest becomes the last change that was seen, if it is later. 0, -EINVAL or
 * -EFBIG for an index that cannot be understood, -E2BIG if there is too much to look at, -errno. */
int git_nested_note(const struct git_nested_walk *args, struct arena *arena,
		    const struct git_repo *repo, struct git_nested *ret, struct timespec *newest);
/* After it. The same. */
int git_nested_check(const struct git_nested_walk *args, struct arena *arena,
		     const struct git_repo *repo, struct git_nested *noted);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of a work tree in which the index has nothing, after a run.
 *
 * `git add .` enters a repository that it finds there, and from then on git at the top obeys that
 * repository's config. The walk finds every repository in directories that the run made, moved or
 * changed, and in older ones as far as `git add .` goes: not where a .gitignore says so. In new
 * directories it also looks for pipes (git/pipes.h).
 */
#ifndef GIT_UNTRACKED_H
#define GIT_UNTRACKED_H

#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include "git/ignored.h"
#include "git/pipes.h"

/* Whether a directory's number of links tells how many directories it has. */
struct git_counts {
	dev_t dev;
	bool is_exact;
};

void git_counts_init(struct git_counts *counts, int fd);
/* -1 = that cannot be told. */
long git_count_dirs(const struct git_counts *counts, const struct stat *st);

struct git_untracked {
	struct timespec since; /* what is older was there before */
	struct git_counts counts;
	struct git_pipes *pipes;
	unsigned long dirs; /* how many have been looked into */
	bool has_failed;    /* a walk did not come to its end */
	/* There is a `.git` in @dir_fd, at @path relative to the work tree. @is_new: all of it may
	 * have come there with this run, whatever its own times say. 0; 1 = nothing of interest is
	 * below; or -errno, which ends the walk. */
	int (*found)(void *ctx, int dir_fd, const char *path, bool is_new);
	void *ctx;
};

/* A directory to be walked. */
struct git_untracked_dir {
	int dir_fd; /* it lies in */
	const char *name;
	const char *path;		 /* relative to the work tree */
	const struct git_ignore *ignore; /* of the directory it lies in */
	bool is_new;			 /* that one may have been moved there */
};

/* 0, -E2BIG, -ELOOP, what @found returned, or -errno. */
int git_untracked_walk(struct git_untracked *u, const struct git_untracked_dir *dir);

#endif

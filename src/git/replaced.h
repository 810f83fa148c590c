/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run has made of the directories of a work tree that the index names: files that have
 * become repositories, pipes that git would open (git/pipes.h), and directories beside the tracked
 * ones (git/untracked.h).
 *
 * Where the index has a file and the work tree a repository, `git status` stays outside, but `git
 * add -u` and `git commit -a` turn the entry into one that makes git enter it from then on. Making
 * such a directory changes the one it lies in, so only directories that have changed are looked
 * into for that. Others are, too, if they have more directories than the index knows of.
 */
#ifndef GIT_REPLACED_H
#define GIT_REPLACED_H

#include <stdbool.h>
#include <time.h>

#include "git/entries.h"
#include "git/fingerprint.h"
#include "git/untracked.h"

struct git_replaced {
	int git_fd, work_fd;
	const struct git_entries *entries;
	const char *top;  /* looked into even if the index has nothing there; "" = the work tree */
	bool had_ignored; /* there may have been a .gitignore in that one */
	struct timespec since;
	struct git_untracked *untracked;
	struct arena *arena;
	struct git_effort *effort;
	struct git_reading *reading;
	/* Can the run change what is in @dir (relative to the work tree, "" = the top)? */
	bool (*is_in_reach)(void *ctx, const char *dir);
	/* 0, or -errno, which ends the search. */
	int (*found)(void *ctx, int dir_fd, const char *path);
	void *ctx;
};

/* 0, -E2BIG, -ENOMEM, what @found returned, or -errno. */
int git_replaced_find(const struct git_replaced *find);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipes in the work tree under names that git opens.
 *
 * Git opens HEAD on its way up to the repository, and .gitignore and the like in each directory
 * that it lists, before it asks what they are. Where that is a pipe, or a link to one or to a
 * terminal, `git status` waits for ever.
 */
#ifndef GIT_PIPES_H
#define GIT_PIPES_H

#include <stdbool.h>
#include <time.h>

struct git_pipes {
	struct timespec since; /* what is older was there before */
	/* @name in @dir_fd, at @path relative to the work tree. 0, or -errno, which ends the walk.
	 */
	int (*found)(void *ctx, int dir_fd, const char *name, const char *path);
	void *ctx;
};

/* One entry of the directory @dir; @type: as readdir() has it. @is_git: it is a repository's own,
 * where git opens everything. 0 or -errno. */
int git_pipes_check(const struct git_pipes *pipes, int dir_fd, const char *name, unsigned char type,
		    const char *dir, bool is_git);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories inside a repository.
 *
 * An entry of the index with mode 160000 (a "gitlink", mostly a submodule) makes git at the top run
 * git in that directory as well, which obeys the config it finds there. No mount can keep a command
 * from making such a directory or entry, so they are looked at: before the run what there is is
 * written down, and when its tree is gone every such repository that is new, or whose config or
 * hooks are not what they were, gets another name, under which git does not see it.
 */
#ifndef LAUNCH_GITLINKS_H
#define LAUNCH_GITLINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "base/arena.h"
#include "base/strbuf.h"

#define GITLINKS_MAX 10000	  /* repositories inside one */
#define GITLINKS_STEPS_MAX 400000 /* files looked at, all in all */

/* How much has been looked at, and the last change that was seen. */
struct git_effort {
	unsigned long steps;
	struct timespec newest;
};

/* What git would obey in a directory of the work tree. */
struct git_print {
	int git_fd;	     /* O_PATH, the repository; owned */
	struct strbuf files; /* identity and time of change of each file it obeys */
};

#define GIT_PRINT_INIT { -1, STRBUF_INIT }

/* gitdir.c */
/* 1 = git would enter the directory, 0 = it would not, -errno = that cannot be told. */
int git_print_take(int dir_fd, struct git_print *ret, struct git_effort *effort);
void git_print_done(struct git_print *print);
/* Opens a file in the way git would, but never anything that is not a regular file, and reads all
 * of it; the caller frees *ret. -ENOENT if there is none, -EFBIG if it is longer than @max. */
int git_read_file(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len);
int git_open_path(int dir_fd, const char *path, unsigned long flags, unsigned long resolve);

/* gitlinks.c */
struct cordon_run;
struct cordon_error;
struct gitlinks;

/* Before the run: what the plan's repositories contain. */
int gitlinks_note(struct cordon_run *run, struct cordon_error *err);
/* After it: holds what has changed and adds it to the result's denials. */
void gitlinks_check(struct cordon_run *run);
void gitlinks_free(struct gitlinks *links);

#endif

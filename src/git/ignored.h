/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether `git add .` would leave a directory out, because a .gitignore says so.
 *
 * Only patterns without a doubt count: names and paths, with * for any bytes of a name. What is not
 * understood ignores nothing, and a doubtful exception (!pattern) makes everything count.
 */
#ifndef GIT_IGNORED_H
#define GIT_IGNORED_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define GIT_IGNORE_MAX ((size_t)64 << 10) /* bytes of one file */

/* The patterns of one file, which count in its directory and below. */
struct git_ignore {
	const struct git_ignore *above; /* those have less to say; NULL = none */
	size_t dir_len;			/* of its directory's path, relative to the work tree */
	char *text;			/* NULL = none; owned */
	size_t len;
	bool is_blind;	 /* it could not be understood: nothing below is known to be ignored */
	bool is_changed; /* since the run began: what was ignored before may not be now */
};

/* Reads @name in @dir_fd. @dir_changed: the directory was changed, so the file may be gone. 0 or
 * -ENOMEM. */
int git_ignore_read(int dir_fd, const char *name, const struct timespec *since, bool dir_changed,
		    struct git_ignore *ret);
void git_ignore_done(struct git_ignore *ignore);

/* Is the directory @path ignored? It lies in the directory of @ignore. */
bool git_is_ignored(const struct git_ignore *ignore, const char *path);

/* Was one of the files changed since the run began? */
bool git_ignore_has_changed(const struct git_ignore *ignore);

#endif

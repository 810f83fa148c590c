/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a repository to every file and directory that git obeys on its account.
 *
 * These are the repository's own directory and the one it shares with other work trees, the
 * configs there, the user's and the system's configs, what they include, what that includes, and
 * each directory that core.hooksPath names. They may lie anywhere, and need not exist. Files that
 * the commands in these configs name (filters, fsmonitor, pagers) belong to it if they exist; what
 * such a file executes in turn does not.
 */
#ifndef GIT_FOLLOW_H
#define GIT_FOLLOW_H

#include <stdbool.h>

#include "git/config.h"

#define GIT_FOLLOW_CONFIGS_MAX 256 /* configs of one repository, with all they include */

enum git_obeyed {
	GIT_OBEYED_DIR,	    /* a repository's directory, a real path: has hooks and a config */
	GIT_OBEYED_CONFIG,  /* a config of the repository, the user or the system */
	GIT_OBEYED_INCLUDE, /* a config that another one includes */
	GIT_OBEYED_HOOKS,   /* a directory of hooks that a config names */
	GIT_OBEYED_PROGRAM, /* a file that exists and that a command in a config names */
};

struct git_follow {
	const struct git_user *user; /* NULL = only what the repository says counts */
	const char *work_dir;	     /* what a relative core.hooksPath is relative to */
	/* Also config.worktree of a repository whose config does not turn it on. */
	bool with_dormant;
	/* Called for each, with an absolute path that may contain "..". 0 to go on; anything else
	 * ends the search and is returned. */
	int (*found)(void *ctx, enum git_obeyed what, const char *path);
	/* Called for a file that counts and may not be read (@error: -errno), and for a path that
	 * begins with an unknown user's "~name" (-ENOENT). As @found; NULL = passed over. */
	int (*closed)(void *ctx, const char *path, int error);
	void *ctx;
};

/* @git_dir: a real path; NULL = only the user's configs count. 0, what @found returned, -errno if
 * something could not be looked at (what git may not read either is left to @closed), -EFBIG or
 * -E2BIG beyond GIT_CONFIG_MAX and GIT_FOLLOW_CONFIGS_MAX. */
int git_follow(const struct git_follow *f, const char *git_dir);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a repository is a plain one: as `git init` and `git clone` leave it, in which git obeys
 * nothing that the run could have put there.
 *
 * Everything in its config is harmless (git/settings.h), its hooks are samples or cannot be
 * executed, those that the user's own config names in its work tree likewise, it has no links, and
 * in its own directory there is nothing that is not allowed (git/allowed.h). A `.git` file or a
 * commondir leads to another such directory in the same work tree.
 */
#ifndef GIT_PLAIN_H
#define GIT_PLAIN_H

#include <stdbool.h>
#include <time.h>

struct git_plain {
	int top_fd;	       /* of the work tree around it: what it consists of lies in there */
	const char *home;      /* the user's, whose own git config counts as well; NULL = none */
	struct timespec since; /* of the run */
	bool is_new;	       /* all of it may be, whatever its times say */
};

enum git_verdict {
	GIT_VERDICT_NONE,    /* there is no `.git`, or it says nothing */
	GIT_VERDICT_PLAIN,   /* or as it was before the run */
	GIT_VERDICT_HOSTILE, /* the run made or changed it, and it is not plain */
};

/* The repository of the directory @dir_fd. *ret_git_fd: its own directory, O_PATH, owned by the
 * caller; -1 = none. An enum git_verdict; or -ENOMEM. */
int git_plain_judge(const struct git_plain *how, int dir_fd, int *ret_git_fd);

#endif

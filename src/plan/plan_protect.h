/* SPDX-License-Identifier: Apache-2.0 */
/* Between the two files of fs.protect. */
#ifndef PLAN_PLAN_PROTECT_H
#define PLAN_PLAN_PROTECT_H

#include "plan/plan_internal.h"

enum protect_missing {
	PROTECT_EXISTING,	  /* a name that does not exist may come into being */
	PROTECT_RESERVE,	  /* reserved by a placeholder that cannot be opened */
	PROTECT_RESERVE_READABLE, /* reserved by an empty file: git must be able to open it */
};

/* Does @path lie in a write grant, and in no workspace? A workspace's changes are checked at
 * commit.
 */
bool plan_is_guarded(const struct build *b, const char *path);
/* Makes the name @path read-only if it lies in a write grant, whatever it is. */
int plan_protect_path(struct build *b, const char *path, enum protect_missing how);
/* Did a grant name exactly this path? */
bool plan_is_lifted(const struct build *b, const char *path);

/* What git would execute or take orders from, of the repository at the top of @dir. */
int plan_protect_git(struct build *b, const char *dir);

#endif

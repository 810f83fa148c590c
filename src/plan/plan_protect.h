/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of fs.protect. */
#ifndef PLAN_PLAN_PROTECT_H
#define PLAN_PLAN_PROTECT_H

#include "base/autorun.h"
#include "plan/plan_internal.h"

enum protect_missing {
	PROTECT_EXISTING,	  /* a name that does not exist may come into being */
	PROTECT_RESERVE,	  /* reserved by a placeholder that cannot be opened */
	PROTECT_RESERVE_READABLE, /* reserved by an empty file: it must be possible to open it */
	PROTECT_RESERVE_FOR_GIT,  /* the same, of which git must see nothing */
	PROTECT_RESERVE_DIR,	  /* reserved by an empty directory, which the host can use */
};

/* Does @path lie in a write grant, and in no workspace? A workspace's changes are checked at
 * commit.
 */
bool plan_is_guarded(const struct build *b, const char *path);
/* Makes the name @path read-only if it lies in a write grant, whatever it is, and holds every link
 * and directory on the way to it that does. */
int plan_protect_path(struct build *b, const char *path, enum protect_missing how);
/* The same for a name directly in a write grant, where one call is mostly enough. */
int plan_protect_entry(struct build *b, const char *path, enum protect_missing how);
/* The same for a link in a protected directory. */
int plan_protect_link(struct build *b, const char *path);
/* For all links in the directory @path. */
int plan_protect_links_in(struct build *b, const char *path);
/* For all links among the protected names of the home directory. */
int plan_protect_home_links(struct build *b);
/* @path does not exist and must not come into being, or is looked at afterwards; @text: of its
 * placeholder, unless it is closed. */
int plan_protect_missing(struct build *b, const char *path, enum protect_missing how,
			 const char *text);
/* The same if another run's placeholder may stand there: it is taken over as what it is. */
int plan_protect_absent(struct build *b, const char *path, enum protect_missing how,
			const char *text);
/* Walks to @path and holds what lies on the way. 0; 1 = nobody gets there; or an error. */
int plan_hold_way(struct build *b, const char *path, struct resolved *ret);
/* Sets the error for a name that could not be looked at. */
int plan_cannot_protect(struct build *b, const char *path, int error);
/* What to do about a name of the tables if it does not exist. */
enum protect_missing plan_protect_how(const struct autorun_name *name);
/* Did a grant name exactly this path? */
bool plan_is_lifted(const struct build *b, const char *path);

/* What git would execute or take orders from, of the repository at the top of @dir. *ret_file: what
 * is to stand for missing files in @dir. */
int plan_protect_git(struct build *b, const char *dir, enum protect_missing *ret_file);

#endif

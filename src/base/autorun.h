/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files that shells, editors, agents, git, interpreters and build services run or obey
 * later without being asked to.
 *
 * Write grants make such names read-only (plan/plan_protect.c); workspaces refuse or point out
 * changes of them. Both use this table.
 */
#ifndef BASE_AUTORUN_H
#define BASE_AUTORUN_H

#include <stdbool.h>
#include <stdint.h>

struct autorun_name {
	const char *path; /* NULL ends the list */
	bool is_reserved; /* in a write grant it cannot be created either */
	bool is_dir;	  /* programs expect a directory there */
};

extern const struct autorun_name autorun_project[]; /* in a project directory */
extern const struct autorun_name autorun_home[];    /* in a home directory */

/* What a name means. */
#define AUTORUN_PROTECTED 0x1u /* run or obeyed without being asked for */
#define AUTORUN_CI 0x2u	       /* build services obey it */
#define AUTORUN_LOCKFILE 0x4u  /* decides which packages are installed */
#define AUTORUN_STARTUP 0x8u   /* obeyed by a tool when it starts */

/*
 * A directory in a tree, with what matters of the names that lead to it. Start with a zeroed one
 * for the top and go down with autorun_enter(). The names must stay valid while it or a directory
 * below it is used.
 */
struct autorun_dir {
	const char *name, *above; /* of this directory and its parent; NULL at the top */
	bool is_below_top;	  /* so is its parent */
	uint8_t home; /* 1 = a home directory (set by the caller), 2 and 3 = levels below it */
	bool in_git;  /* a repository's .git, or below one */
	uint8_t git;  /* enum git_area */
	uint8_t all;  /* AUTORUN_* of everything in it */
};

/* AUTORUN_* of the entry @name of @dir. */
unsigned autorun_class(const struct autorun_dir *dir, const char *name, bool is_dir, bool is_link);

/* Goes from @dir into its directory @name. @ret may be @dir. */
void autorun_enter(const struct autorun_dir *dir, const char *name, struct autorun_dir *ret);

/* Says that @dir is a repository's directory though it is not called .git. */
void autorun_is_repository(struct autorun_dir *dir);

/* ".git", or a name that some file systems treat as .git. */
bool autorun_is_git(const char *name);

#endif

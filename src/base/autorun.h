/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of files that are acted upon later by somebody who did not ask for it: shells, editors,
 * agents, git, interpreters, build services.
 *
 * Two users: write grants, where such names are read-only (plan/plan_protect.c), and workspaces,
 * where a change of one is refused or pointed out. This is the one table of both.
 */
#ifndef BASE_AUTORUN_H
#define BASE_AUTORUN_H

#include <stdbool.h>
#include <stdint.h>

struct autorun_name {
	const char *path; /* NULL ends the list */
	bool is_reserved; /* in a write grant also kept from coming into being */
};

extern const struct autorun_name autorun_project[]; /* in a project directory */
extern const struct autorun_name autorun_home[];    /* in a home directory */

/* What a name means. */
#define AUTORUN_PROTECTED 0x1u /* is run, or obeyed, without anybody asking for it */
#define AUTORUN_CI 0x2u	       /* build services obey it */
#define AUTORUN_LOCKFILE 0x4u  /* says which packages are installed */
#define AUTORUN_STARTUP 0x8u   /* a tool that is started obeys it */

/*
 * A directory in a tree, as far as the names on the way to it matter. Start with a zeroed one for
 * the top and go down with autorun_enter(); the names must stay where they are as long as it or one
 * below it is used.
 */
struct autorun_dir {
	const char *name, *above; /* of this directory and the one it is in; NULL at the top */
	bool is_below_top;	  /* so is the one above it */
	uint8_t home; /* 1 = a home directory (set by the caller), 2 = in it, 3 = in that */
	bool in_git;  /* it is a repository's .git, or below one */
	uint8_t git;  /* enum in autorun.c */
	uint8_t all;  /* AUTORUN_* that everything in it is */
};

/* AUTORUN_* of what is called @name in @dir. */
unsigned autorun_class(const struct autorun_dir *dir, const char *name, bool is_dir, bool is_link);

/* From @dir into its directory @name. @ret may be @dir. */
void autorun_enter(const struct autorun_dir *dir, const char *name, struct autorun_dir *ret);

/* @dir is a repository's directory though it is not called .git. */
void autorun_is_repository(struct autorun_dir *dir);

/* ".git", and what some filesystems take for it. */
bool autorun_is_git(const char *name);

#endif

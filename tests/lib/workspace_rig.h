/* SPDX-License-Identifier: Apache-2.0 */
/* A base, a workspace over it, and a hand that writes into its upper directory as a guest would. */
#ifndef TESTS_LIB_WORKSPACE_RIG_H
#define TESTS_LIB_WORKSPACE_RIG_H

#include <cordon/workspace.h>

struct workspace_rig {
	char dir[64];	   /* of everything */
	char base[80];	   /* dir/base */
	char state[80];	   /* dir/state */
	char content[256]; /* upper or tree */
	char canary[80];   /* dir/canary: must never change */
	char id[32];
	int mechanism;
};

/* Where rigs are made from now on; NULL = /tmp. False, and /tmp, if it has no user attributes. */
int rig_where(const char *dir);

/* Directories, and a canary that rig_canary_is_whole() knows. */
void rig_start(struct workspace_rig *rig);
/* What is in the base now was there before: makes the workspace (enum cordon_mechanism) and lets a
 * run begin. */
int rig_begin(struct workspace_rig *rig, int mechanism);
/* The run ends: the base is written down. */
int rig_end(struct workspace_rig *rig);
void rig_done(struct workspace_rig *rig);
int rig_canary_is_whole(const struct workspace_rig *rig);

/* Below @root (base or content); directories on the way are made. 0 or -1. */
int rig_file(const char *root, const char *path, const char *text);
int rig_mode(const char *root, const char *path, unsigned mode);
int rig_link(const char *root, const char *path, const char *target);
int rig_dir(const char *root, const char *path);
int rig_remove(const char *root, const char *path);
int rig_whiteout(const char *root, const char *path);
int rig_opaque(const char *root, const char *path);
/* The text of a file, "" if there is none; valid until the next call. */
const char *rig_read(const char *root, const char *path);
int rig_exists(const char *root, const char *path);

/* Everything below @root, one line each ("path mode text"), sorted. Free it. */
char *rig_list(const char *root);

/* Waits until files that are written now get another time than those before. */
void rig_tick(void);

struct rig_told {
	char text[8192]; /* "outcome path\n"... */
	char why[512];	 /* of the last conflict or failure */
};

/* Opens, commits, closes. @options may be NULL; told() is set to fill @told. */
int rig_commit(const struct workspace_rig *rig, const struct cordon_commit_options *options,
	       struct cordon_commit_result *ret, struct rig_told *told, struct cordon_error *err);

/* How many changes there are. */
int rig_changes(const struct workspace_rig *rig);

#endif

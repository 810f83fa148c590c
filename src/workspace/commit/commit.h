/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applying a workspace's changes to its base.
 *
 *	select.c	which changes are wanted
 *	verdict.c	which of them the base still allows
 *	base_check.c	whether a path of the base is still what the run saw
 *	journal.c	what was decided, on disk before anything is changed
 *	apply.c		applies the changes in order, files in batches
 *	install.c	gives one name of the base its new file, or removes it
 *	clear_applied.c	removes what was applied from the workspace
 *	leftovers.c	cleans up after an interrupted commit
 *	discard.c	removes workspaces
 *
 * Everything is decided before the base is changed. From then on only an error stops the commit; it
 * can be repeated then. A name of the base that was changed in the meantime becomes a conflict.
 */
#ifndef WORKSPACE_COMMIT_COMMIT_H
#define WORKSPACE_COMMIT_COMMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cordon/workspace.h>

#include "workspace/changes/walker.h"
#include "workspace/record/record.h"
#include "workspace/tree/compare.h"

#define COMMIT_TEMP_PREFIX ".cordon-commit-"
#define COMMIT_TEMP_SIZE 64
/* The mode of a file that we have not completed yet; no other files have it. */
#define COMMIT_TEMP_MODE 0200

enum item_state {
	ITEM_NONE = 0, /* a directory on the way */
	ITEM_SKIPPED,
	ITEM_REFUSED,
	ITEM_CHOSEN,
	ITEM_CONFLICT,
	ITEM_DONE, /* the base has it already */
	ITEM_APPLIED,
	ITEM_FAILED, /* cannot be applied at all */
};

/* What the base had when it was checked. */
struct commit_old {
	struct stat st;
	bool has_hash; /* it was so young that its times do not tell a change */
	struct ws_hash hash;
};

struct commit_item {
	uint8_t state;
	bool is_named;	/* its very path was given */
	bool is_within; /* of the paths given */
	bool is_excluded;
	bool is_forced;		/* a conflict that was decided in our favour */
	bool removes_first;	/* resumed: the old one had to go first, so nothing may be there */
	bool in_journal;	/* or on the way to something that is */
	uint32_t unit;		/* the node of the .git that it belongs to, or WS_NO_NODE */
	uint32_t partner;	/* of a name that was renamed away: the new name */
	uint32_t number;	/* in the journal */
	uint32_t n_children;	/* nodes right below it */
	const char *why;	/* of a conflict, or a failure */
	bool is_in_base;	/* `why` says what happened to it in the base */
	struct commit_old *old; /* NULL = nothing */
};

/* What was checked, as far as it survives renaming the file. */
struct journal_old {
	uint64_t ino, size, mtime_s, mtime_ns, mode; /* ino 0 = there was nothing */
};

/* The workspace's file whose very path was given. The guest cannot set a ctime. */
struct journal_named {
	uint64_t type, mode, ino, size, ctime_s, ctime_ns;
};

struct journal {
	struct arena arena;
	int conflicts;
	struct strlist paths, exclude;
	struct ws_changes forest; /* names and parents only */
	uint8_t *flags;		  /* JOURNAL_* for each */
	struct journal_old *olds;
	struct journal_named *named; /* all 0 of those that were not */
	uint32_t *now;		     /* its node among the changes of today, or WS_NO_NODE */
};

#define JOURNAL_CHOSEN 0x1u
#define JOURNAL_NAMED 0x2u
#define JOURNAL_REMOVES 0x4u /* a directory made way, or was made in something's place */

struct commit {
	struct cordon_workspace *ws;
	struct cordon_commit_options options;
	struct arena arena;
	struct ws_changes changes;
	struct ws_records *records;
	struct commit_item *items; /* of each node */
	struct journal *journal;   /* of the commit that is resumed, or NULL */
	int content_fd;		   /* upper, or the copy */
	struct walker base, content;
	bool is_all_named; /* the base itself was given as a path */
	bool is_small;	   /* few enough changes to make each of them durable by itself */
	bool is_begun;	   /* the base may have been changed */
	struct cordon_error *err;
	uint32_t failed; /* the node that an error is about, or WS_NO_NODE */
};

/* Children of nodes by name. */
struct node_index;
int node_index_make(const struct ws_changes *changes, struct node_index **ret);
void node_index_free(struct node_index *index);
uint32_t node_index_child(const struct node_index *index, uint32_t parent, const char *name,
			  size_t len);

/* All of them: 0, or the negative code of an error that is set in c->err. */
int commit_select(struct commit *c);
int commit_select_resumed(struct commit *c);
/* Whether it is refused because a repository would be lost, and that was not named. */
bool commit_is_lost(const struct commit *c, uint32_t i);
int commit_check_base(struct commit *c);
int commit_apply(struct commit *c);
int commit_clear_applied(struct commit *c);

int journal_load(struct commit *c); /* c->journal stays NULL if there is none */
int journal_check(struct commit *c);
int journal_write(struct commit *c);
int journal_remove(struct commit *c);
/* Fills in what the workspace has at the node @i. 0 or -errno. */
int journal_identify(struct commit *c, uint32_t i, struct journal_named *ret);
void journal_free(struct journal *journal);

/* Before changes are collected: they must not see our own files. */
int commit_clean_leftovers(struct commit *c);

/* Sets the error for a node (WS_NO_NODE: none), with what can be done about @r; returns it. */
int commit_fail(struct commit *c, uint32_t node, int r, const char *what);
/* Removes what an interrupted commit left in the base under temporary names, or puts it back,
 * before the workspace that knows of it is removed. */
int ws_end_interrupted(struct cordon_workspace *ws, struct cordon_error *err);
void commit_temp_name(const struct commit *c, uint32_t number, char ret[COMMIT_TEMP_SIZE]);

enum ws_verdict {
	WS_AS_IT_WAS = 0, /* the base is what the run saw */
	WS_DONE,	  /* the base already is what the workspace has */
	WS_CHANGED,	  /* conflict */
};

/* base_check.c: checks @path (relative), called @name in the directory @base_dir_fd (-1: that
 * directory is gone). The changed file, to compare content with, is @name in @upper_dir_fd.
 * @why: a short text for the conflict ("was changed", "was deleted", "appeared", "became a
 * directory"), static. */
int ws_check_base(struct cordon_workspace *ws, const struct ws_records *records, const char *path,
		  const struct ws_node *node, int base_dir_fd, int upper_dir_fd, const char *name,
		  const char **why);

/* install.c: 0, -errno, or INSTALL_CHANGED: the base has something else than what was checked. It
 * is still there then, and @temp is gone. After an error @temp is gone, too, or holds the old file
 * and must not be removed. */
#define INSTALL_CHANGED 1
int install_new(int dir_fd, const char *temp, const char *name);
int install_over(int dir_fd, const char *temp, const char *name, const struct commit_old *old);
int install_nothing(int dir_fd, const char *temp, const char *name, const struct commit_old *old);
/* Looks at what is there: 0 with *ret NULL if nothing. */
int install_look(int dir_fd, const char *name, struct arena *arena, struct commit_old **ret);

#endif

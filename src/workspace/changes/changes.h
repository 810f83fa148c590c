/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workspace changed, compared with its base as it is now.
 *
 * Only the upper directory is examined, or in a copy what the guest touched since it was made,
 * which the ctime tells because it cannot be set. So the cost depends on what was changed and not
 * on the size of the base. A file that was written but is the same as before is no change.
 *
 * The changes form a forest: a node has a name and a parent. Whole paths of deep trees would need
 * space that grows with the square of the depth.
 */
#ifndef WORKSPACE_CHANGES_CHANGES_H
#define WORKSPACE_CHANGES_CHANGES_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include <cordon/workspace.h>

#include "base/arena.h"
#include "base/strbuf.h"

#define WS_NO_NODE UINT32_MAX
#define WS_CHANGES_MAX (4u << 20)

/* A repository of the base that was removed or replaced, in whole or in a part that it needs. */
struct ws_lost {
	const char *what; /* path of what is gone */
	const char *path; /* of the outermost repository around it: this must be named */
	uint32_t unit;	  /* its node, WS_NO_NODE = the base itself */
};

struct ws_node {
	const char *name;
	uint32_t parent;	/* index of the directory's node, WS_NO_NODE = the root */
	uint32_t from;		/* RENAMED: index of the node of the old path */
	uint8_t kind;		/* enum cordon_change_kind; 0 = only a directory on the way */
	uint8_t type, old_type; /* enum cordon_file_type */
	bool is_opaque;		/* a directory whose base content is hidden */
	bool is_renamed_away;	/* DELETED, and another node's `from`: not listed */
	bool in_git;
	bool is_obeyed; /* by git, as a config says, or not known to be harmless in a repository */
	bool is_repository;   /* a directory that is a repository in the base */
	bool is_lost;	      /* lost.c: the base's repository does not survive without it */
	bool is_risky_itself; /* with `lost`: it must be named as well */
	uint16_t mode, old_mode, risks;
	uint64_t size, old_size;
	const char *target, *old_target;
	const struct ws_lost *lost; /* of everything in that repository, else NULL */
};

/* In the order of a walk: a directory before what is in it, names sorted by bytes. */
struct ws_changes {
	struct arena arena;
	struct ws_node *v;
	size_t n, cap;
	bool is_repository; /* the base itself */
};

/* Collects. @ret is empty on failure. */
int ws_collect(struct cordon_workspace *ws, struct ws_changes *ret, struct cordon_error *err);
void ws_changes_done(struct ws_changes *changes);

/* settle.c: after a run (locked): records the base for every change and clears is_dirty. *ret: the
 * summary. Also called when a workspace is opened whose last run was not settled. @changes may be
 * NULL; else they are handed over (caller frees). */
int ws_settle(struct cordon_workspace *ws, struct cordon_summary *ret, struct ws_changes *changes,
	      struct cordon_error *err);

/* The path of a node into @sb (replacing what is there). */
void ws_node_path(const struct ws_changes *changes, uint32_t node, struct strbuf *sb);
/* The public form; @path and @from hold the strings. */
void ws_node_change(const struct ws_changes *changes, uint32_t node, struct strbuf *path,
		    struct strbuf *from, struct cordon_change *ret);
/* False for directories that were added or deleted with their content: the content is listed. */
bool ws_node_is_listed(const struct ws_changes *changes, uint32_t node);

void ws_summarise(const struct ws_changes *changes, struct cordon_summary *ret);

/* json.c: the array `changes`; the caller frees it with free(). NULL: too large, or out of memory.
 */
char *ws_changes_to_json(const struct ws_changes *changes);

#endif

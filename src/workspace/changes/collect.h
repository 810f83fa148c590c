/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that collect changes. */
#ifndef WORKSPACE_CHANGES_COLLECT_H
#define WORKSPACE_CHANGES_COLLECT_H

#include "base/autorun.h"
#include "git/allowed.h"
#include "workspace/changes/changes.h"
#include "workspace/store/store.h"
#include "workspace/tree/compare.h"
#include "workspace/tree/cursor.h"

/* The two sides: "up" is the workspace (the upper directory, or the copy), "lo" the base. */

/* One name of a directory, as it is on both sides. */
struct ws_entry {
	const char *name;
	bool has_up, has_lo;
	bool is_gone; /* the workspace says that there is no such name */
	struct stat up, lo;
};

/* What a directory of the base is to a repository there; lost.c says which matter. */
enum ws_part {
	WS_PART_NONE = 0,
	WS_PART_REPOSITORY, /* its own directory */
	WS_PART_OBJECTS,
	WS_PART_PACK,
	WS_PART_LOOSE,
	WS_PART_REFS,
	WS_PART_BRANCHES,
};

/* A directory that the walk is in. */
struct ws_frame {
	struct names up_names, lo_names;
	size_t i_up, i_lo;
	uint32_t node;	    /* WS_NO_NODE: the root */
	uint8_t promote;    /* kind of the node, if something below it changed */
	bool in_up, in_lo;  /* the cursors that are in it */
	bool lists_lo;	    /* every name in the base matters, not only those in the workspace */
	bool hides_lo;	    /* nothing of the base shows through in it */
	bool has_xwhiteout; /* attributes mark what is gone */
	bool is_fresh;	    /* copies: it was made or moved here, with all that is in it */
	bool is_touched;    /* copies: its ctime is new */
	bool is_suspect;    /* copies: it may have been moved here over another */
	bool has_bad_name;  /* on the way to it */
	bool is_recorded;   /* copies: `record` is the directory's (record.h) */
	uint32_t record;
	struct autorun_dir autorun;
	bool in_repository;	/* a repository's own directory, or below one */
	struct git_place place; /* where in it */
	uint8_t part;		/* enum ws_part */
	size_t objects;		/* frame of the `objects` that it is, or is in */
	uint64_t n_gone, n_new; /* objects and packs below it */
	bool is_young;		/* copies: the guest made it */
};

/* A name in a directory of the base that git obeys because the user's config says so. */
struct ws_obeyed {
	dev_t dev;
	ino_t ino;
	const char *name;
};

struct ws_collect {
	struct ws_changes *out;
	struct cursor up, lo;
	bool is_copy;
	/* Copies: when it was complete and when it was begun; 0 = nothing is known by time. */
	struct timespec created, begun;
	struct ws_records *records; /* copies: what is known to have been in it; may be NULL */
	dev_t home_dev;
	ino_t home_ino;
	const char *base; /* its path, NULL = unknown */
	struct ws_obeyed *obeyed;
	size_t n_obeyed;
	struct ws_frame *frames;
	size_t n, cap;
	char *buf; /* WS_BUF_SIZE bytes */
};

/* What the walk does with a name. */
struct ws_step {
	uint8_t kind;	 /* enum cordon_change_kind, 0 = none */
	uint8_t promote; /* kind, if something below it changed */
	bool down_up, down_lo;
	bool is_fresh, is_touched, is_suspect;
};

/* walk.c; all: 0 or -errno. */
int ws_walk(struct ws_collect *c);

/* decide.c: what @e, in the directory @f, is. */
int ws_decide(struct ws_collect *c, const struct ws_frame *f, const struct ws_entry *e,
	      struct ws_step *ret);
/* The same for directories on both sides, which both cursors are in. */
int ws_decide_directory(struct ws_collect *c, const struct ws_frame *f, const struct ws_entry *e,
			bool *ret_differs);

/* obeyed.c: fills in c->obeyed for the directory @base; 0 or -errno. */
int ws_find_obeyed(struct ws_collect *c, const char *base);
/* The same, if the directory of the base's cursor (@node) has a repository of its own. */
int ws_find_nested_obeyed(struct ws_collect *c, uint32_t node);
/* Whether @name in the current directory of the base's cursor is one of them. */
bool ws_is_obeyed(const struct ws_collect *c, const char *name);

/* in_git.c: whether @e, in the directory @f, may come to lie in a repository without being named.
 */
bool ws_is_git_allowed(const struct ws_collect *c, const struct ws_frame *f,
		       const struct ws_entry *e);
/* The place of @f, the directory @name in @above. */
void ws_enter_git(const struct ws_frame *above, const char *name, struct ws_frame *f);

/* lost.c: on the way through the trees, what a repository of the base loses. @above, @name: NULL
 * for the root. */
void ws_lost_enter(struct ws_collect *c, const struct ws_frame *above, const char *name,
		   struct ws_frame *f);
void ws_lost_visit(struct ws_collect *c, const struct ws_frame *f, struct ws_node *node);
/* Before the cursors leave @f. 0 or -errno. */
int ws_lost_leave(struct ws_collect *c, const struct ws_frame *f);
/* After the walk: marks everything in a repository that lost something. 0 or -errno. */
int ws_hold_lost(struct ws_changes *changes);

/* renames.c: pairs what was deleted with what was added. */
int ws_find_renames(struct cordon_workspace *ws, struct ws_changes *changes);

/* risk.c: for a node called @name in a directory. */
unsigned ws_risks(const struct autorun_dir *dir, size_t depth, const char *name,
		  const struct ws_node *node);
bool ws_is_bad_name(const char *name);

#endif

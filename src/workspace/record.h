/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base as it was: what conflicts are told by.
 *
 * Nobody looks at the base before a run (that would cost as much as there is in it). But when a run
 * has ended, everything it changed is known; then the state of the base at those paths is written
 * down: identity, and a hash of the content up to some amount. A file whose ctime is older than the
 * run's start was not touched since the run saw it, so what is written down is what the run saw;
 *one that is younger is written down as uncertain. A record is made once for each path and stays.
 *
 * At a commit, for a path of the base:
 *	equal to the workspace's version	-> nothing to do, no conflict
 *	record, certain, same identity		-> as it was
 *	record, certain, same type, mode, hash	-> as it was (touched, or rewritten with the same)
 *	no record (the supervisor was killed)	-> as it was if its ctime is before `created`
 *	anything else				-> conflict
 */
#ifndef WORKSPACE_RECORD_H
#define WORKSPACE_RECORD_H

#include <stdbool.h>
#include <sys/stat.h>

#include "workspace/changes.h"
#include "workspace/store.h"

/* After a run (locked): drops what changes nothing is NOT done here; records the base for every
 * change, clears is_dirty. *ret: the summary. Also called by whoever opens a workspace that nobody
 * settled. @changes may be NULL; else they are handed over (caller frees). */
int ws_settle(struct cordon_workspace *ws, struct cordon_summary *ret, struct ws_changes *changes,
	      struct cordon_error *err);

struct ws_records;

int ws_records_load(struct cordon_workspace *ws, struct ws_records **ret, struct cordon_error *err);
void ws_records_free(struct ws_records *records);
/* The file was damaged and counts as empty. */
bool ws_records_are_damaged(const struct ws_records *records);

enum ws_verdict {
	WS_AS_IT_WAS = 0, /* the base is what the run saw */
	WS_DONE,	  /* the base already is what the workspace has */
	WS_CHANGED,	  /* conflict */
};

/* Judges @path (relative), called @name in the directory @base_dir_fd (-1: that directory is gone).
 * The change's own file, to compare content with, is @name in @upper_dir_fd. @why: a short text for
 * the conflict ("changed", "deleted", "appeared", "became a directory"), static. */
int ws_judge(struct cordon_workspace *ws, const struct ws_records *records, const char *path,
	     const struct ws_node *node, int base_dir_fd, int upper_dir_fd, const char *name,
	     const char **why);

/* Forgets the records of paths that were committed. */
int ws_records_drop(struct cordon_workspace *ws, struct ws_records *records, const char *path);
/* The same where the copy keeps what was committed: @st is what the base has now. */
int ws_records_keep(struct ws_records *records, const char *path, const struct stat *st);
int ws_records_save(struct cordon_workspace *ws, struct ws_records *records,
		    struct cordon_error *err);

/* SHA-1 of a file's content (base/sha1.h, which patches for git need too): tells "rewritten with
 * the same content" from a change by the user, and is no protection against anybody. 0 or -errno.
 */
struct ws_hash {
	unsigned char v[20];
};
int ws_hash_file(int fd, struct ws_hash *ret);

/* Same size and bytes? 1, 0 or -errno. */
int ws_same_content(int a_fd, int b_fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where workspaces are kept: STATE/workspaces/ID/
 *
 *	meta.json	struct ws_meta; replaced in one step
 *	lock		locked (OFD) while a run has the workspace or something is changed
 *	upper/, work/	the writable directories of an overlay
 *	tree/		the copy, where there is no overlay
 *	records		the base as it was (record.h)
 *	journal		a commit that has begun (commit.h)
 *
 * and beside them STATE/workspaces/.name-NAME, links that lead to the id that has the name.
 *
 * The state directory is ours alone (0700, our owner, no links on the last steps of the way), so
 * what lies there can only be damaged by ourselves; what lies in upper/ and tree/ was made by
 * guests. A workspace that is being made or removed has a name that begins with a dot.
 */
#ifndef WORKSPACE_STORE_STORE_H
#define WORKSPACE_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <cordon/workspace.h>

#include "base/arena.h"
#include "base/strbuf.h"

#define WS_ID_SIZE 16
#define WS_USAGE_UNKNOWN UINT64_MAX

struct ws_meta {
	const char *id, *name, *base, *parent;
	int mechanism;
	dev_t base_dev;
	ino_t base_ino;
	uint64_t base_fsid; /* of its filesystem: device numbers may be others after a reboot */
	/*
	 * All by the clock that files are stamped with. The base was not read before `began`, so a
	 * file with an older ctime was there, unchanged. `created`: when the content was complete.
	 * No entry that we put into a copy has a younger ctime, and everything changed there later
	 * has one. For an overlay both are the same. A workspace that began as a copy of another
	 * inherits both, since its content is as old. But in a copy of a copy the ctime does not
	 * tell what guests touched, so its `created` is 0 (1970).
	 */
	struct timespec began, created;
	struct timespec made, used; /* for people */
	uint64_t runs;
	/* A run has begun and is not settled yet (record.h). */
	bool is_dirty;
	struct timespec run_started; /* of the last run */
	/*
	 * Of a branch, until something of it is committed: when the run began whose memory goes on
	 * in it. What changed in the base since then may be unknown to that memory, even if a later
	 * run could see it. 0 = none.
	 */
	struct timespec since;
	/* Usage of an overlay at the end of it, as limits.disk counts it; WS_USAGE_UNKNOWN = count
	 * again. */
	uint64_t usage_bytes, usage_inodes;
};

struct cordon_workspace {
	struct arena arena;
	struct ws_meta meta;
	struct cordon_workspace_info info;
	char *path;  /* absolute, of its directory */
	int dir_fd;  /* its directory */
	int lock_fd; /* of the lock file; locked or not */
	bool is_locked;
	pid_t locked_by; /* the process: a forked child closes only its copy */
	bool is_lent;	 /* an init has the lock, too, and keeps it as long as it lives */
	int base_fd; /* O_PATH | O_DIRECTORY, -1 if the base is gone or another (ws_open_base) */
};

struct tree_room;

struct ws_create {
	const char *state_dir; /* NULL: environment */
	const char *base;      /* absolute, real, checked by the caller */
	dev_t base_dev;
	ino_t base_ino;
	const char *name;   /* NULL = none */
	const char *parent; /* id or name of the workspace to begin as a copy of, or NULL */
	struct cordon_workspace *locked_parent; /* or this one, which the caller has locked */
	bool is_lazy;		      /* a copy is not waited for until it is on the disk */
	int mechanism;		      /* OVERLAY, or COPY (reflink is tried) */
	const struct tree_room *room; /* for a copy, NULL = as much as there is */
	int (*progress)(void *arg, uint64_t files, uint64_t bytes); /* may be NULL */
	void *arg;
};

/* Makes a workspace, locked by us. */
int ws_create(const struct ws_create *create, struct cordon_workspace **ret,
	      struct cordon_error *err);

/* cordon_workspace_branch() of a workspace that is locked by us, or by a run of ours, and stays so.
 */
int ws_branch(struct cordon_workspace *ws, uint64_t max_bytes, uint64_t max_files,
	      struct cordon_workspace **ret, struct cordon_error *err);

/* Finds by id, name or (the only one over) directory. CORDON_E_NOT_FOUND is not used: CORDON_E_PATH
 * with ENOENT if there is none, CORDON_E_USAGE if there are several. Does not lock. */
int ws_open(const char *state_dir, const char *which, struct cordon_workspace **ret,
	    struct cordon_error *err);

/* The same without directories: for runs, whose name may be that of a directory by chance. */
int ws_open_named(const char *state_dir, const char *name, struct cordon_workspace **ret,
		  struct cordon_error *err);

/* Exclusive, without waiting: CORDON_E_STATE "is in use by another run". Reads again what may have
 * changed since it was opened. */
int ws_lock(struct cordon_workspace *ws, struct cordon_error *err);
void ws_unlock(struct cordon_workspace *ws);

/* Opens the base and checks that it is the directory that it was. */
int ws_open_base(struct cordon_workspace *ws, struct cordon_error *err);

/* Only what a run changes (runs, used, run_started, is_dirty), without waiting for a disk: at its
 * start and its end. */
int ws_save_run(struct cordon_workspace *ws, struct cordon_error *err);
/* A run begins (locked): counts it, stamps it, marks it unsettled. Quickly. */
int ws_begin_run(struct cordon_workspace *ws, struct cordon_error *err);

/* No run goes on with an older memory any more (struct ws_meta, since). Locked. */
int ws_end_since(struct cordon_workspace *ws, struct cordon_error *err);

/* store_file.c: small files in a workspace's directory. */

/* Appends what is in @name to @sb: 0, -EFBIG if that is more than @sb may hold, or -errno. */
int store_file_read(int dir_fd, const char *name, struct strbuf *sb);
/* Replaces @name in one step. The workspace is locked. 0 or -errno. */
int store_file_replace(int dir_fd, const char *name, const struct strbuf *sb, bool is_durable);

/* "upper" or "tree", opened for reading; -errno. */
int ws_open_content(const struct cordon_workspace *ws);
bool ws_is_overlay(const struct cordon_workspace *ws);
bool ws_has_journal(int dir_fd);
/* What the base shows as changed since then may be unknown to what ran in an overlay. */
struct timespec ws_seen(const struct cordon_workspace *ws);
/* When the copy was begun: what the base shows as changed since then may not be in it. */
struct timespec ws_copy_begun(const struct cordon_workspace *ws);

/* Valid names: 1 to 64 of [A-Za-z0-9._-], not beginning with "." or "-", and not like an id. */
bool ws_is_name(const char *name);

/* STATE as an absolute path into @buf; it need not exist. */
int ws_state_path(const char *state_dir, char *buf, size_t size, struct cordon_error *err);
/* STATE/workspaces as an absolute path into @buf; made (0700) if @make. */
int ws_store_path(const char *state_dir, char *buf, size_t size, bool make,
		  struct cordon_error *err);

#endif

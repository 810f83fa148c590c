/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that holds all workspaces, and the files in each of them. */
#ifndef WORKSPACE_STORE_STORE_DIR_H
#define WORKSPACE_STORE_STORE_DIR_H

#include <limits.h>
#include <stdbool.h>

#include "workspace/store/store.h"

/* Names of workspaces that are being made or removed: the prefix and the id. */
#define NEW_PREFIX ".new-"
#define GONE_PREFIX ".gone-"
#define HALF_NAME_SIZE (sizeof(GONE_PREFIX) + WS_ID_SIZE)

struct store {
	char path[PATH_MAX]; /* of STATE/workspaces */
	int fd;		     /* -1: there is none yet */
};

/* state.c: finds, checks and with @make makes the directory. */
int store_open(struct store *store, const char *state_dir, bool make, struct cordon_error *err);
void store_close(struct store *store);
/* Keeps other processes from making, naming or removing workspaces. Held for moments only. */
int store_lock(const struct store *store, struct cordon_error *err);
void store_unlock(const struct store *store);

bool ws_is_id(const char *s); /* "w" and 8 hex digits */

/* meta.c. The strings belong to @arena; @path is of the workspace, for messages. */
int meta_read(int dir_fd, const char *id, const char *path, struct arena *arena,
	      struct ws_meta *ret, struct cordon_error *err);
int meta_write(int dir_fd, const struct ws_meta *meta, bool is_durable); /* 0 or -errno */

/*
 * run_state.c: what every run changes (runs, used, run_started, is_dirty) is kept in the lock file,
 * in one line of fixed length that is overwritten in place. Replacing meta.json twice per run would
 * cost more than the rest of a workspace, because filesystems write a file out before it replaces
 * another.
 */
int run_state_write(int lock_fd, const struct ws_meta *meta); /* 0 or -errno */
/* Leaves @meta as it is if the line is missing or damaged: no run has begun since meta.json was
 * written, or the machine lost power meanwhile. */
void run_state_read(int lock_fd, struct ws_meta *meta);

/* store.c */
struct cordon_workspace *ws_new(void); /* empty; NULL: out of memory */
/* Loads what is called @id; without it -CORDON_E_PATH and ENOENT. */
int ws_load(const struct store *store, const char *id, struct cordon_workspace **ret,
	    struct cordon_error *err);
void ws_fill_info(struct cordon_workspace *ws);
/* Whether the workspace @dir_fd is locked. Only asks, so that looking never makes a run fail. */
bool ws_is_in_use(int dir_fd);
/* Takes the lock of a lock file: 0, -EWOULDBLOCK or -errno. */
int lock_take(int lock_fd);
/* This process has taken its lock. */
void ws_is_ours(struct cordon_workspace *ws);
/* Identity of the filesystem that a directory is on; stays the same over a reboot. */
int fs_identity(int fd, uint64_t *ret);

/*
 * name_link.c: a link ".name-NAME" to the id of the workspace that has the name, so that finding it
 * does not need to read all of them. A link that is wrong or leads nowhere is ignored; but every
 * workspace with a name has one, since the link is made first. All with the store's lock.
 */
#define NAME_LINK_PREFIX ".name-"
bool name_link_read(const struct store *store, const char *name, char ret_id[WS_ID_SIZE]);
int name_link_write(const struct store *store, const char *name, const char *id); /* 0 or -errno */
void name_link_drop(const struct store *store, const char *name,
		    const char *id); /* if it is that */
/* The workspace that the link of @name leads to; NULL if there is none. Needs no lock. */
struct cordon_workspace *name_link_load(const struct store *store, const char *name);

/* list.c: every workspace, oldest first; damaged ones are skipped, and the first such error comes
 * back at the end. @fn takes the workspace over; not 0 = stop, and that is the result. */
int store_each(const struct store *store, int (*fn)(void *arg, struct cordon_workspace *ws),
	       void *arg, struct cordon_error *err);

#endif

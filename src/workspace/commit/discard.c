/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing workspaces: renamed first, so that the name of a leftover says that it can be removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "workspace/commit/commit.h"
#include "workspace/store/store_dir.h"
#include "workspace/tree/cursor.h"
#include "workspace/tree/tree.h"

/* --- one ----------------------------------------------------------------------------------------
 */

/* Renames @dir to the gone form of @id and removes it. The lock of it is held. @name: its own, or
 * NULL. */
static int remove_directory(const struct store *store, const char *dir, const char *id,
			    const char *name, struct cordon_error *err)
{
	char gone[HALF_NAME_SIZE];
	int r;

	(void)snprintf(gone, sizeof(gone), GONE_PREFIX "%s", id);
	if (strcmp(dir, gone) != 0) {
		r = store_lock(store, err);
		if (r < 0)
			return r;
		r = renameat(store->fd, dir, store->fd, gone) < 0 ? -errno : 0;
		if (r == 0 && name)
			name_link_drop(store, name, id);
		store_unlock(store);
		if (r < 0)
			return cordon_err(err, CORDON_E_SYSTEM, -r, "%s/%s cannot be removed",
					  store->path, dir);
	}
	r = tree_remove(store->fd, gone);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "%s/%s cannot be removed whole",
				  store->path, gone);
	return 0;
}

int cordon_workspace_discard(struct cordon_workspace *ws, struct cordon_error *err)
{
	struct store store = { .fd = -1 };
	int r = ws_lock(ws, err);

	if (r == 0) {
		(void)snprintf(store.path, sizeof(store.path), "%.*s",
			       (int)(strlen(ws->path) - strlen(ws->meta.id) - 1), ws->path);
		store.fd = openat(ws->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (store.fd < 0)
			r = cordon_err(err, CORDON_E_SYSTEM, errno, "%s", store.path);
	}
	if (r == 0)
		r = ws_end_interrupted(ws, err);
	if (r == 0)
		r = remove_directory(&store, ws->meta.id, ws->meta.id, ws->meta.name, err);
	store_close(&store);
	cordon_workspace_close(ws);
	return r;
}

/* --- garbage collection -------------------------------------------------------------------------
 */

struct gc {
	const struct cordon_gc_options *options;
	struct store store;
	time_t now;
	uint64_t n;
	int first; /* failure */
	struct cordon_error *err;
};

static void note_failure(struct gc *gc, int r, const struct cordon_error *why)
{
	if (r == 0 || gc->first != 0)
		return;
	gc->first = r;
	if (gc->err)
		*gc->err = *why;
}

static void tell(struct gc *gc, const struct cordon_workspace_info *info, const char *why)
{
	gc->n++;
	if (gc->options->told)
		gc->options->told(gc->options->arg, info, why);
}

static bool is_old(const struct gc *gc, int64_t used_s)
{
	int64_t age = gc->options->older_than_s;

	return age >= 0 && used_s <= gc->now && gc->now - used_s >= age;
}

/* Opens and locks what is called @name: the lock's descriptor, -EWOULDBLOCK if it is locked,
 * -ENOENT if there is no lock in it. */
static int lock_leftover(const struct gc *gc, const char *name)
{
	int dir_fd, fd, r;

	dir_fd = openat(gc->store.fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	fd = openat(dir_fd, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	r = fd < 0 ? -errno : lock_take(fd);
	close(dir_fd);
	if (r < 0 && fd >= 0)
		close(fd);
	return r < 0 ? r : fd;
}

/* @name begins with one of the prefixes, or is a workspace that cannot be read. */
static void take_leftover(struct gc *gc, const char *name, const char *id, const char *why)
{
	const struct cordon_workspace_info info = { .id = id, .base = "" };
	struct cordon_error e = CORDON_ERROR_INIT;
	int lock_fd, r;

	/* While the store is locked, no process is between making a directory and locking it. */
	r = store_lock(&gc->store, &e);
	if (r < 0) {
		note_failure(gc, r, &e);
		return;
	}
	lock_fd = lock_leftover(gc, name);
	store_unlock(&gc->store);
	if (lock_fd < 0 && lock_fd != -ENOENT)
		return;
	tell(gc, &info, why);
	if (!gc->options->dry_run) {
		r = remove_directory(&gc->store, name, id, NULL, &e);
		note_failure(gc, r, &e);
	}
	if (lock_fd >= 0)
		close(lock_fd);
}

/* 1: it has no changes, 0: it has some, or they cannot be read. */
static int is_unchanged(struct cordon_workspace *ws)
{
	struct ws_changes changes = { 0 };
	int is_it = 1;

	if (ws_open_base(ws, NULL) < 0 || ws_collect(ws, &changes, NULL) < 0)
		return 0;
	for (size_t i = 0; i < changes.n && is_it; i++)
		is_it = changes.v[i].kind == 0;
	ws_changes_done(&changes);
	return is_it;
}

static bool is_disposable(const struct gc *gc, const struct cordon_workspace *ws)
{
	const struct cordon_gc_options *o = gc->options;

	if (!ws->meta.name)
		return !o->only_disposable;
	return o->is_disposable && o->is_disposable(o->arg, &ws->info) == 1;
}

static const char *why_remove(const struct gc *gc, struct cordon_workspace *ws)
{
	if (is_old(gc, ws->meta.used.tv_sec))
		return "not used for long";
	if (is_disposable(gc, ws) && !ws_has_journal(ws->dir_fd) && is_unchanged(ws))
		return "no changes";
	return NULL;
}

static int look_at(void *arg, struct cordon_workspace *ws)
{
	struct cordon_error e = CORDON_ERROR_INIT;
	struct gc *gc = arg;
	const char *why = NULL;

	if (gc->options->only_disposable && !is_disposable(gc, ws)) {
		cordon_workspace_close(ws);
		return 0;
	}
	/* Locked, so that no run begins to use it meanwhile. */
	if (ws_lock(ws, NULL) == 0)
		why = why_remove(gc, ws);
	if (why)
		tell(gc, &ws->info, why);
	if (why && !gc->options->dry_run)
		note_failure(gc, cordon_workspace_discard(ws, &e), &e);
	else
		cordon_workspace_close(ws);
	return 0;
}

/* A workspace without a readable meta.json: its age is the directory's. */
static bool is_old_and_damaged(const struct gc *gc, const char *id)
{
	struct cordon_error e = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;
	struct stat st;

	if (ws_load(&gc->store, id, &ws, &e) == 0) {
		cordon_workspace_close(ws);
		return false;
	}
	return e.code == CORDON_E_STATE &&
	       fstatat(gc->store.fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       is_old(gc, st.st_mtim.tv_sec);
}

/* Removes the link of a name whose workspace is gone. */
static void drop_name_link(const struct gc *gc, const char *name)
{
	char id[WS_ID_SIZE];
	struct stat st;

	if (gc->options->dry_run || store_lock(&gc->store, NULL) < 0)
		return;
	if (name_link_read(&gc->store, name, id) &&
	    fstatat(gc->store.fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		name_link_drop(&gc->store, name, id);
	store_unlock(&gc->store);
}

static int take_leftovers(struct gc *gc)
{
	struct names names;
	int r = names_read(gc->store.fd, &names);

	if (r < 0)
		return cordon_err(gc->err, CORDON_E_SYSTEM, -r, "%s", gc->store.path);
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i];
		size_t new_len = strlen(NEW_PREFIX), gone_len = strlen(GONE_PREFIX);

		if (strncmp(name, NEW_PREFIX, new_len) == 0 && ws_is_id(name + new_len))
			take_leftover(gc, name, name + new_len, "half-made");
		else if (strncmp(name, GONE_PREFIX, gone_len) == 0 && ws_is_id(name + gone_len))
			take_leftover(gc, name, name + gone_len, "half-removed");
		else if (strncmp(name, NAME_LINK_PREFIX, strlen(NAME_LINK_PREFIX)) == 0)
			drop_name_link(gc, name + strlen(NAME_LINK_PREFIX));
		else if (ws_is_id(name) && is_old_and_damaged(gc, name))
			take_leftover(gc, name, name, "damaged");
	}
	names_done(&names);
	return 0;
}

int cordon_workspace_gc(const char *state_dir, const struct cordon_gc_options *options,
			uint64_t *ret_n, struct cordon_error *err)
{
	static const struct cordon_gc_options defaults = CORDON_GC_OPTIONS_INIT;
	struct gc gc = { .options = options ? options : &defaults, .now = time(NULL), .err = err };
	struct cordon_error e = CORDON_ERROR_INIT;
	int r;

	if (ret_n)
		*ret_n = 0;
	if (gc.options->size < sizeof(*options))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "the options of gc do not have the size of their type");
	r = store_open(&gc.store, state_dir, false, err);
	if (r < 0 || gc.store.fd < 0)
		return r;
	r = gc.options->only_disposable ? 0 : take_leftovers(&gc);
	if (r < 0)
		gc.first = gc.first ? gc.first : r;
	r = store_each(&gc.store, look_at, &gc, &e);
	/* Damaged ones are removed only if they are old; they are no failure of gc. */
	if (r < 0 && r != -CORDON_E_STATE)
		note_failure(&gc, r, &e);
	store_close(&gc.store);
	if (ret_n)
		*ret_n = gc.n;
	return gc.first;
}

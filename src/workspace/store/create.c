/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making workspaces: completed under a name with a dot, then renamed. So a workspace that exists is
 * whole, and a leftover of an interruption is recognised by its name and its free lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "workspace/store/store_dir.h"
#include "workspace/tree/compare.h"
#include "workspace/tree/tree.h"

#define STAMP_TRIES 1000

struct making {
	const struct ws_create *create;
	struct store store;
	struct cordon_workspace *ws, *parent;
	char id[WS_ID_SIZE];
	char half_name[HALF_NAME_SIZE]; /* "" = nothing was made yet */
	struct cordon_error *err;
};

static int no_memory(struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

/* --- checks -------------------------------------------------------------------------------------
 */

static int check_request(const struct making *m)
{
	const struct ws_create *create = m->create;

	if (create->mechanism != CORDON_MECHANISM_OVERLAY &&
	    create->mechanism != CORDON_MECHANISM_COPY)
		return cordon_err(m->err, CORDON_E_USAGE, 0, "no such mechanism: %d",
				  create->mechanism);
	if (create->base[0] != '/')
		return cordon_err(m->err, CORDON_E_USAGE, 0, "not an absolute path: %s",
				  create->base);
	if (create->name && !ws_is_name(create->name)) {
		(void)cordon_err(m->err, CORDON_E_USAGE, 0, "'%s' cannot be a workspace's name",
				 create->name);
		(void)cordon_err_hint(m->err, "up to 64 letters, digits, '.', '_' and '-', not "
					      "beginning with '.' or '-', and not like an id");
		return -CORDON_E_USAGE;
	}
	return 0;
}

/* With one inside the other, the view would show itself and a copy would never end. */
static int check_overlap(const struct making *m)
{
	char *store = realpath(m->store.path, NULL);
	int r = 0;

	if (!store)
		return cordon_err(m->err, CORDON_E_SYSTEM, errno, "%s", m->store.path);
	if (path_is_within(m->create->base, store)) {
		r = cordon_err(m->err, CORDON_E_PATH, 0,
			       "workspaces are kept in %s, which lies in %s itself", store,
			       m->create->base);
		(void)cordon_err_hint(m->err, "choose a directory further down, or set "
					      "XDG_STATE_HOME to a place outside of it");
	} else if (path_is_within(store, m->create->base)) {
		r = cordon_err(m->err, CORDON_E_PATH, 0, "%s is part of a workspace",
			       m->create->base);
		(void)cordon_err_hint(m->err, "`cordon run --from` begins with a copy of one");
	}
	free(store);
	return r;
}

static int check_name(const struct making *m)
{
	const char *name = m->create->name;
	struct cordon_workspace *other = name ? name_link_load(&m->store, name) : NULL;

	if (!other)
		return 0;
	(void)cordon_err(m->err, CORDON_E_STATE, 0, "there is a workspace %s already (%s)", name,
			 other->meta.id);
	(void)cordon_err_hint(
		m->err, "choose another name, or remove it: `cordon workspace discard %s`", name);
	cordon_workspace_close(other);
	return -CORDON_E_STATE;
}

static int open_parent(struct making *m)
{
	const struct ws_create *create = m->create;
	const struct ws_meta *p;
	const char *label;
	int r = 0;

	if (create->locked_parent)
		m->parent = create->locked_parent;
	else
		r = ws_open(create->state_dir, create->parent, &m->parent, m->err);
	if (r == 0)
		r = ws_lock(m->parent, m->err);
	if (r < 0)
		return r;
	p = &m->parent->meta;
	label = create->parent ? create->parent : p->id;
	if (strcmp(p->base, create->base) != 0 || p->base_ino != create->base_ino) {
		(void)cordon_err(m->err, CORDON_E_STATE, 0,
				 "workspace %s is over another directory, %s", label, p->base);
		(void)cordon_err_hint(m->err, "one that begins as its copy must be over the same");
		return -CORDON_E_STATE;
	}
	if (ws_is_overlay(m->parent) != (create->mechanism == CORDON_MECHANISM_OVERLAY))
		return cordon_err(m->err, CORDON_E_STATE, 0,
				  "workspace %s was made as %s, which this run cannot continue",
				  label, ws_is_overlay(m->parent) ? "an overlay" : "a copy");
	if (ws_has_journal(m->parent->dir_fd)) {
		(void)cordon_err(m->err, CORDON_E_STATE, 0,
				 "a commit of workspace %s was interrupted", label);
		(void)cordon_err_hint(m->err, "finish it first: `cordon workspace commit %s`",
				      label);
		return -CORDON_E_STATE;
	}
	return 0;
}

/* --- the directory ------------------------------------------------------------------------------
 */

static int pick_id(struct making *m)
{
	uint32_t random;
	struct stat st;

	for (;;) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		(void)snprintf(m->id, sizeof(m->id), "w%08x", random);
		if (fstatat(m->store.fd, m->id, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		(void)snprintf(m->half_name, sizeof(m->half_name), NEW_PREFIX "%s", m->id);
		if (mkdirat(m->store.fd, m->half_name, 0700) == 0)
			return 0;
		m->half_name[0] = '\0';
		if (errno != EEXIST)
			return -errno;
	}
}

static int make_directory(struct making *m)
{
	struct cordon_workspace *ws = m->ws;
	int r = pick_id(m);

	if (r < 0)
		return r;
	ws->dir_fd =
		openat(m->store.fd, m->half_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ws->dir_fd < 0)
		return -errno;
	ws->lock_fd = openat(ws->dir_fd, "lock", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			     0600);
	if (ws->lock_fd < 0)
		return -errno;
	r = lock_take(ws->lock_fd);
	if (r == 0)
		ws_is_ours(ws);
	return r;
}

/* Sets its strings. */
static int name_it(struct making *m)
{
	struct cordon_workspace *ws = m->ws;
	struct ws_meta *meta = &ws->meta;

	meta->id = arena_strdup(&ws->arena, m->id);
	meta->base = arena_strdup(&ws->arena, m->create->base);
	ws->path = arena_printf(&ws->arena, "%s/%s", m->store.path, m->id);
	if (m->create->name)
		meta->name = arena_strdup(&ws->arena, m->create->name);
	if (m->parent)
		meta->parent = arena_strdup(&ws->arena, m->parent->meta.id);
	if (!meta->id || !meta->base || !ws->path || (m->create->name && !meta->name) ||
	    (m->parent && !meta->parent))
		return no_memory(m->err);
	return 0;
}

static int open_base(struct making *m, struct stat *ret_st)
{
	const struct ws_create *create = m->create;
	struct cordon_workspace *ws = m->ws;

	ws->base_fd = open(create->base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ws->base_fd < 0 || fstat(ws->base_fd, ret_st) < 0)
		return cordon_err(m->err, CORDON_E_PATH, errno, "%s", create->base);
	if (ret_st->st_dev != create->base_dev || ret_st->st_ino != create->base_ino)
		return cordon_err(m->err, CORDON_E_PATH, 0, "%s was replaced at this moment",
				  create->base);
	ws->meta.base_dev = create->base_dev;
	ws->meta.base_ino = create->base_ino;
	if (fs_identity(ws->base_fd, &ws->meta.base_fsid) < 0)
		ws->meta.base_fsid = 0;
	return 0;
}

/* --- content ------------------------------------------------------------------------------------
 */

static int make_dir(int dir_fd, const char *name, int *ret_fd)
{
	if (mkdirat(dir_fd, name, 0700) < 0)
		return -errno;
	*ret_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static int report_progress(void *arg, const struct tree_copy *copy)
{
	const struct making *m = arg;
	const struct ws_create *create = m->create;

	return create->progress ? create->progress(create->arg, copy->files, copy->bytes) : 0;
}

static int copy_failed(const struct making *m, const char *from, const struct tree_copy *copy,
		       int r)
{
	if (r == -ECANCELED)
		return cordon_err(m->err, CORDON_E_SYSTEM, ECANCELED, "copying %s", from);
	if (copy->is_too_much)
		return cordon_err(m->err, CORDON_E_SYSTEM, EDQUOT,
				  "workspace %s contains more than may be copied",
				  m->parent ? m->parent->meta.id : from);
	(void)cordon_err(m->err, r == -EACCES ? CORDON_E_PATH : CORDON_E_SYSTEM, -r,
			 "cannot copy %s%s%s", from, copy->failed[0] ? "/" : "", copy->failed);
	if (r == -EACCES)
		(void)cordon_err_hint(m->err, "what you cannot read cannot be in a copy: make it "
					      "readable, or choose a directory without it");
	else if (r == -ENOSPC || r == -EDQUOT)
		(void)cordon_err_hint(m->err,
				      "make room, or set XDG_STATE_HOME to a larger filesystem");
	else if (r == -ESTALE)
		(void)cordon_err_hint(m->err, "it was moved meanwhile: try again");
	return m->err ? -m->err->code : -CORDON_E_SYSTEM;
}

/* The content of the other workspace, or of the base if there is none. */
static int copy_content(struct making *m, int to_fd, bool is_upper)
{
	struct tree_copy copy = {
		.is_upper = is_upper,
		.has_special = m->parent != NULL,
		.room = m->create->room,
		.progress = report_progress,
		.arg = m,
	};
	int from_fd = m->parent ? ws_open_content(m->parent)
				: fcntl(m->ws->base_fd, F_DUPFD_CLOEXEC, 0);
	const char *from = m->parent ? m->parent->path : m->create->base;
	int r;

	if (from_fd < 0)
		return cordon_err(m->err, CORDON_E_SYSTEM, m->parent ? -from_fd : errno, "%s",
				  from);
	r = tree_copy(from_fd, to_fd, &copy);
	close(from_fd);
	if (r < 0)
		return copy_failed(m, from, &copy, r);
	if (!is_upper)
		m->ws->meta.mechanism = copy.was_reflinked ? CORDON_MECHANISM_REFLINK
							   : CORDON_MECHANISM_COPY;
	return 0;
}

/* The upper directory becomes the root of the view: it looks like the base. */
static int look_like(int fd, const struct stat *base)
{
	const struct timespec times[2] = { base->st_atim, base->st_mtim };

	if (fchmod(fd, base->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int copy_records(struct making *m)
{
	int from = openat(m->parent->dir_fd, "records", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int to, r;

	if (from < 0)
		return errno == ENOENT ? 0 : -errno;
	to = openat(m->ws->dir_fd, "records", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	r = to < 0 || fstat(from, &st) < 0 ? -errno : file_copy(from, to, &st, NULL);
	close(from);
	if (to >= 0)
		close(to);
	return r;
}

static int make_overlay(struct making *m, const struct stat *base)
{
	int upper = -1, work = -1, r;

	r = make_dir(m->ws->dir_fd, "upper", &upper);
	if (r == 0)
		r = make_dir(m->ws->dir_fd, "work", &work);
	if (work >= 0)
		close(work);
	if (r == 0)
		r = m->parent ? copy_records(m) : look_like(upper, base);
	if (r < 0)
		r = cordon_err(m->err, CORDON_E_SYSTEM, -r, "%s", m->store.path);
	else if (m->parent)
		r = copy_content(m, upper, true);
	if (upper >= 0)
		close(upper);
	return r;
}

static int make_tree(struct making *m)
{
	int tree = -1, r = make_dir(m->ws->dir_fd, "tree", &tree);

	if (r == 0 && m->parent)
		r = copy_records(m);
	if (r < 0)
		r = cordon_err(m->err, CORDON_E_SYSTEM, -r, "%s", m->store.path);
	else
		r = copy_content(m, tree, false);
	if (tree >= 0)
		close(tree);
	return r;
}

/* --- times --------------------------------------------------------------------------------------
 */

/* What the filesystem stamps a change with at this moment. */
static int stamp(int lock_fd, struct timespec *ret)
{
	struct stat st;

	if (fchmod(lock_fd, 0600) < 0 || fstat(lock_fd, &st) < 0)
		return -errno;
	*ret = st.st_ctim;
	return 0;
}

/*
 * A time that separates changes so far, which are not younger, from later ones, which are. Taken
 * from the filesystem, because its stamps are finer than the clock's ticks on some kernels and
 * coarser on some filesystems. It does not hold if the clock is set back meanwhile.
 */
static int stamp_apart(int lock_fd, struct timespec *ret)
{
	const struct timespec tick = { .tv_nsec = 1000000 };
	struct timespec next = { 0 };
	int r = stamp(lock_fd, ret);

	for (int i = 0; r == 0 && i < STAMP_TRIES; i++) {
		r = stamp(lock_fd, &next);
		if (r < 0 || ws_is_before(ret, &next))
			break;
		(void)nanosleep(&tick, NULL);
	}
	return r;
}

/* A memory that goes on in a branch is that of the run which has the parent, or which had it
 * before. */
static struct timespec since_of(const struct ws_meta *parent)
{
	if (parent->since.tv_sec != 0 || !parent->is_dirty)
		return parent->since;
	return parent->run_started;
}

static int set_times(struct making *m)
{
	struct ws_meta *meta = &m->ws->meta;
	int r = 0;

	if (m->create->mechanism == CORDON_MECHANISM_OVERLAY)
		meta->created = meta->began;
	else
		r = stamp_apart(m->ws->lock_fd, &meta->created);
	if (r < 0)
		return cordon_err(m->err, CORDON_E_SYSTEM, -r, "%s", m->ws->path);
	meta->used = meta->made;
	if (!m->parent)
		return 0;
	meta->usage_bytes = meta->usage_inodes = WS_USAGE_UNKNOWN;
	/* The content is as old as the parent's. A copy of a copy does not know what was touched.
	 */
	meta->began = m->parent->meta.began;
	meta->created = m->parent->meta.created;
	if (!ws_is_overlay(m->ws))
		meta->created = (struct timespec){ 0 };
	meta->is_dirty = m->parent->meta.is_dirty;
	meta->run_started = m->parent->meta.run_started;
	if (m->create->locked_parent)
		meta->since = since_of(&m->parent->meta);
	return 0;
}

/* --- making one ---------------------------------------------------------------------------------
 */

static int begin(struct making *m)
{
	struct ws_meta *meta = &m->ws->meta;
	int r = store_lock(&m->store, m->err);

	if (r < 0)
		return r;
	r = check_name(m);
	if (r == 0) {
		int e = make_directory(m);

		if (e < 0)
			r = cordon_err(m->err, CORDON_E_SYSTEM, -e, "%s", m->store.path);
	}
	/* Copying takes time and is done without the lock. */
	if (r < 0 || m->parent || m->create->mechanism != CORDON_MECHANISM_OVERLAY)
		store_unlock(&m->store);
	if (r < 0)
		return r;
	if (clock_gettime(CLOCK_REALTIME, &meta->began) < 0)
		return cordon_err(m->err, CORDON_E_SYSTEM, errno, "clock");
	meta->made = meta->began;
	meta->mechanism = m->create->mechanism;
	return name_it(m);
}

static int publish(struct making *m)
{
	int r = 0;

	if (m->parent || m->create->mechanism != CORDON_MECHANISM_OVERLAY) {
		r = store_lock(&m->store, m->err);
		if (r == 0)
			r = check_name(m);
	}
	if (r == 0 && m->create->name) {
		int e = name_link_write(&m->store, m->create->name, m->id);

		if (e < 0)
			r = cordon_err(m->err, CORDON_E_SYSTEM, -e, "%s", m->store.path);
	}
	if (r == 0 && renameat(m->store.fd, m->half_name, m->store.fd, m->id) < 0)
		r = cordon_err(m->err, CORDON_E_SYSTEM, errno, "%s", m->ws->path);
	if (r == 0)
		m->half_name[0] = '\0';
	store_unlock(&m->store);
	return r;
}

static int make(struct making *m)
{
	bool is_overlay = m->create->mechanism == CORDON_MECHANISM_OVERLAY;
	struct stat base;
	int r = begin(m);

	if (r == 0)
		r = open_base(m, &base);
	if (r == 0)
		r = is_overlay ? make_overlay(m, &base) : make_tree(m);
	if (r == 0)
		r = set_times(m);
	if (r == 0) {
		/* A copy is worth waiting for the disk; an empty upper has nothing to lose. */
		bool is_durable = (!is_overlay || m->parent) && !m->create->is_lazy;
		int e = meta_write(m->ws->dir_fd, &m->ws->meta, is_durable);

		if (e < 0)
			r = cordon_err(m->err, CORDON_E_SYSTEM, -e, "%s", m->ws->path);
	}
	return r == 0 ? publish(m) : r;
}

int ws_create(const struct ws_create *create, struct cordon_workspace **ret,
	      struct cordon_error *err)
{
	struct making m = { .create = create, .store.fd = -1, .err = err };
	int r = check_request(&m);

	*ret = NULL;
	if (r < 0)
		return r;
	m.ws = ws_new();
	if (!m.ws)
		return no_memory(err);
	r = store_open(&m.store, create->state_dir, true, err);
	if (r == 0)
		r = check_overlap(&m);
	if (r == 0 && (create->parent || create->locked_parent))
		r = open_parent(&m);
	if (r == 0)
		r = make(&m);
	if (m.half_name[0])
		(void)tree_remove(m.store.fd, m.half_name);
	store_close(&m.store);
	if (m.parent != create->locked_parent)
		cordon_workspace_close(m.parent);
	if (r < 0) {
		cordon_workspace_close(m.ws);
		return r;
	}
	ws_fill_info(m.ws);
	*ret = m.ws;
	return 0;
}

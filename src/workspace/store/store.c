/* SPDX-License-Identifier: Apache-2.0 */
/* One workspace: loading, locking, its base and its content. */
#include "workspace/store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "workspace/store/store_dir.h"
#include "workspace/tree/birth_time.h"
#include "workspace/tree/compare.h"

#define LOCK_FLAGS (O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct cordon_workspace *ws_new(void)
{
	struct cordon_workspace *ws = calloc(1, sizeof(*ws));

	if (ws) {
		ws->dir_fd = -1;
		ws->lock_fd = -1;
		ws->base_fd = -1;
	}
	return ws;
}

void ws_is_ours(struct cordon_workspace *ws)
{
	ws->is_locked = true;
	ws->locked_by = getpid();
	ws->is_lent = false;
}

/*
 * Unlocks, since a process that another thread just starts has a copy of the descriptor until it
 * executes something, and the next who wants the lock would be refused. An init keeps its copy
 * locked.
 */
static void close_lock(struct cordon_workspace *ws)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	if (ws->is_locked && !ws->is_lent && ws->locked_by == getpid())
		(void)fcntl(ws->lock_fd, F_OFD_SETLK, &lock);
	if (ws->lock_fd >= 0)
		close(ws->lock_fd);
	ws->lock_fd = -1;
	ws->is_locked = false;
}

void cordon_workspace_close(struct cordon_workspace *ws)
{
	if (!ws)
		return;
	close_lock(ws);
	if (ws->dir_fd >= 0)
		close(ws->dir_fd);
	if (ws->base_fd >= 0)
		close(ws->base_fd);
	arena_done(&ws->arena);
	free(ws);
}

/*
 * A lock of the open file description: like flock() it lives as long as a copy of the descriptor,
 * in any process, but it can be queried without taking it.
 */
int lock_take(int lock_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(lock_fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	return errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
}

bool ws_is_in_use(int dir_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(dir_fd, "lock", LOCK_FLAGS);
	bool is_in_use;

	if (fd < 0)
		return false;
	is_in_use = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return is_in_use;
}

bool ws_has_journal(int dir_fd)
{
	struct stat st;

	return fstatat(dir_fd, "journal", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int fs_identity(int fd, uint64_t *ret)
{
	struct statfs st;
	uint32_t id[2];

	if (fstatfs(fd, &st) < 0)
		return -errno;
	static_assert(sizeof(st.f_fsid) == sizeof(id), "two words");
	memcpy(id, &st.f_fsid, sizeof(id));
	*ret = ((uint64_t)id[0] << 32) | id[1];
	return 0;
}

void ws_fill_info(struct cordon_workspace *ws)
{
	const struct ws_meta *m = &ws->meta;

	ws->info = (struct cordon_workspace_info){
		.id = m->id,
		.name = m->name,
		.base = m->base,
		.parent = m->parent,
		.mechanism = m->mechanism,
		.in_use = !ws->is_locked && ws_is_in_use(ws->dir_fd),
		.commit_begun = ws_has_journal(ws->dir_fd),
		.runs = m->runs,
		.created_s = m->made.tv_sec,
		.used_s = m->used.tv_sec,
	};
}

int ws_load(const struct store *store, const char *id, struct cordon_workspace **ret,
	    struct cordon_error *err)
{
	struct cordon_workspace *ws = ws_new();
	int r = 0;

	*ret = NULL;
	if (ws)
		ws->path = arena_printf(&ws->arena, "%s/%s", store->path, id);
	if (!ws || !ws->path) {
		cordon_workspace_close(ws);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	ws->dir_fd = openat(store->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ws->dir_fd < 0)
		r = cordon_err(err, errno == ENOENT ? CORDON_E_PATH : CORDON_E_SYSTEM, errno, "%s",
			       ws->path);
	if (r == 0)
		r = meta_read(ws->dir_fd, id, ws->path, &ws->arena, &ws->meta, err);
	if (r == 0) {
		ws->lock_fd = openat(ws->dir_fd, "lock", LOCK_FLAGS);
		if (ws->lock_fd < 0)
			r = cordon_err(err, CORDON_E_SYSTEM, errno, "%s/lock", ws->path);
		else
			run_state_read(ws->lock_fd, &ws->meta);
	}
	if (r < 0) {
		cordon_workspace_close(ws);
		return r;
	}
	ws_fill_info(ws);
	*ret = ws;
	return 0;
}

const struct cordon_workspace_info *cordon_workspace_info(const struct cordon_workspace *ws)
{
	return &ws->info;
}

/* Whether it still has its name: a workspace that is being removed is renamed first. */
static bool is_in_place(const struct cordon_workspace *ws)
{
	struct stat own, named;
	int store_fd = openat(ws->dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool is_same;

	if (store_fd < 0)
		return false;
	is_same = fstat(ws->dir_fd, &own) == 0 &&
		  fstatat(store_fd, ws->meta.id, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		  own.st_dev == named.st_dev && own.st_ino == named.st_ino;
	close(store_fd);
	return is_same;
}

static const char *label(const struct cordon_workspace *ws)
{
	return ws->meta.name ? ws->meta.name : ws->meta.id;
}

int ws_lock(struct cordon_workspace *ws, struct cordon_error *err)
{
	int r;

	if (ws->is_locked)
		return 0;
	r = lock_take(ws->lock_fd);
	if (r == -EWOULDBLOCK) {
		(void)cordon_err(err, CORDON_E_STATE, 0, "workspace %s is in use by another run",
				 label(ws));
		(void)cordon_err_hint(err, "wait until it ends, or take another one (--name)");
		return -CORDON_E_STATE;
	}
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "%s/lock", ws->path);
	ws_is_ours(ws);
	if (!is_in_place(ws)) {
		ws_unlock(ws);
		return cordon_err(err, CORDON_E_STATE, 0,
				  "workspace %s was removed by another process", label(ws));
	}
	r = meta_read(ws->dir_fd, ws->meta.id, ws->path, &ws->arena, &ws->meta, err);
	if (r < 0) {
		ws_unlock(ws);
		return r;
	}
	run_state_read(ws->lock_fd, &ws->meta);
	ws_fill_info(ws);
	return 0;
}

void ws_unlock(struct cordon_workspace *ws)
{
	int fd;

	if (!ws->is_locked)
		return;
	fd = openat(ws->dir_fd, "lock", LOCK_FLAGS);
	close_lock(ws);
	ws->lock_fd = fd;
}

int ws_open_base(struct cordon_workspace *ws, struct cordon_error *err)
{
	const struct ws_meta *m = &ws->meta;
	struct stat st;
	uint64_t fsid = 0;
	int fd;

	if (ws->base_fd >= 0)
		return 0;
	fd = open(m->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "%s, the base of workspace %s",
				  m->base, label(ws));
	if (fstat(fd, &st) == 0 && st.st_ino == m->base_ino &&
	    (st.st_dev == m->base_dev ||
	     (fs_identity(fd, &fsid) == 0 && fsid != 0 && fsid == m->base_fsid))) {
		ws->base_fd = fd;
		return 0;
	}
	close(fd);
	(void)cordon_err(err, CORDON_E_PATH, 0,
			 "%s is not the directory that workspace %s was made over", m->base,
			 label(ws));
	(void)cordon_err_hint(err, "put the old one back, or take the changes out with `cordon "
				   "workspace export`");
	return -CORDON_E_PATH;
}

int ws_save_run(struct cordon_workspace *ws, struct cordon_error *err)
{
	int r = run_state_write(ws->lock_fd, &ws->meta);

	if (r < 0)
		return cordon_err(err, r == -ENOMEM ? CORDON_E_NOMEM : CORDON_E_SYSTEM, -r,
				  "%s/lock", ws->path);
	ws_fill_info(ws);
	return 0;
}

int ws_end_since(struct cordon_workspace *ws, struct cordon_error *err)
{
	int r = 0;

	if (ws->meta.since.tv_sec != 0) {
		ws->meta.since = (struct timespec){ 0 };
		r = meta_write(ws->dir_fd, &ws->meta, true);
	}
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "%s", ws->path) : 0;
}

int ws_begin_run(struct cordon_workspace *ws, struct cordon_error *err)
{
	struct timespec now;

	/* Not the coarse clock, which files are stamped with: a file written just before the run,
	 * in the same tick, must be older than this. */
	if (clock_gettime(CLOCK_REALTIME, &now) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "clock");
	ws->meta.runs++;
	ws->meta.used = now;
	ws->meta.run_started = now;
	ws->meta.is_dirty = true;
	return ws_save_run(ws, err);
}

bool ws_is_overlay(const struct cordon_workspace *ws)
{
	return ws->meta.mechanism == CORDON_MECHANISM_OVERLAY;
}

int ws_open_content(const struct cordon_workspace *ws)
{
	const char *name = ws_is_overlay(ws) ? "upper" : "tree";
	int fd = openat(ws->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* The guest may have closed it, as any other directory; a cursor can open it. */
	if (fd < 0 && errno == EACCES)
		fd = openat(ws->dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

struct timespec ws_seen(const struct cordon_workspace *ws)
{
	const struct ws_meta *m = &ws->meta;
	bool is_earlier = m->since.tv_sec != 0 && ws_is_before(&m->since, &m->run_started);

	return is_earlier ? m->since : m->run_started;
}

struct timespec ws_copy_begun(const struct cordon_workspace *ws)
{
	struct timespec begun = ws->meta.created, birth;
	int fd;

	if (ws->meta.began.tv_sec != 0 || ws->meta.began.tv_nsec != 0)
		return ws->meta.began;
	fd = ws_open_content(ws);
	if (fd < 0)
		return begun;
	/* The directory was made when the copying began. */
	if ((begun.tv_sec != 0 || begun.tv_nsec != 0) && birth_time(fd, &birth) &&
	    ws_is_before(&birth, &begun))
		begun = birth;
	close(fd);
	return begun;
}

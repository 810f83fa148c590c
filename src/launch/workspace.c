/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of a run.
 *
 * It is found or made before the run is planned, and locked; init has the lock, too, so that it
 * stays locked until the whole tree has ended. Nothing here waits for a disk: a power failure may
 * lose the run's changes, never the base's files.
 *
 * An overlay is the normal case. A copy is made where there is no mount namespace, or where the
 * kernel refuses an overlay: the store's filesystem cannot have an upper directory, or another
 * filesystem is mounted somewhere below the base.
 */
#include "launch/workspace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "launch/launch.h"
#include "sys/calls.h"
#include "workspace/tree/tree.h"
#include "workspace/changes/changes.h"
#include "workspace/store/store.h"

/* Not in every version of the kernel's header. */
#define MAGIC_FUSE 0x65735546
#define MAGIC_VFAT 0x4d44
#define MAGIC_EXFAT 0x2011bab0
#define MAGIC_9P 0x01021997
#define MAGIC_CIFS 0xff534d42
#define MAGIC_SMB2 0xfe534d42

struct base {
	int fd;
	char path[PATH_MAX]; /* real */
	struct stat st;
};

static void base_done(struct base *base)
{
	if (base->fd >= 0)
		close(base->fd);
}

/* Writing to such files acts at once; there is nothing to copy. */
static bool is_of_the_kernel(int fd)
{
	static const long types[] = { PROC_SUPER_MAGIC,	   SYSFS_MAGIC,	       CGROUP_SUPER_MAGIC,
				      CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,      TRACEFS_MAGIC,
				      SECURITYFS_MAGIC,	   DEVPTS_SUPER_MAGIC, BPF_FS_MAGIC };
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((long)st.f_type == types[i])
			return true;
	return false;
}

static int open_base(const struct cordon_run_options *options, const char *typed, struct base *ret,
		     struct cordon_error *err)
{
	char cwd[PATH_MAX], path[PATH_MAX], link[64];
	const char *from = options->cwd, *rest = typed;
	ssize_t len;
	int r;

	if (typed[0] == '~') { /* "~" or "~/...", or the policy would not have it */
		from = options->home;
		rest += 1 + strspn(rest + 1, "/");
	} else if (!from) {
		from = getcwd(cwd, sizeof(cwd));
	}
	r = from ? path_normalise(from, *rest ? rest : ".", path, sizeof(path)) : -ENOENT;
	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r, "the workspace '%s'", typed);
	ret->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd < 0 || fstat(ret->fd, &ret->st) < 0) {
		r = cordon_err(err, CORDON_E_PATH, errno, "cannot use '%s' as a workspace", typed);
		if (errno == ENOTDIR)
			cordon_err_hint(err, "a workspace is a directory");
		return r;
	}
	if (is_of_the_kernel(ret->fd)) {
		cordon_err(err, CORDON_E_PATH, 0, "'%s' contains only files of the kernel", typed);
		cordon_err_hint(err, "a workspace is a directory on a disk or in memory");
		return -CORDON_E_PATH;
	}
	snprintf(link, sizeof(link), "/proc/self/fd/%d", ret->fd);
	len = readlink(link, ret->path, sizeof(ret->path) - 1);
	if (len <= 0 || ret->path[0] != '/')
		return cordon_err(err, CORDON_E_PATH, len < 0 ? errno : ENOENT,
				  "cannot use '%s' as a workspace", typed);
	ret->path[len] = '\0';
	return 0;
}

/* Resolves links in the part of @path that exists; the rest stays as it is. */
static int real_path(const char *path, char *ret, size_t size)
{
	char part[PATH_MAX], real[PATH_MAX];
	size_t len = strlen(path);
	int n;

	memcpy(part, path, len + 1);
	while (!realpath(len ? part : "/", real)) {
		if (len == 0 || (errno != ENOENT && errno != ENOTDIR && errno != EACCES))
			return -errno;
		len = (size_t)(strrchr(part, '/') - part);
		part[len] = '\0';
	}
	n = snprintf(ret, size, "%s%s", strcmp(real, "/") == 0 ? "" : real, path + len);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* The store must not lie inside the base. Checked before anything is made there. */
static int check_store(const struct cordon_run *run, const struct base *base,
		       struct cordon_error *err)
{
	char store[PATH_MAX], real[PATH_MAX];
	int r = ws_store_path(run->options.state_dir, store, sizeof(store), false, err);

	if (r < 0)
		return r;
	r = real_path(store, real, sizeof(real));
	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r, "state directory %s", store);
	if (!path_is_within(base->path, real))
		return ws_store_path(run->options.state_dir, store, sizeof(store), true, err);
	r = cordon_err(err, CORDON_E_PATH, 0,
		       "'%s' contains the directory where workspaces are kept", base->path);
	cordon_err_hint(err,
			"take a directory below it, or set XDG_STATE_HOME to a place outside "
			"('%s' now)",
			store);
	return r;
}

/* Can the store have an overlay's upper directory? Unknown filesystems are tried. */
static bool may_overlay(const struct cordon_run *run, const struct base *base)
{
	const struct probe_machine *m = &run->launcher->machine;
	struct statfs fs;
	char store[PATH_MAX];

	/* The sandbox maps only the caller's user and group, so files of others cannot be copied
	 * up. For root, idmapped mounts solve this. */
	if (m->uid != 0 && (base->st.st_uid != m->uid || base->st.st_gid != m->gid))
		return false;
	if (run->workspace.no_overlay || base->fd < 0 ||
	    ws_store_path(run->options.state_dir, store, sizeof(store), true, NULL) < 0 ||
	    statfs(store, &fs) < 0)
		return false;
	switch ((unsigned long)fs.f_type) {
	case OVERLAYFS_SUPER_MAGIC:
	case NFS_SUPER_MAGIC:
	case MAGIC_FUSE:
	case MAGIC_VFAT:
	case MAGIC_EXFAT:
	case MAGIC_9P:
	case MAGIC_CIFS:
	case MAGIC_SMB2:
		return false;
	default:
		return true;
	}
}

static int create(struct cordon_run *run, const struct base *base, int level,
		  struct cordon_error *err)
{
	bool overlay = level == PLAN_LEVEL_NAMESPACES && may_overlay(run, base);
	const struct ws_create how = {
		.state_dir = run->options.state_dir,
		.base = base->path,
		.base_dev = base->st.st_dev,
		.base_ino = base->st.st_ino,
		.name = run->options.workspace_name,
		.parent = run->options.workspace_from,
		.mechanism = overlay ? CORDON_MECHANISM_OVERLAY : CORDON_MECHANISM_COPY,
		.progress = run->options.workspace_progress,
		.arg = run->options.workspace_arg,
	};
	int r = ws_create(&how, &run->workspace.ws, err);

	if (r == 0)
		run->workspace.info.is_new = 1;
	return r;
}

/* Opens and locks the one that the options name: 1, 0 = there is none, or an error. */
static int find(struct cordon_run *run, const struct base *base, struct cordon_error *err)
{
	const char *name = run->options.workspace_name;
	struct cordon_error why = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;
	int r = ws_open_named(run->options.state_dir, name, &ws, &why);

	if (r == -CORDON_E_PATH && why.sys_errno == ENOENT)
		return 0;
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	if (base->fd >= 0 &&
	    (ws->meta.base_dev != base->st.st_dev || ws->meta.base_ino != base->st.st_ino)) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "the workspace '%s' is one of '%s'", name,
			       ws->meta.base);
		cordon_err_hint(err,
				"choose another name, or leave --workspace out to continue it");
	} else if (run->options.workspace_from) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "there is a workspace '%s' already", name);
		cordon_err_hint(err, "a copy of another one needs a name of its own");
	} else {
		r = ws_lock(ws, err);
	}
	if (r < 0) {
		cordon_workspace_close(ws);
		return r;
	}
	run->workspace.ws = ws;
	return 1;
}

static int check_level(const struct cordon_run *run, int level, struct cordon_error *err)
{
	const struct cordon_workspace *ws = run->workspace.ws;
	int r;

	if (level == PLAN_LEVEL_NAMESPACES || !ws_is_overlay(ws))
		return 0;
	r = cordon_err(err, CORDON_E_UNSUPPORTED, 0,
		       "the workspace '%s' is an overlay, which level landlock cannot show",
		       ws->meta.name ? ws->meta.name : ws->meta.id);
	cordon_err_hint(err, "commit or discard it, or run where user namespaces can be had "
			     "(cordon check)");
	return r;
}

static int describe(struct cordon_run *run, struct cordon_error *err)
{
	struct run_workspace *rw = &run->workspace;
	const struct cordon_workspace *ws = rw->ws;
	struct plan_workspace *p = &rw->plan;
	bool is_copy = !ws_is_overlay(ws);
	const char *content =
		arena_printf(&run->arena, "%s/%s", ws->path, is_copy ? "tree" : "upper");
	struct cordon_run_workspace *info = &rw->info;

	if (rw->dir_fd >= 0)
		close(TAKE_FD(rw->dir_fd));
	if (is_copy) {
		rw->dir_fd =
			openat(ws->dir_fd, "tree", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (rw->dir_fd < 0)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "the workspace's copy");
	}
	p->base = arena_strdup(&run->arena, ws->meta.base);
	p->base_dev = ws->meta.base_dev;
	p->base_ino = ws->meta.base_ino;
	p->dir = is_copy ? content : arena_strdup(&run->arena, ws->path);
	p->dir_fd = is_copy ? rw->dir_fd : ws->dir_fd;
	p->content = content;
	p->is_copy = is_copy;
	info->id = arena_strdup(&run->arena, ws->meta.id);
	info->name = ws->meta.name ? arena_strdup(&run->arena, ws->meta.name) : NULL;
	info->base = p->base;
	info->mechanism = ws->meta.mechanism;
	if (!p->base || !p->dir || !content || !info->id || (ws->meta.name && !info->name))
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return 0;
}

/* Marks it as dirty: if we are killed, the next one to open it settles it. */
static int note_start(struct cordon_run *run, struct cordon_error *err)
{
	struct cordon_workspace *ws = run->workspace.ws;
	int r = ws->meta.is_dirty ? ws_settle(ws, NULL, NULL, err) : 0;

	return r < 0 ? r : ws_begin_run(ws, err);
}

static int find_or_create(struct cordon_run *run, const struct cordon_policy *policy,
			  struct base *base, int level, struct cordon_error *err)
{
	const char *name = run->options.workspace_name;
	int r = 0;

	if (policy->workspace)
		r = open_base(&run->options, policy->workspace, base, err);
	if (r == 0 && base->fd >= 0)
		r = check_store(run, base, err);
	if (r == 0 && name)
		r = find(run, base, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (base->fd < 0 && run->options.workspace_from) {
		struct cordon_workspace *from;

		r = ws_open(run->options.state_dir, run->options.workspace_from, &from, err);
		if (r < 0)
			return r;
		r = open_base(&run->options, from->meta.base, base, err);
		cordon_workspace_close(from);
		if (r < 0)
			return r;
	}
	if (base->fd < 0) {
		cordon_err(err, CORDON_E_USAGE, 0, "there is no workspace '%s'", name);
		cordon_err_hint(err, "to make it: --workspace DIR --name %s", name);
		return -CORDON_E_USAGE;
	}
	return create(run, base, level, err);
}

static void discard(struct run_workspace *rw)
{
	struct cordon_error ignored = CORDON_ERROR_INIT;

	(void)cordon_workspace_discard(TAKE_PTR(rw->ws), &ignored);
	rw->info.is_new = 0;
}

int workspace_begin(struct cordon_run *run, const struct cordon_policy *policy, int level,
		    struct cordon_error *err)
{
	struct run_workspace *rw = &run->workspace;
	struct base base = { .fd = -1 };
	int r = 0;

	if (!policy->workspace && !run->options.workspace_name && !run->options.workspace_from)
		return 0;
	if (run->launcher->machine.uid == 0 && policy->user && level == PLAN_LEVEL_LANDLOCK) {
		r = cordon_err(err, CORDON_E_UNSUPPORTED, 0,
			       "level landlock cannot show a workspace to another user (--user)");
		cordon_err_hint(err, "start it as that user");
		return r;
	}
	/* A second try may need another mechanism than the first. */
	if (rw->ws && rw->info.is_new && ws_is_overlay(rw->ws) &&
	    (level == PLAN_LEVEL_LANDLOCK || rw->no_overlay))
		discard(rw);
	if (!rw->ws)
		r = find_or_create(run, policy, &base, level, err);
	base_done(&base);
	if (r < 0)
		return r;
	if (!rw->ws) {
		cordon_err(err, CORDON_E_STATE, 0, "there is no workspace");
		return -CORDON_E_STATE;
	}
	r = check_level(run, level, err);
	if (r == 0)
		r = note_start(run, err);
	return r < 0 ? r : describe(run, err);
}

int workspace_pretend(const struct cordon_policy *policy, const struct cordon_run_options *options,
		      int level, struct arena *arena, struct plan_workspace *ret,
		      struct cordon_error *err)
{
	struct base base = { .fd = -1 };
	char store[PATH_MAX];
	int r = open_base(options, policy->workspace, &base, err);

	if (r == 0)
		r = ws_store_path(options->state_dir, store, sizeof(store), false, err);
	if (r < 0) {
		base_done(&base);
		return r;
	}
	ret->is_copy = level == PLAN_LEVEL_LANDLOCK;
	ret->base = arena_strdup(arena, base.path);
	ret->base_dev = base.st.st_dev;
	ret->base_ino = base.st.st_ino;
	/* A copy that does not exist has no path: show the directory itself. */
	ret->dir = ret->is_copy ? ret->base : arena_printf(arena, "%s/NEW", store);
	ret->content = ret->is_copy ? ret->base : arena_printf(arena, "%s/NEW/upper", store);
	ret->dir_fd = base.fd;
	if (ret->base && ret->dir && ret->content)
		return 0;
	base_done(&base);
	return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

const struct plan_workspace *workspace_plan(const struct cordon_run *run)
{
	return run->workspace.ws ? &run->workspace.plan : NULL;
}

int workspace_lend_lock(const struct cordon_run *run)
{
	struct cordon_workspace *ws = run->workspace.ws;

	if (!ws)
		return -1;
	ws->is_lent = true;
	return ws->lock_fd;
}

/* Init cannot count what lies in directories that the command has locked. We can, before the run.
 */
static void add_locked(const struct cordon_workspace *ws, struct control_limits *ret)
{
	struct tree_usage locked = { 0 };
	int fd;

	if (!ret->disk_bytes || !ws_is_overlay(ws) || ret->usage_bytes != CONTROL_UNKNOWN)
		return;
	fd = ws_open_content(ws);
	if (fd >= 0 && tree_closed_usage(fd, &locked) == 0) {
		ret->locked_bytes += locked.bytes;
		ret->locked_inodes += locked.inodes;
	}
	if (fd >= 0)
		close(fd);
}

void workspace_usage(const struct cordon_run *run, struct control_limits *ret)
{
	const struct cordon_workspace *ws = run->workspace.ws;

	if (!ws)
		return;
	static_assert(WS_USAGE_UNKNOWN == CONTROL_UNKNOWN, "both mean: to be counted");
	ret->usage_bytes = ws->meta.usage_bytes;
	ret->usage_inodes = ws->meta.usage_inodes;
	add_locked(ws, ret);
}

static void note_usage(struct cordon_run *run)
{
	struct ws_meta *meta = &run->workspace.ws->meta;
	bool is_known = run->report.type == CONTROL_ENDED && run->plan &&
			run->plan->limits.workspace_bytes && ws_is_overlay(run->workspace.ws);

	/* Unknown also means that the next run has to look for locked directories first. */
	if (run->report.usage_bytes == CONTROL_UNKNOWN || run->report.hits & CONTROL_HIT_LOCKED)
		is_known = false;
	/* What was not counted may lie in either directory; it is counted here, to be safe. */
	meta->usage_bytes = is_known ? run->report.usage_bytes - run->report.private_bytes
				     : WS_USAGE_UNKNOWN;
	meta->usage_inodes = is_known ? run->report.usage_inodes - run->report.private_inodes
				      : WS_USAGE_UNKNOWN;
}

/* They are not changes. */
void workspace_uncover(const struct cordon_run *run, const struct cordon_workspace *ws)
{
	const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
	int content = ws_open_content(ws);

	for (size_t i = 0; content >= 0 && run->plan && i < run->plan->n_covered; i++) {
		const char *path = run->plan->covered[i];
		size_t dir_len = path_dir_len(path);
		const char *name = path + dir_len + (path[dir_len] == '/');
		char dir[PATH_MAX] = ".";
		struct stat st;
		int fd;

		if (dir_len >= sizeof(dir))
			continue;
		if (dir_len)
			memcpy(dir, path, dir_len);
		dir[dir_len ? dir_len : 1] = '\0';
		fd = sys_openat2(content, dir, O_PATH | O_DIRECTORY, resolve);

		if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_size == 0 && !(st.st_mode & 07777))
			unlinkat(fd, name, 0);
		if (fd >= 0)
			close(fd);
	}
	if (content >= 0)
		close(content);
}

static bool is_empty(const struct cordon_summary *s)
{
	return !(s->added | s->modified | s->deleted | s->renamed | s->mode | s->symlink | s->type);
}

/* The kernel makes the overlay's work directories with mode 0, which `rm -r` cannot remove. */
static void open_work(const struct cordon_workspace *ws)
{
	static const char *const names[] = { "work", "work/incompat", "work/incompat/volatile" };
	int fd = openat(ws->dir_fd, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (fchmodat(fd, names[i], 0700, 0) < 0 && errno != ENOENT)
			errno = 0; /* we can remove it all the same */
	}
	close(fd);
}

static int settle(struct cordon_run *run, struct cordon_error *err)
{
	struct run_workspace *rw = &run->workspace;
	struct ws_changes changes;
	int r;

	if (!run->options.workspace_changes)
		return ws_settle(rw->ws, &rw->info.summary, NULL, err);
	r = ws_settle(rw->ws, &rw->info.summary, &changes, err);
	if (r < 0)
		return r;
	rw->info.changes = rw->changes = ws_changes_to_json(&changes);
	ws_changes_done(&changes);
	return 0;
}

const char *cordon_run_workspace(const struct cordon_run *run)
{
	return run->workspace.info.id;
}

void workspace_end(struct cordon_run *run, bool has_run)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct run_workspace *rw = &run->workspace;
	struct cordon_workspace *ws = rw->ws;
	int r;

	if (!ws)
		return;
	/* Init has closed it before it said that the tree is gone. */
	if (run->reported || run->init_gone)
		ws->is_lent = false;
	if (!has_run && rw->info.is_new) {
		discard(rw);
	} else {
		workspace_uncover(run, ws);
		open_work(ws);
		note_usage(run);
		r = settle(run, &err);
		/* On failure it stays dirty: opening it next settles it, or says why that fails. */
		rw->info.is_settled = r == 0;
		if (r == 0 && rw->info.is_new && !rw->info.name && is_empty(&rw->info.summary)) {
			discard(rw);
			rw->info.outcome = "empty";
		} else {
			cordon_workspace_close(TAKE_PTR(rw->ws));
			rw->info.is_kept = 1;
			rw->info.outcome = "kept";
		}
		run->result.workspace = &rw->info;
	}
	if (rw->dir_fd >= 0)
		close(TAKE_FD(rw->dir_fd));
}

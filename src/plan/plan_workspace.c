/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.workspace: a directory of which the command sees a copy-on-write view.
 *
 * With namespaces the view lies at the directory's own path: an overlay, or a copy that is mounted
 * there. Without a mount namespace nothing can lie where something else is: the command works in
 * the copy, under its path. The launcher has made layers or copy before anything is planned.
 *
 * What earlier runs left in a workspace is there for this one, though not on the host: programs and
 * directories are looked for there first.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/session_place.h"
#include "plan/plan_internal.h"
#include "sys/calls.h"
#include "workspace/store/store.h"

bool plan_in_workspace(const struct build *b, const char *path)
{
	return b->in->workspace && path_is_within(b->in->workspace->base, path);
}

const char *plan_workspace_path(struct build *b, const char *path)
{
	const struct plan_workspace *ws = b->in->workspace;
	size_t len = strlen(ws->base);

	if (b->in->level == PLAN_LEVEL_NAMESPACES)
		return path;
	return arena_printf(b->arena, "%s%s", ws->dir, path + len);
}

static int check_base(struct build *b, const struct grant *g)
{
	const struct plan_workspace *ws = b->in->workspace;
	int r;

	if (!g->is_dir)
		return cordon_err(b->err, CORDON_E_PATH, 0, "the workspace '%s' is not a directory",
				  g->typed);
	if (g->dev != ws->base_dev || g->ino != ws->base_ino)
		return cordon_err(b->err, CORDON_E_PATH, 0,
				  "the workspace '%s' was replaced while it was looked at",
				  g->typed);
	if (g->typed[0] != '/' && g->typed[0] != '~' && path_is_within(g->real, b->home_real)) {
		r = cordon_err(b->err, CORDON_E_PATH, 0, "'%s' is your home directory", g->typed);
		cordon_err_hint(b->err, "work in a directory of its own, or name the home in full "
					"if you mean it");
		return r;
	}
	return 0;
}

/* Without a mount namespace: the copy, by its own path. */
static int grant_copy(struct build *b)
{
	const struct plan_workspace *ws = b->in->workspace;
	struct grant *g;
	int r = plan_add_grant(b, ws->dir, GRANT_EXPLICIT, true, &g);

	if (r == 0)
		g->is_workspace = true;
	return r;
}

int plan_grant_workspace(struct build *b)
{
	const struct plan_workspace *ws = b->in->workspace;
	struct grant *g;
	int r;

	if (!ws)
		return 0;
	/* By the name that was typed: the rules about links apply here, too. */
	r = plan_add_grant(b, b->policy->workspace ? b->policy->workspace : ws->base,
			   GRANT_EXPLICIT, true, &g);
	if (r == 0)
		r = check_base(b, g);
	if (r < 0)
		return r;
	g->is_workspace = true;
	if (b->in->level == PLAN_LEVEL_NAMESPACES)
		return 0;
	g->is_dropped = true;
	return grant_copy(b);
}

static int refuse_beside_copy(struct build *b, const char *what, const char *typed)
{
	int r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			   "level landlock cannot %s '%s' together with the workspace '%s'", what,
			   typed, b->in->workspace->base);

	cordon_err_hint(b->err, "leave one of the two out, or use a machine with user "
				"namespaces; 'cordon check' says what is in the way");
	return r;
}

/*
 * Without a mount namespace the command has the copy and, by its own path, what was granted of the
 * base: it would write there what the workspace is to keep apart, and find in the copy what was
 * denied.
 */
int plan_check_copy(struct build *b)
{
	const struct plan_workspace *ws = b->in->workspace;

	if (!ws)
		return 0;
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->is_dropped || g->is_workspace || g->origin != GRANT_EXPLICIT)
			continue;
		if (g->write &&
		    (path_is_within(ws->base, g->real) || path_is_within(g->real, ws->base)))
			return refuse_beside_copy(b, "grant writing to", g->typed);
		if (plan_is_below(ws->base, g->real))
			return refuse_beside_copy(b, "keep read-only", g->typed);
	}
	for (size_t i = 0; i < b->n_marks; i++) {
		const struct mark *m = &b->marks[i];

		if (m->kind == MARK_MASK &&
		    (path_is_within(ws->base, m->path) || path_is_within(m->path, ws->base)))
			return refuse_beside_copy(b, "deny", m->path);
	}
	return 0;
}

/* A step whose object is the workspace's own directory. */
static int store_step(struct build *b, unsigned type, const char *dst, struct step **ret)
{
	const struct plan_workspace *ws = b->in->workspace;
	struct step *step;
	struct stat st;
	int fd;

	if (fstat(ws->dir_fd, &st) < 0)
		return cordon_err(b->err, CORDON_E_PATH, errno, "the workspace's own directory");
	step = plan_step(b, type, dst, ws->dir);
	if (!step)
		return plan_nomem(b);
	plan_set_identity(step, st.st_dev, st.st_ino);
	*ret = step;
	if (!b->is_root)
		return 0;
	fd = fcntl(ws->dir_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return cordon_err(b->err, CORDON_E_SYSTEM, errno, "the workspace's own directory");
	return plan_pass_fd(b, step, fd);
}

int plan_workspace_step(struct build *b, const struct grant *g, struct step **ret,
			bool *ret_is_base)
{
	struct step *upper;
	int r;

	*ret_is_base = !b->in->workspace->is_copy;
	if (!*ret_is_base)
		return store_step(b, PLAN_OP_BIND, g->real, ret);
	r = store_step(b, PLAN_OP_UPPER, g->real, &upper);
	if (r < 0)
		return r;
	*ret = plan_step(b, PLAN_OP_OVERLAY, g->real, g->real);
	return *ret ? 0 : plan_nomem(b);
}

/*
 * A denied name that does not exist. A placeholder on the host would change the base; so init makes
 * the name in the view, which is the workspace's own, and covers it.
 */
int plan_cover_in_workspace(struct build *b, const struct mark *m)
{
	struct step *step = plan_step(b, PLAN_OP_MASK, m->path, NULL);
	const char *rest = m->path + strlen(b->in->workspace->base);

	if (!step)
		return plan_nomem(b);
	step->op.flags = (uint16_t)(PLAN_MKPOINT | (m->is_file ? PLAN_FILE : 0));
	while (*rest == '/')
		rest++;
	return m->is_reserved ? plan_list_add(b, &b->covered, rest) : 0;
}

/* A guest that could create it would control all workspaces and their commits. */
static int reserve_store(struct build *b, const struct resolved *res)
{
	const char *name;

	if (!plan_grant_of(b, res->real, true))
		return 0;
	name = plan_first_missing(b, res);
	return name ? plan_mark_missing(b, name, MARK_MASK, "") : plan_nomem(b);
}

/*
 * Landlock knows no exceptions. A read grant around it is granted name by name, without it; nor is
 * it granted if it is made during the run. A guest that writes there controls later commits and
 * runs.
 */
static int hide_by_rules(struct build *b, const char *path, const struct resolved *res)
{
	const char *name = res->missing ? plan_first_missing(b, res) : res->real;

	if (!name)
		return plan_nomem(b);
	if (!plan_grant_of(b, res->real, true))
		return plan_leave_out(b, name);
	cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		   "level landlock cannot keep '%s', where workspaces and private directories are "
		   "kept, out of a write grant",
		   path);
	cordon_err_hint(b->err,
			"grant what lies beside it, or set XDG_STATE_HOME to another place");
	return -CORDON_E_UNSUPPORTED;
}

/* 1 = @path lies in a grant, and is hidden now. */
static int hide(struct build *b, const char *path)
{
	struct resolved res;
	int r;

	if (plan_resolve(b, path, &res) < 0 || !plan_grant_of(b, res.real, false))
		return 0;
	if (b->in->level != PLAN_LEVEL_NAMESPACES)
		r = hide_by_rules(b, path, &res);
	else if (res.missing)
		r = reserve_store(b, &res);
	else
		r = plan_mark(b, res.real, MARK_MASK, !S_ISDIR(res.st.st_mode));
	return r < 0 ? r : 1;
}

/* At level landlock a command that can write to the directory of the locks can keep runs of the
 * same user from starting, no more. */
static int hide_locks(struct build *b)
{
	if (!b->in->lock_dir || b->in->level != PLAN_LEVEL_NAMESPACES)
		return 0;
	return hide(b, b->in->lock_dir);
}

/* Others can make a name in a place that is everybody's, a link even: then nothing of ours is
 * there, and what is there is none of our business. */
static bool is_somebody_elses(const struct build *b, const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && (!S_ISDIR(st.st_mode) || st.st_uid != b->in->machine->uid);
}

static int no_write_to_sessions(struct build *b, const char *path)
{
	cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		   "level landlock cannot keep '%s', where sessions and runs are kept, out of a "
		   "write grant",
		   path);
	cordon_err_hint(b->err, "grant what lies beside it");
	return -CORDON_E_UNSUPPORTED;
}

/*
 * Who reaches the socket of a session can run commands in it, and who writes beside it decides what
 * others hear of runs. What is not there yet is not hidden: the supervisor of a session refuses
 * whoever is confined, and who lists runs passes over those who are.
 */
static int hide_sessions(struct build *b)
{
	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		char path[PATH_MAX];
		struct resolved res;
		int r = 0;

		session_place(i, b->in->machine->uid, path, sizeof(path));
		if (is_somebody_elses(b, path) || plan_resolve(b, path, &res) < 0)
			continue;
		if (b->in->level != PLAN_LEVEL_NAMESPACES && plan_grant_of(b, res.real, true)) {
			if (session_place_is_used(i, b->in->machine->uid))
				r = no_write_to_sessions(b, path);
		} else if (!res.missing) {
			r = hide(b, path);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Where the Python package has the code of runs, for as long as they run: who could write there
 * would decide what others execute. Only a grant of this very place shows it, since /dev/shm cannot
 * be granted.
 */
static int hide_code(struct build *b)
{
	char path[64];
	struct resolved res;

	snprintf(path, sizeof(path), "/dev/shm/pycordon-%u", b->in->machine->uid);
	if (is_somebody_elses(b, path) || plan_resolve(b, path, &res) < 0 ||
	    (res.missing && b->in->level == PLAN_LEVEL_NAMESPACES))
		return 0;
	return hide(b, path);
}

/* Hides where workspaces, private directories, locks, sessions and code are kept, whatever was
 * granted. */
int plan_hide_store(struct build *b)
{
	static const char *const parts[] = { "", "/workspaces", "/sandboxes" };
	char state[PATH_MAX];
	int r = hide_locks(b);

	if (r >= 0)
		r = hide_sessions(b);
	if (r >= 0)
		r = hide_code(b);
	if (r < 0 || ws_state_path(b->in->options->state_dir, state, sizeof(state), NULL) < 0)
		return r < 0 ? r : 0;
	r = 0;
	/* A grant of one of the two does not show the whole. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++) {
		const char *path = arena_printf(b->arena, "%s%s", state, parts[i]);

		if (!path)
			return plan_nomem(b);
		r = hide(b, path);
		if (i > 0 && r > 0)
			r = 0;
	}
	return r < 0 ? r : 0;
}

/* What is called @name in the content, without a link out of it: 0 or -errno. */
static int look_inside(const struct plan_workspace *ws, const char *name, struct stat *ret)
{
	int fd, r, dir_fd = open(ws->content, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir_fd < 0)
		return -errno;
	fd = sys_openat2(dir_fd, name, O_PATH | O_NOFOLLOW,
			 RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	r = fd < 0 ? fd : fstat(fd, ret) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	close(dir_fd);
	return r;
}

/*
 * The path of the command, if it names a file that only the workspace has: where that file lies for
 * us. NULL = it is to be looked for as always. A directory may be a link that an earlier run left;
 * what lies behind it outside is not the workspace's, and is not shown for its sake.
 */
const char *plan_workspace_command(struct build *b, const char *command)
{
	const struct plan_workspace *ws = b->in->workspace;
	char path[PATH_MAX];
	const char *name, *inner;
	struct stat st = { 0 };
	int r;

	if (!ws || !strchr(command, '/') ||
	    path_normalise(b->cwd_real ? b->cwd_real : b->cwd, command, path, sizeof(path)) < 0 ||
	    !plan_is_below(ws->base, path))
		return NULL;
	name = path + strlen(ws->base);
	name += strspn(name, "/");
	inner = arena_printf(b->arena, "%s/%s", ws->content, name);
	if (!inner)
		return NULL;
	r = look_inside(ws, name, &st);
	/* A copy is complete: what it lacks was deleted there, whatever the base has. */
	if (r < 0)
		return ws->is_copy && r == -ENOENT ? inner : NULL;
	return S_ISREG(st.st_mode) ? inner : NULL;
}

/* From where a file lies for us to where the command sees it. */
const char *plan_workspace_seen(struct build *b, const char *path)
{
	const struct plan_workspace *ws = b->in->workspace;

	if (!ws || !path_is_within(ws->content, path))
		return path;
	path += strlen(ws->content);
	return arena_printf(b->arena, "%s%s",
			    b->in->level == PLAN_LEVEL_NAMESPACES ? ws->base : ws->dir, path);
}

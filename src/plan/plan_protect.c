/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.protect: names inside write grants that run by themselves later, on the host.
 *
 * A name that exists is mounted read-only over itself; one that does not exist and would be acted
 * upon if it did is reserved by a placeholder. Only the top of each write grant is looked at; what
 * a command makes further down is not to be trusted on the host. Links are followed, and everything
 * on the way is held (plan_protect_links.c says where links are looked for). A grant that names a
 * protected path, or lies below one, is the caller's decision and lifts the protection there.
 *
 * The repository itself stays usable: .git can be written, except what git executes or takes
 * orders from (plan_protect_git.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/autorun.h"
#include "format/placeholder.h"
#include "plan/plan_protect.h"

bool plan_is_lifted(const struct build *b, const char *path)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->origin == GRANT_EXPLICIT && !g->is_dropped && strcmp(g->real, path) == 0)
			return true;
	}
	return false;
}

bool plan_is_guarded(const struct build *b, const char *path)
{
	const struct grant *g = plan_grant_of(b, path, true);

	return g && !g->is_workspace;
}

/* What was found on the way to a protected name must go on leading there. */
static int hold_way(struct build *b, const struct resolved *res)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < res->n_links; i++) {
		if (plan_is_guarded(b, res->links[i].path))
			r = plan_mark(b, res->links[i].path, MARK_READ_ONLY, true);
	}
	for (size_t i = 0; r == 0 && i < res->left.n; i++) {
		if (plan_is_guarded(b, res->left.v[i]) && !plan_is_lifted(b, res->left.v[i]))
			r = plan_mark(b, res->left.v[i], MARK_PIN, false);
	}
	return r;
}

static bool is_by_socket(enum protect_missing how)
{
	return how == PROTECT_RESERVE || how == PROTECT_RESERVE_FOR_GIT;
}

/* With `existing`: the name may be made, and is looked at when the run is over. */
static int note_absent(struct build *b, const char *path, enum protect_missing how,
		       const char *text)
{
	const char *dir = arena_strndup(b->arena, path, path_dir_len(path));
	struct plan_reserved *name;
	int fd;

	for (size_t i = 0; i < b->n_absent; i++) {
		if (strcmp(b->absent[i].path, path) == 0)
			return 0;
	}
	if (!dir)
		return plan_nomem(b);
	fd = plan_open_real(dir);
	if (fd < 0)
		return plan_cannot_protect(b, path, fd);
	name = PLAN_ADD(b, absent, n_absent, cap_absent);
	if (!name) {
		close(fd);
		return plan_nomem(b);
	}
	name->dir_fd = fd;
	name->path = path;
	name->name = strrchr(path, '/') + 1;
	/* What another run's placeholder would be. */
	name->text = is_by_socket(how) ? NULL : text;
	name->is_dir = how == PROTECT_RESERVE_DIR;
	/* The directory has to be the same one then. */
	return plan_pin_parents(b, path);
}

int plan_protect_missing(struct build *b, const char *path, enum protect_missing how,
			 const char *text)
{
	if (how == PROTECT_EXISTING || plan_is_lifted(b, path))
		return 0;
	if (b->policy->protect == POLICY_PROTECT_EXISTING)
		return note_absent(b, path, how, text);
	if (how == PROTECT_RESERVE_DIR)
		return plan_mark_missing_dir(b, path);
	if (how == PROTECT_RESERVE_FOR_GIT)
		return plan_mark_missing_file(b, path);
	/* Closed: git and others pass over it. Readable: what git opens must not fail. */
	return plan_mark_missing(b, path, how == PROTECT_RESERVE ? MARK_MASK : MARK_READ_ONLY,
				 text);
}

/*
 * A placeholder of another run is taken over as what it is, and so removed in the end. It may be of
 * another kind: the host has made a repository since. And it may hold a name that the table does
 * not reserve: the host removed what was there, which the janitor of a killed run does not know.
 */
static enum protect_missing taken_over(const struct stat *st, enum protect_missing how)
{
	if (S_ISDIR(st->st_mode))
		return PROTECT_RESERVE_DIR;
	if (S_ISSOCK(st->st_mode))
		return how == PROTECT_RESERVE_FOR_GIT || how == PROTECT_RESERVE_READABLE
			       ? PROTECT_RESERVE_FOR_GIT
			       : PROTECT_RESERVE;
	return PROTECT_RESERVE_READABLE;
}

/* @st: of another run's placeholder at @path. */
static int take_over(struct build *b, const char *path, const struct stat *st,
		     enum protect_missing how)
{
	return plan_protect_missing(b, path, taken_over(st, how),
				    S_ISREG(st->st_mode) && st->st_size ? PLACEHOLDER_TEXT : "");
}

int plan_protect_absent(struct build *b, const char *path, enum protect_missing how,
			const char *text)
{
	struct stat st;

	return plan_stat(path, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_placeholder(AT_FDCWD, path, &st)
		       ? take_over(b, path, &st, how)
		       : plan_protect_missing(b, path, how, text);
}

int plan_cannot_protect(struct build *b, const char *path, int error)
{
	int r;

	if (error == -ENOMEM)
		return plan_nomem(b);
	r = cordon_err(b->err, CORDON_E_PATH, -error, "cannot protect '%s'", path);
	if (error == -EACCES)
		cordon_err_hint(b->err,
				"'chmod u+rwx %.*s' lets Cordon look; --no-protect gives up the "
				"protection",
				(int)path_dir_len(path), path);
	else
		cordon_err_hint(b->err, "remove it if it is not yours; --no-protect gives up the "
					"protection");
	return r;
}

/* The way to a name ends early, at res->failed. The command may be able to change that. */
static int protect_unresolved(struct build *b, const struct resolved *res, int error)
{
	if (error == -ENOMEM || !res->failed)
		return plan_nomem(b);
	switch (-error) {
	case ELOOP: /* All the links are held. */
		return 0;
	case EACCES:
	case ENAMETOOLONG:
		/* A program that would obey the name gets no further either. */
		return plan_is_guarded(b, res->failed) ? plan_cannot_protect(b, res->failed, error)
						       : 0;
	case ENOENT:  /* a name that is missing, and ".." behind it */
	case ENOTDIR: /* something else where a directory should be */
		if (!plan_is_guarded(b, res->failed))
			return 0;
		return error == -ENOENT ? plan_protect_absent(b, res->failed, PROTECT_RESERVE, "")
					: plan_mark(b, res->failed, MARK_READ_ONLY, true);
	default:
		return plan_cannot_protect(b, res->failed, error);
	}
}

int plan_hold_way(struct build *b, const char *path, struct resolved *ret)
{
	int error = plan_resolve(b, path, ret), r = hold_way(b, ret);

	if (r == 0 && error < 0)
		r = protect_unresolved(b, ret, error);
	if (r < 0)
		return r;
	return error < 0 ? 1 : 0;
}

/* @is_entry: the name lies in a protected directory, and the links in what it leads to do not
 * count. */
static int protect_name(struct build *b, const char *path, enum protect_missing how, bool is_entry)
{
	struct resolved res;
	const char *name;
	int r;

	if (plan_is_lifted(b, path))
		return 0;
	r = plan_hold_way(b, path, &res);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!res.missing) {
		if (plan_is_lifted(b, res.real))
			return 0;
		if (plan_is_guarded(b, res.real))
			r = plan_mark(b, res.real, MARK_READ_ONLY, !S_ISDIR(res.st.st_mode));
		if (r == 0 && S_ISDIR(res.st.st_mode) && !is_entry)
			r = plan_protect_links_in(b, res.real);
		return r;
	}
	name = plan_first_missing(b, &res);
	if (!name)
		return plan_nomem(b);
	if (!plan_is_guarded(b, name))
		return 0;
	/* A link that leads nowhere yet is a name that exists. */
	if (res.last_link >= 0 && how == PROTECT_EXISTING)
		how = PROTECT_RESERVE;
	/* It is a directory on the way. */
	if (how != PROTECT_EXISTING && strchr(res.missing, '/'))
		how = PROTECT_RESERVE_DIR;
	return plan_protect_absent(b, name, how, "");
}

int plan_protect_path(struct build *b, const char *path, enum protect_missing how)
{
	return protect_name(b, path, how, false);
}

int plan_protect_link(struct build *b, const char *path)
{
	return protect_name(b, path, PROTECT_EXISTING, true);
}

int plan_protect_entry(struct build *b, const char *path, enum protect_missing how)
{
	struct stat st;
	int r = plan_stat(path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;

	if (plan_is_lifted(b, path))
		return 0;
	if (r == ENOENT)
		return plan_protect_missing(b, path, how, "");
	if (r == 0 && is_placeholder(AT_FDCWD, path, &st))
		return take_over(b, path, &st, how);
	if (r == 0 && !S_ISLNK(st.st_mode)) {
		r = plan_mark(b, path, MARK_READ_ONLY, !S_ISDIR(st.st_mode));
		return r == 0 && S_ISDIR(st.st_mode) ? plan_protect_links_in(b, path) : r;
	}
	return plan_protect_path(b, path, how);
}

enum protect_missing plan_protect_how(const struct autorun_name *name)
{
	if (!name->is_reserved)
		return PROTECT_EXISTING;
	return name->is_dir ? PROTECT_RESERVE_DIR : PROTECT_RESERVE;
}

/* @file: what stands for a missing file. */
static int protect_names(struct build *b, const char *dir, const struct autorun_name *names,
			 enum protect_missing file)
{
	for (size_t i = 0; names[i].path; i++) {
		enum protect_missing how = plan_protect_how(&names[i]);
		const char *path = plan_join(b, dir, names[i].path);
		int r;

		if (!path)
			return plan_nomem(b);
		if (how == PROTECT_RESERVE)
			how = file;
		r = strchr(names[i].path, '/') ? plan_protect_path(b, path, how)
					       : plan_protect_entry(b, path, how);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The grant names what would be protected, so the caller means it. */
static bool is_meant(const struct grant *g)
{
	const char *name = strrchr(g->real, '/') + 1;

	if (strstr(g->real, "/.git/"))
		return true;
	for (size_t i = 0; autorun_project[i].path; i++) {
		if (strcmp(name, autorun_project[i].path) == 0)
			return true;
	}
	return false;
}

static int protect_grant(struct build *b, const struct grant *g)
{
	enum protect_missing file;
	int r;

	if (is_meant(g))
		return 0;
	r = plan_protect_git(b, g->real, &file);
	/* Shells would read empty files. */
	if (path_is_within(g->real, b->home_real))
		file = PROTECT_RESERVE;
	if (r == 0)
		r = protect_names(b, g->real, autorun_project, file);
	if (r == 0 && path_is_within(g->real, b->home_real))
		r = protect_names(b, b->home_real, autorun_home, PROTECT_RESERVE);
	/* The settings of agents and editors, which lie at home, too. */
	if (r == 0 && plan_is_below(g->real, b->home_real))
		r = protect_names(b, b->home_real, autorun_project, PROTECT_RESERVE);
	return r;
}

int plan_apply_protect(struct build *b)
{
	bool is_any = false;
	size_t n = b->n_grants, first = b->n_marks;
	int r = 0;

	if (b->policy->protect == POLICY_PROTECT_OFF)
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct grant *g = b->grants[i];

		/* What is done to a workspace is looked at before it is committed. */
		if (!g->write || g->is_dropped || !g->is_dir || g->is_workspace)
			continue;
		/* Landlock alone cannot take away what a grant gives. */
		if (b->in->level == PLAN_LEVEL_LANDLOCK)
			return strlist_has(&b->missing, "protect")
				       ? 0
				       : plan_list_add(b, &b->missing, "protect");
		r = protect_grant(b, g);
		is_any = true;
	}
	if (r == 0 && is_any)
		r = plan_protect_home_links(b);
	for (size_t i = first; i < b->n_marks; i++)
		b->marks[i].is_protect = true;
	return r;
}

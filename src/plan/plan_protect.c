/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.protect: names inside write grants that run by themselves later, on the host.
 *
 * A name that exists is mounted read-only over itself; one that does not exist and would be acted
 * upon if it did is reserved by a placeholder. Only the top of each write grant is looked at; what
 * a command makes further down is not to be trusted on the host. A grant that names a protected
 * path, or lies below one, is the caller's decision and lifts the protection there.
 *
 * The repository itself stays usable: .git can be written, except what git executes or takes
 * orders from (plan_protect_git.c).
 */
#include <errno.h>
#include <string.h>

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

/* Read-only at @path, where a link is: the link itself, and what it leads to. */
static int protect_link(struct build *b, const struct resolved *res)
{
	int r = plan_mark(b, res->links[res->last_link].path, MARK_READ_ONLY, true);

	if (r == 0 && !res->missing && plan_is_guarded(b, res->real) &&
	    !plan_is_lifted(b, res->real))
		r = plan_mark(b, res->real, MARK_READ_ONLY, !S_ISDIR(res->st.st_mode));
	return r;
}

static int protect_missing(struct build *b, const char *path, enum protect_missing how)
{
	if (how == PROTECT_EXISTING)
		return 0;
	/* Closed: git and others pass over it. Readable: what git opens must not fail. */
	return plan_mark_missing(b, path, how == PROTECT_RESERVE ? MARK_MASK : MARK_READ_ONLY, "");
}

int plan_protect_path(struct build *b, const char *path, enum protect_missing how)
{
	struct resolved res;
	const char *name;

	if (plan_is_lifted(b, path))
		return 0;
	/* The command cannot write what we cannot look at. */
	if (plan_resolve(b, path, &res) < 0)
		return 0;
	if (res.last_link >= 0)
		return protect_link(b, &res);
	if (!plan_is_guarded(b, res.real))
		return 0;
	if (!res.missing)
		return plan_mark(b, res.real, MARK_READ_ONLY, !S_ISDIR(res.st.st_mode));
	name = plan_first_missing(b, &res);
	return name ? protect_missing(b, name, how) : plan_nomem(b);
}

/* The same for a name directly in a write grant, where one call is mostly enough. */
static int protect_entry(struct build *b, const char *path, enum protect_missing how)
{
	struct stat st;
	int r = lstat(path, &st) < 0 ? errno : 0;

	if (plan_is_lifted(b, path))
		return 0;
	if (r == ENOENT || (r == 0 && is_placeholder(&st)))
		return protect_missing(b, path, how);
	if (r == 0 && !S_ISLNK(st.st_mode))
		return plan_mark(b, path, MARK_READ_ONLY, !S_ISDIR(st.st_mode));
	return plan_protect_path(b, path, how);
}

static int protect_names(struct build *b, const char *dir, const struct autorun_name *names)
{
	for (size_t i = 0; names[i].path; i++) {
		enum protect_missing how = names[i].is_reserved ? PROTECT_RESERVE
								: PROTECT_EXISTING;
		const char *path = plan_join(b, dir, names[i].path);
		int r;

		if (!path)
			return plan_nomem(b);
		r = strchr(names[i].path, '/') ? plan_protect_path(b, path, how)
					       : protect_entry(b, path, how);
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
	int r;

	if (is_meant(g))
		return 0;
	r = plan_protect_git(b, g->real);
	if (r == 0)
		r = protect_names(b, g->real, autorun_project);
	if (r == 0 && path_is_within(g->real, b->home_real))
		r = protect_names(b, b->home_real, autorun_home);
	return r;
}

int plan_apply_protect(struct build *b)
{
	size_t n = b->n_grants;
	int r = 0;

	if (b->policy->protect == 0)
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
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Package layers are used by later runs, so no command may write where they are kept, whatever was
 * granted. Reading does little harm: there is nothing of the user's in them, and whoever holds a
 * lock there keeps others from installing the same only while it runs.
 */
#include <errno.h>
#include <string.h>

#include "base/cache_path.h"
#include "plan/plan_internal.h"

static int refuse_grant(struct build *b, const struct grant *g)
{
	int r = cordon_err(b->err, CORDON_E_PATH, 0,
			   "cannot grant '%s' for writing: packages for other runs are kept there",
			   g->typed);

	cordon_err_hint(b->err, "grant another directory");
	return r;
}

/* Landlock knows no exceptions. */
static int refuse_by_rules(struct build *b, const char *path)
{
	int r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			   "level landlock cannot keep '%s', where packages are kept, out of a "
			   "write grant",
			   path);

	cordon_err_hint(b->err,
			"grant what lies beside it, or set XDG_CACHE_HOME to another place");
	return r;
}

static bool writes_anywhere(const struct build *b)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (b->grants[i]->write && !b->grants[i]->is_dropped)
			return true;
	}
	return false;
}

static int protect(struct build *b, const char *path)
{
	const struct grant *around;
	struct resolved res;
	const char *name;

	if (plan_resolve(b, path, &res) < 0)
		return 0;
	for (size_t i = 0; !res.missing && i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->write && !g->is_dropped && path_is_within(res.real, g->real))
			return refuse_grant(b, g);
	}
	around = plan_grant_of(b, res.real, true);
	/* What a command makes in a workspace lies elsewhere, and its base must not change. */
	if (!around || (around->is_workspace && res.missing))
		return 0;
	if (b->in->level != PLAN_LEVEL_NAMESPACES)
		return refuse_by_rules(b, path);
	if (!res.missing)
		return plan_mark(b, res.real, MARK_READ_ONLY, !S_ISDIR(res.st.st_mode));
	name = plan_first_missing(b, &res);
	return name ? plan_mark_missing_dir(b, name) : plan_nomem(b);
}

/* Another run may be started without XDG_CACHE_HOME. */
static int protect_cache(struct build *b, const char *what)
{
	char path[PATH_MAX], usual[PATH_MAX];
	int r = 0;

	cache_home_path(what, usual, sizeof(usual));
	if (*usual)
		r = protect(b, usual);
	if (r == 0 && cache_path(what, path, sizeof(path), NULL) == 0 && strcmp(path, usual) != 0)
		r = protect(b, path);
	return r;
}

int plan_protect_packages(struct build *b)
{
	int r;

	if (!writes_anywhere(b))
		return 0;
	r = protect_cache(b, CACHE_PACKAGES);
	/* The kernels that other runs will trust. */
	return r < 0 ? r : protect_cache(b, CACHE_MICROVM);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.deny: what the guest may not see, even within grants.
 *
 * At level namespaces the object is covered by a mount. A denied link hides both itself and what it
 * points to. A denied name that does not exist is reserved by a placeholder during the run, so that
 * it cannot come into being behind the cover. A pattern stands for the names that match it when the
 * run starts (plan_deny_glob.c).
 *
 * Landlock alone knows no "except": there, a tree with something denied in it is granted name by
 * name, without the denied one (and so without the right to list the directories above it). That
 * works for reading only; a write grant with something denied in it is refused.
 */
#include <errno.h>
#include <string.h>

#include "base/glob.h"
#include "plan/plan_internal.h"

static void drop_grants(struct build *b, const char *denied)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (path_is_within(denied, b->grants[i]->real))
			b->grants[i]->is_dropped = true;
	}
}

static int check_deny(struct build *b, const char *typed, const char *real)
{
	if (strcmp(real, "/") == 0 || path_is_within(real, "/usr"))
		return cordon_err(b->err, CORDON_E_PATH, 0,
				  "cannot deny '%s': no command runs without it", typed);
	if (path_is_within("/proc", real) || path_is_within("/sys", real) ||
	    path_is_within("/dev", real))
		return cordon_err(b->err, CORDON_E_PATH, 0,
				  "cannot deny '%s': the sandbox has its own, not the host's",
				  typed);
	return 0;
}

int plan_deny_found(struct build *b, const char *path, bool is_file)
{
	drop_grants(b, path);
	return plan_mark(b, path, MARK_MASK, is_file);
}

int plan_deny_name(struct build *b, const char *typed)
{
	char path[PATH_MAX];
	struct resolved res;
	const char *target;
	int r = plan_typed_path(b, typed, path);

	if (r >= 0)
		r = plan_resolve(b, path, &res);
	if (r < 0)
		return cordon_err(b->err, CORDON_E_PATH, -r, "cannot deny '%s'", typed);
	target = res.missing ? plan_first_missing(b, &res) : res.real;
	if (!target)
		return plan_nomem(b);
	r = check_deny(b, typed, target);
	if (r < 0)
		return r;
	if (res.missing)
		r = plan_mark_missing(b, target, MARK_MASK, "");
	else
		r = plan_deny_found(b, target, !S_ISDIR(res.st.st_mode));
	if (r == 0 && res.last_link >= 0)
		r = plan_mark(b, res.links[res.last_link].path, MARK_MASK, true);
	return r;
}

int plan_apply_deny(struct build *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->policy->fs_deny.n; i++) {
		if (!glob_is_pattern(b->policy->fs_deny.v[i]))
			r = plan_deny_name(b, b->policy->fs_deny.v[i]);
	}
	if (r == 0)
		r = plan_deny_patterns(b);
	/* Pins that were set for a grant which a later entry drops do no harm: nothing is there. */
	for (size_t i = 0; i < b->n_marks; i++)
		b->marks[i].is_deny = true;
	return r;
}

bool plan_is_denied(const struct build *b, const char *path)
{
	for (size_t i = 0; i < b->n_marks; i++) {
		if (b->marks[i].kind == MARK_MASK && path_is_within(b->marks[i].path, path))
			return true;
	}
	return false;
}

/* Level landlock from here on. */

int plan_leave_out(struct build *b, const char *path)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_grants; i++) {
		struct grant *g = b->grants[i];

		if (g->is_dropped || !path_is_within(g->real, path))
			continue;
		/* It cannot be granted itself. */
		if (!plan_is_below(g->real, path))
			g->is_dropped = true;
		r = plan_note(b,
			      "'%s' is granted name by name: what Cordon keeps in it is left out",
			      g->typed);
	}
	if (r == 0)
		r = plan_mark(b, path, MARK_MASK, false);
	for (size_t i = b->n_marks; r == 0 && i-- > 0;) {
		if (b->marks[i].path == path && b->marks[i].kind == MARK_MASK) {
			b->marks[i].is_own = true;
			break;
		}
	}
	return r;
}

/* What is masked below @path, NULL if nothing is. @but_own: what Cordon keeps does not count. */
static const char *find_masked(const struct build *b, const char *path, bool but_own)
{
	for (size_t i = 0; i < b->n_marks; i++) {
		const struct mark *m = &b->marks[i];

		if (m->kind == MARK_MASK && plan_is_below(path, m->path) && !(but_own && m->is_own))
			return m->path;
	}
	return NULL;
}

static bool contains_denied(const struct build *b, const char *path)
{
	return find_masked(b, path, false) != NULL;
}

/* Grants one of many names, unless it is gone by now. */
static int grant_entry(struct build *b, const char *path, int origin)
{
	size_t n = b->n_grants;
	struct grant *g;
	int r = plan_add_grant(b, path, origin, false, &g);

	if (r == 0)
		g->is_listed |= b->n_grants > n; /* and was not granted by itself */
	if (r != -CORDON_E_PATH || !b->err || b->err->sys_errno != ENOENT)
		return r;
	memset(b->err, 0, sizeof(*b->err));
	return 0;
}

/* Grants what lies in @dir without the denied names. Queues directories it has to look into. */
static int grant_entries(struct build *b, const char *dir_path, int origin, struct strlist *queue,
			 size_t *left)
{
	CLEANUP(close_dir) DIR *dir = opendir(dir_path);
	struct dirent *entry;
	struct resolved res;
	int r = 0;

	if (!dir)
		return cordon_err(b->err, CORDON_E_PATH, errno, "cannot list '%s'", dir_path);
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		const char *path;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if ((*left)-- == 0) {
			cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
				   "'%s' has too many entries to leave one of them out at level "
				   "landlock",
				   dir_path);
			return cordon_err_hint(b->err, "grant the names in it that are needed");
		}
		path = plan_join(b, dir_path, entry->d_name);
		if (!path)
			return plan_nomem(b);
		if (plan_is_denied(b, path) || plan_is_scratch(entry->d_name) ||
		    plan_resolve(b, path, &res) < 0 || res.n_links > 0)
			continue;
		if (contains_denied(b, path))
			r = plan_list_add(b, queue, path);
		else if (S_ISDIR(res.st.st_mode) || S_ISREG(res.st.st_mode))
			r = grant_entry(b, path, origin);
	}
	return r;
}

static int expand_grant(struct build *b, struct grant *g)
{
	size_t left = PLAN_DENY_ENTRIES_MAX;
	struct strlist queue = { 0 };
	int r;

	if (g->write) {
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "level landlock cannot deny '%s' inside the write grant '%s'",
			       find_masked(b, g->real, false), g->typed);
		cordon_err_hint(b->err, "grant the directories beside it, or use a machine with "
					"user namespaces; 'cordon check' says what is in the way");
		return r;
	}
	g->is_dropped = g->is_expanded = true;
	/* The right to list a directory is one to list all below it. Names that Cordon gives are
	 * no secret; those in a denied directory are. */
	g->is_list = g->is_dir && !find_masked(b, g->real, true);
	r = plan_list_add(b, &queue, g->real);
	for (size_t i = 0; r == 0 && i < queue.n; i++)
		r = grant_entries(b, queue.v[i], g->origin, &queue, &left);
	return r;
}

static int refuse_nested(struct build *b)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i], *outer;
		int r;

		if (g->write || g->is_dropped || g->origin != GRANT_EXPLICIT)
			continue;
		outer = plan_grant_of(b, g->real, true);
		if (!outer)
			continue;
		r = cordon_err(
			b->err, CORDON_E_UNSUPPORTED, 0,
			"level landlock cannot keep '%s' read-only inside the write grant '%s'",
			g->typed, outer->typed);
		cordon_err_hint(b->err, "leave one of the two out");
		return r;
	}
	return 0;
}

int plan_expand_for_landlock(struct build *b)
{
	size_t n = b->n_grants;
	int r = refuse_nested(b);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!b->grants[i]->is_dropped && contains_denied(b, b->grants[i]->real))
			r = expand_grant(b, b->grants[i]);
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.protect inside a git repository.
 *
 * add, commit, branch, checkout, stash and merge write to the index, HEAD, refs, logs and objects,
 * and go on working. Read-only are the hooks, the config and the files it includes, the directory
 * that core.hooksPath names, and the administrative directories of submodules and worktrees, which
 * have hooks and configs of their own. Attributes are left alone: a .gitattributes in the tree can
 * say the same, and drivers are defined in the config.
 *
 * `commondir` would move config and hooks elsewhere. It does not exist in an ordinary repository;
 * its placeholder says "." (the same place), with which git inside and outside works as before.
 *
 * Without a repository two names are held: `.git`, and `HEAD`, which together with two directories
 * makes any directory a bare repository whose config git obeys.
 *
 * A repository further down that the index names is obeyed as well, and no mount can keep one from
 * being made. So the plan lists the repositories whose work trees can be written to, also one that
 * lies above the grant, for the launcher to look at (launch/gitlinks.h).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "git/config.h"
#include "base/path.h"
#include "format/placeholder.h"
#include "plan/plan_protect.h"

#define POINTER_MAX 4096
#define GIT_CONFIGS_MAX 64 /* read; nobody has so many */

/* @text, a path in a file of git's, against the directory it is relative to. */
static const char *git_path(struct build *b, const char *dir, const char *text)
{
	char path[PATH_MAX];

	if (text[0] == '~' && text[1] == '/') {
		dir = b->home_real;
		text += 2;
	}
	if (path_normalise(dir, text, path, sizeof(path)) < 0)
		return NULL;
	return arena_strdup(b->arena, path);
}

/* Configs that are followed, and where their values are relative to. */
struct config_place {
	struct build *b;
	const char *work_dir;
	struct strlist configs; /* those read and those still to be read */
	size_t current;
};

/* One more config to be read, once. */
static int add_config(struct config_place *at, const char *path)
{
	struct resolved res;

	if (plan_resolve(at->b, path, &res) < 0 || res.missing || at->configs.n == GIT_CONFIGS_MAX)
		return 0;
	for (size_t i = 0; i < at->configs.n; i++) {
		if (strcmp(at->configs.v[i], res.real) == 0)
			return 0;
	}
	return plan_list_add(at->b, &at->configs, res.real);
}

static int protect_order(void *arg, enum git_order what, const char *value)
{
	struct config_place *at = arg;
	const char *config = at->configs.v[at->current], *dir = at->work_dir, *path;
	int r;

	if (what == GIT_ORDER_INCLUDE)
		dir = arena_strndup(at->b->arena, config, path_dir_len(config));
	if (!dir)
		return plan_nomem(at->b);
	path = git_path(at->b, *dir ? dir : "/", value);
	/* Too long for a path: git cannot open it either. */
	if (!path)
		return 0;
	if (what == GIT_ORDER_HOOKS)
		return plan_protect_path(at->b, path, PROTECT_HOLD);
	r = plan_protect_path(at->b, path, PROTECT_HOLD_READABLE);
	return r == 0 ? add_config(at, path) : r;
}

/* The user's own: a relative core.hooksPath there counts in every repository. */
static int add_own_config(void *arg, const char *path)
{
	struct config_place *at = arg;
	int r = plan_protect_path(at->b, path, PROTECT_HOLD_READABLE);

	return r == 0 ? add_config(at, path) : r;
}

/* Reads all of them, and what they include. */
static int follow_configs(struct config_place *at)
{
	int r = git_config_own(at->b->home_real, add_own_config, at);

	for (; r == 0 && at->current < at->configs.n; at->current++) {
		char *text = plan_read_small(at->b, at->configs.v[at->current], GIT_CONFIG_MAX);

		if (text)
			r = git_config_orders(text, protect_order, at);
	}
	return r;
}

/* Follows what the config takes from elsewhere, and what that takes. */
static int protect_config(struct build *b, const char *git_dir, const char *work_dir)
{
	struct config_place at = { .b = b, .work_dir = work_dir };
	const char *path = plan_join(b, git_dir, "config");
	char *text;
	int r;

	if (!path)
		return plan_nomem(b);
	r = plan_protect_path(b, path, PROTECT_HOLD_READABLE);
	if (r == 0)
		r = add_config(&at, path);
	text = r == 0 ? plan_read_small(b, path, GIT_CONFIG_MAX) : NULL;
	/* config.worktree counts only if the config says so. */
	if (text && strcasestr(text, "worktreeconfig")) {
		path = plan_join(b, git_dir, "config.worktree");
		r = path ? plan_protect_path(b, path, PROTECT_HOLD_READABLE) : plan_nomem(b);
		if (r == 0)
			r = add_config(&at, path);
	}
	return r == 0 ? follow_configs(&at) : r;
}

static int protect_commondir(struct build *b, const char *git_dir)
{
	const char *path = plan_join(b, git_dir, "commondir");
	struct resolved res;

	if (!path)
		return plan_nomem(b);
	if (plan_resolve(b, path, &res) == 0 && res.missing && !plan_is_lifted(b, path))
		return plan_mark_missing(b, path, MARK_READ_ONLY, ".\n");
	return plan_protect_path(b, path, PROTECT_EXISTING);
}

static int protect_git_dir(struct build *b, const char *git_dir, const char *work_dir)
{
	static const struct {
		const char *name;
		enum protect_missing how;
	} names[] = {
		{ "hooks", PROTECT_HOLD_READABLE },
		{ "modules", PROTECT_EXISTING },
		{ "worktrees", PROTECT_EXISTING },
	};
	int r = 0;

	/* It cannot be written to, but what its config names may lie where others can. */
	if (!plan_is_guarded(b, git_dir))
		return protect_config(b, git_dir, work_dir);
	/* The directory itself must not be moved away, unless it is the grant. */
	if (!plan_is_lifted(b, git_dir))
		r = plan_mark(b, git_dir, MARK_PIN, false);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		const char *path = plan_join(b, git_dir, names[i].name);

		r = path ? plan_protect_path(b, path, names[i].how) : plan_nomem(b);
	}
	if (r == 0)
		r = protect_commondir(b, git_dir);
	if (r == 0)
		r = protect_config(b, git_dir, work_dir);
	return r;
}

/* First line of a small file, behind @prefix; NULL if it is not like that. */
static const char *read_pointer(struct build *b, const char *path, const char *prefix)
{
	char *text = plan_read_small(b, path, POINTER_MAX);
	size_t len = strlen(prefix);

	if (!text || strncmp(text, prefix, len) != 0)
		return NULL;
	text += len;
	text[strcspn(text, "\r\n")] = '\0';
	return *text ? text : NULL;
}

/* Can the command change what lies in @dir? */
static bool is_written_below(const struct build *b, const char *dir)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->write && !g->is_dropped && plan_is_within(dir, g->real))
			return true;
	}
	return false;
}

/* @below: the part of the work tree that can be written to, NULL = all of it. */
static int add_repo(struct build *b, const char *git_dir, const char *work_dir, const char *below)
{
	const char *modules = plan_join(b, git_dir, "modules");
	int git_fd, work_fd;
	struct plan_repo *repo;
	struct stat st;

	if (!modules)
		return plan_nomem(b);
	git_fd = plan_open_real(git_dir);
	work_fd = git_fd < 0 ? -1 : plan_open_real(work_dir);
	repo = work_fd < 0 ? NULL : PLAN_ADD(b, repos, n_repos, cap_repos);
	if (!repo) {
		if (git_fd >= 0)
			close(git_fd);
		if (work_fd < 0)
			return 0; /* gone, or closed to us and so to the command */
		close(work_fd);
		return plan_nomem(b);
	}
	repo->git_fd = git_fd;
	repo->work_fd = work_fd;
	repo->git_dir = git_dir;
	repo->work_dir = work_dir;
	repo->below = below;
	repo->has_safe_modules = !is_written_below(b, modules) &&
				 (!plan_grant_of(b, git_dir, true) ||
				  (lstat(modules, &st) == 0 && S_ISDIR(st.st_mode)));
	return 0;
}

/* The repository that a `.git` file names; NULL if there is none. */
static const char *follow_git_file(struct build *b, const char *file, const char *work_dir)
{
	const char *text = read_pointer(b, file, "gitdir: ");
	const char *git_dir = text ? git_path(b, work_dir, text) : NULL;
	struct resolved res;

	if (!git_dir || plan_resolve(b, git_dir, &res) < 0 || res.missing)
		return NULL;
	return res.real;
}

/* What a worktree's repository shares with others lies in yet another place. */
static int protect_common_dir(struct build *b, const char *git_dir, const char *work_dir)
{
	const char *path = plan_join(b, git_dir, "commondir"), *text;
	struct resolved res;

	text = path ? read_pointer(b, path, "") : NULL;
	path = text ? git_path(b, git_dir, text) : NULL;
	if (!path || plan_resolve(b, path, &res) < 0 || res.missing)
		return 0;
	return protect_git_dir(b, res.real, work_dir);
}

/* `.git` is a file: a worktree or a submodule, whose repository lies elsewhere. */
static int protect_git_file(struct build *b, const char *file, const char *work_dir)
{
	const char *git_dir = follow_git_file(b, file, work_dir);
	int r = plan_protect_path(b, file, PROTECT_EXISTING);

	if (r < 0 || !git_dir)
		return r;
	r = protect_git_dir(b, git_dir, work_dir);
	if (r == 0)
		r = add_repo(b, git_dir, work_dir, NULL);
	return r == 0 ? protect_common_dir(b, git_dir, work_dir) : r;
}

static int protect_from_above(struct build *b, const char *git_dir, const char *work_dir,
			      const char *below)
{
	int r = protect_git_dir(b, git_dir, work_dir);

	if (r == 0)
		r = protect_common_dir(b, git_dir, work_dir);
	return r == 0 ? add_repo(b, git_dir, work_dir, below) : r;
}

/* The grant is a directory inside somebody's work tree. */
static int find_repo_above(struct build *b, const char *grant)
{
	const char *dir = grant;
	size_t len;

	while ((len = path_dir_len(dir)) > 1) {
		const char *path;
		struct resolved res;

		dir = arena_strndup(b->arena, grant, len);
		path = dir ? plan_join(b, dir, ".git") : NULL;
		if (!path)
			return plan_nomem(b);
		if (plan_resolve(b, path, &res) < 0 || res.missing)
			continue;
		/* Git does not obey the repositories of others. */
		if (res.st.st_uid != b->in->machine->uid && !b->is_root)
			return 0;
		if (S_ISREG(res.st.st_mode))
			path = follow_git_file(b, path, dir);
		else
			path = S_ISDIR(res.st.st_mode) ? res.real : NULL;
		return path ? protect_from_above(b, path, dir, grant + len + 1) : 0;
	}
	return 0;
}

static int protect_and_add(struct build *b, const char *git_dir, const char *work_dir)
{
	int r = protect_git_dir(b, git_dir, work_dir);

	return r < 0 ? r : add_repo(b, git_dir, work_dir, NULL);
}

static bool has_entry(struct build *b, const char *dir, const char *name, bool want_dir)
{
	const char *path = plan_join(b, dir, name);
	struct stat st;

	return path && lstat(path, &st) == 0 && !is_placeholder(&st) &&
	       (!want_dir || S_ISDIR(st.st_mode));
}

int plan_protect_git(struct build *b, const char *dir)
{
	const char *path = plan_join(b, dir, ".git");
	const char *head = plan_join(b, dir, "HEAD");
	struct config_place own = { .b = b, .work_dir = b->home_real };
	struct resolved res;
	int r;

	if (!path || !head)
		return plan_nomem(b);
	/* The grant is a repository's own directory. */
	if (has_entry(b, dir, "HEAD", false) && has_entry(b, dir, "objects", true))
		return protect_git_dir(b, dir, dir);
	if (plan_is_lifted(b, path) || plan_resolve(b, path, &res) < 0)
		return 0;
	if (res.last_link >= 0) {
		r = plan_mark(b, path, MARK_READ_ONLY, true);
		return r < 0 || res.missing ? r : protect_and_add(b, res.real, dir);
	}
	if (!res.missing)
		return S_ISDIR(res.st.st_mode) ? protect_and_add(b, path, dir)
					       : protect_git_file(b, path, dir);
	r = follow_configs(&own);
	if (r == 0)
		r = plan_protect_path(b, path, PROTECT_HOLD);
	if (r == 0)
		r = plan_protect_path(b, head, PROTECT_HOLD);
	return r < 0 ? r : find_repo_above(b, dir);
}

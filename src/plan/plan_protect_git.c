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
 * Without a repository two names are reserved: `.git`, and `HEAD`, which together with two
 * directories makes any directory a bare repository whose config git obeys.
 *
 * A repository further down that the index names is obeyed as well, and no mount can keep one from
 * being made. So the plan lists the repositories whose work trees can be written to, also one that
 * lies above the grant, for the launcher to look at (git/nested.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/placeholder.h"
#include "git/follow.h"
#include "git/read.h"
#include "plan/plan_protect.h"

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

static int protect_dir(struct build *b, const char *git_dir)
{
	static const struct {
		const char *name;
		enum protect_missing how;
	} names[] = {
		{ "hooks", PROTECT_RESERVE_READABLE },
		{ "modules", PROTECT_EXISTING },
		{ "worktrees", PROTECT_EXISTING },
	};
	int r = 0;

	if (!plan_is_guarded(b, git_dir))
		return 0;
	git_dir = arena_strdup(b->arena, git_dir);
	if (!git_dir)
		return plan_nomem(b);
	/* The directory itself must not be moved away, unless it is the grant. */
	if (!plan_is_lifted(b, git_dir))
		r = plan_mark(b, git_dir, MARK_PIN, false);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		const char *path = plan_join(b, git_dir, names[i].name);

		r = path ? plan_protect_path(b, path, names[i].how) : plan_nomem(b);
	}
	return r == 0 ? protect_commondir(b, git_dir) : r;
}

static int cannot_read(struct build *b, const char *path, int error)
{
	if (error == -ENOMEM)
		return plan_nomem(b);
	return cordon_err(b->err, CORDON_E_SYSTEM, -error, "cannot find out what git obeys in %s",
			  path);
}

struct protect {
	struct build *b;
	int r; /* what a callback failed with; its error is set */
};

/* Configs have to stay readable: git gives up at one that it cannot open. */
static int protect_found(void *ctx, enum git_obeyed what, const char *path)
{
	struct protect *p = ctx;

	if (what == GIT_OBEYED_DIR)
		p->r = protect_dir(p->b, path);
	else
		p->r = plan_protect_path(p->b, path,
					 what == GIT_OBEYED_HOOKS ? PROTECT_RESERVE
								  : PROTECT_RESERVE_READABLE);
	return p->r;
}

/* Protects what git obeys on account of the repository @git_dir; NULL = in any repository. */
static int protect_repository(struct build *b, const char *git_dir, const char *work_dir)
{
	const struct git_user user = { .home = b->home_real, .variable = getenv };
	struct protect p = { .b = b };
	const struct git_follow follow = {
		.user = &user, .work_dir = work_dir, .found = protect_found, .ctx = &p
	};
	int r = git_follow(&follow, git_dir);

	if (r == 0 || p.r < 0)
		return p.r;
	return cannot_read(b, work_dir, r);
}

/* Can the command change what lies in @dir? */
static bool is_written_below(const struct build *b, const char *dir)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->write && !g->is_dropped && path_is_within(dir, g->real))
			return true;
	}
	return false;
}

/* @below: the part of the work tree that can be written to, NULL = all of it. */
static int add_repo(struct build *b, const char *git_dir, const char *work_dir, const char *below)
{
	const char *modules = plan_join(b, git_dir, "modules");
	int git_fd, work_fd;
	struct git_repo *repo;
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

static int protect_and_add(struct build *b, const char *git_dir, const char *work_dir,
			   const char *below)
{
	int r = protect_repository(b, git_dir, work_dir);

	return r < 0 ? r : add_repo(b, git_dir, work_dir, below);
}

/* `.git` is a file: a worktree or a submodule, whose repository lies elsewhere. */
static int protect_git_file(struct build *b, const char *file, const char *work_dir)
{
	char path[PATH_MAX];
	const char *git_dir;
	int r = plan_protect_path(b, file, PROTECT_EXISTING);

	if (r < 0)
		return r;
	r = git_pointed_dir(work_dir, ".git", "gitdir: ", path);
	if (r <= 0)
		return r == 0 ? 0 : cannot_read(b, file, r);
	git_dir = arena_strdup(b->arena, path);
	return git_dir ? protect_and_add(b, git_dir, work_dir, NULL) : plan_nomem(b);
}

/* The grant is a directory inside a work tree. */
static int find_repo_above(struct build *b, const char *grant)
{
	struct git_location at;
	const char *dir = arena_strndup(b->arena, grant, path_dir_len(grant)), *git_dir;
	int r;

	if (!dir)
		return plan_nomem(b);
	r = git_locate(dir, &at);
	if (r < 0)
		return cannot_read(b, dir, r);
	/* Git does not obey the repositories of others. */
	if (r == 0 || (at.owner != b->in->machine->uid && !b->is_root))
		return 0;
	git_dir = arena_strdup(b->arena, at.git_dir);
	dir = arena_strdup(b->arena, at.work_dir);
	if (!git_dir || !dir)
		return plan_nomem(b);
	return protect_and_add(b, git_dir, dir, grant + strlen(dir) + (dir[1] != '\0'));
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
	struct resolved res;
	int r;

	if (!path || !head)
		return plan_nomem(b);
	/* The grant is a repository's own directory. */
	if (has_entry(b, dir, "HEAD", false) && has_entry(b, dir, "objects", true))
		return protect_repository(b, dir, dir);
	if (plan_is_lifted(b, path) || plan_resolve(b, path, &res) < 0)
		return 0;
	if (!res.missing && !S_ISDIR(res.st.st_mode))
		return protect_git_file(b, path, dir);
	if (res.last_link >= 0) {
		r = plan_mark(b, path, MARK_READ_ONLY, true);
		return r < 0 || res.missing ? r : protect_and_add(b, res.real, dir, NULL);
	}
	if (!res.missing)
		return protect_and_add(b, path, dir, NULL);
	r = protect_repository(b, NULL, b->home_real);
	if (r == 0)
		r = plan_protect_path(b, path, PROTECT_RESERVE);
	if (r == 0)
		r = plan_protect_path(b, head, PROTECT_RESERVE);
	return r < 0 ? r : find_repo_above(b, dir);
}

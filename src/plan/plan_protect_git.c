/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.protect inside a git repository.
 *
 * add, commit, branch, checkout, stash and merge write to the index, HEAD, refs, logs and objects,
 * and go on working. Read-only are the hooks, the config and the files it includes, the directory
 * that core.hooksPath names, the files that commands in a config name, and the administrative
 * directories of submodules and worktrees, which have hooks and configs of their own. Attributes
 * are left alone: a .gitattributes in the tree can say the same, and drivers are defined in the
 * config.
 *
 * `commondir` would move config and hooks elsewhere. It does not exist in an ordinary repository;
 * its placeholder says "." (the same place), with which git inside and outside works as before.
 *
 * If `.git` is missing it is reserved. Git may also take the directory itself for a repository, and
 * does so as soon as there is no valid one in `.git`, which the command can see to. So one of the
 * names that make it one is reserved, or else it is protected as a repository.
 *
 * A repository further down that the index names is obeyed as well, and no mount can keep one from
 * being made. So the plan lists the repositories whose work trees can be written to, also one that
 * lies above the grant, for the launcher to look at (git/nested.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "format/placeholder.h"
#include "git/follow.h"
#include "git/read.h"
#include "plan/plan_protect.h"

static int cannot_read(struct build *b, const char *path, int error)
{
	int r;

	if (error == -ENOMEM)
		return plan_nomem(b);
	r = cordon_err(b->err, CORDON_E_SYSTEM, -error, "cannot find out what git obeys in %s",
		       path);
	cordon_err_hint(b->err, "--no-protect gives up the protection of names that run by "
				"themselves later");
	return r;
}

/* What the pointer file @name in @dir names has to stay where it is, or missing. */
static int hold_pointed(struct build *b, const char *dir, const char *name, const char *prefix)
{
	const char *file = plan_join(b, dir, name);
	char path[PATH_MAX], *text = NULL;
	struct resolved res;
	int r;

	if (!file)
		return plan_nomem(b);
	r = git_read_pointer(AT_FDCWD, file, prefix, &text);
	if (r < 0)
		return git_is_answer(r) && !plan_is_guarded(b, file) ? 0 : cannot_read(b, file, r);
	if (r == 0)
		return 0;
	r = path_normalise(dir, text, path, sizeof(path));
	free(text);
	if (r < 0)
		return 0; /* too long: git cannot open it either */
	r = plan_hold_way(b, path, &res);
	if (r != 0 || !res.missing)
		return r < 0 ? r : 0;
	return plan_protect_path(b, path, PROTECT_RESERVE);
}

static int protect_commondir(struct build *b, const char *git_dir)
{
	const char *path = plan_join(b, git_dir, "commondir"), *name;
	struct resolved res;
	int r;

	if (!path)
		return plan_nomem(b);
	r = plan_hold_way(b, path, &res);
	if (r != 0 || plan_is_lifted(b, path))
		return r < 0 ? r : 0;
	if (!res.missing) {
		r = plan_protect_path(b, path, PROTECT_EXISTING);
		return r < 0 ? r : hold_pointed(b, git_dir, "commondir", "");
	}
	name = plan_first_missing(b, &res);
	if (!name)
		return plan_nomem(b);
	return plan_is_guarded(b, name)
		       ? plan_protect_absent(b, name, PROTECT_RESERVE_READABLE, PLACEHOLDER_TEXT)
		       : 0;
}

/* Of the first entry of @dir; DT_UNKNOWN also if there is none. *ret_fs: the file system. */
static unsigned char type_shown(const char *dir, struct statfs *ret_fs)
{
	CLEANUP(close_dir) DIR *entries = opendir(dir);
	const struct dirent *entry;

	if (!entries || fstatfs(dirfd(entries), ret_fs) < 0)
		return DT_UNKNOWN;
	while ((entry = readdir(entries)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return entry->d_type;
	return DT_UNKNOWN;
}

/*
 * Does reading @dir tell the type of each name? Then git takes the type from there, which is the
 * host's, and does not see what is mounted over a name. NFS tells it at times. An empty directory
 * is like the one above it, in which it is itself an entry.
 */
static bool shows_types(struct build *b, const char *dir)
{
	const char *above = arena_strndup(b->arena, dir, path_dir_len(dir));
	struct stat here, there;
	struct statfs fs;

	if (type_shown(dir, &fs) != DT_UNKNOWN)
		return fs.f_type != NFS_SUPER_MAGIC;
	return above && *above && stat(dir, &here) == 0 && stat(above, &there) == 0 &&
	       here.st_dev == there.st_dev && type_shown(above, &fs) != DT_UNKNOWN &&
	       fs.f_type != NFS_SUPER_MAGIC;
}

static int protect_dir(struct build *b, const char *git_dir)
{
	static const struct {
		const char *name;
		enum protect_missing how;
	} names[] = {
		{ "hooks", PROTECT_RESERVE_DIR },
		{ "modules", PROTECT_RESERVE_DIR },
		{ "worktrees", PROTECT_RESERVE }, /* gc removes an empty directory */
	};
	int r = 0;

	git_dir = arena_strdup(b->arena, git_dir);
	if (!git_dir)
		return plan_nomem(b);
	/* The directory itself must not be moved away, unless it is the grant. */
	if (plan_is_guarded(b, git_dir) && !plan_is_lifted(b, git_dir))
		r = plan_mark(b, git_dir, MARK_PIN, false);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		const char *path = plan_join(b, git_dir, names[i].name);

		enum protect_missing how = names[i].how;

		if (how == PROTECT_RESERVE && shows_types(b, git_dir))
			how = PROTECT_RESERVE_FOR_GIT;
		r = path ? plan_protect_path(b, path, how) : plan_nomem(b);
	}
	return r == 0 ? protect_commondir(b, git_dir) : r;
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
	else if (what == GIT_OBEYED_PROGRAM)
		p->r = plan_protect_path(p->b, path, PROTECT_EXISTING);
	else
		p->r = plan_protect_path(p->b, path,
					 what == GIT_OBEYED_HOOKS ? PROTECT_RESERVE_DIR
								  : PROTECT_RESERVE_READABLE);
	return p->r;
}

/* Nobody knows what a config says that we may not read. The command could open it first. */
static int protect_closed(void *ctx, const char *path, int error)
{
	struct protect *p = ctx;
	struct resolved res;

	if (path[0] == '~') {
		p->r = cordon_err(p->b->err, CORDON_E_PATH, 0,
				  "a git config names '%s', and there is no such user", path);
		cordon_err_hint(p->b->err, "write the path out; --no-protect gives up the "
					   "protection");
		return p->r;
	}
	p->r = plan_hold_way(p->b, path, &res);
	if (p->r == 0 && plan_is_guarded(p->b, res.real))
		p->r = cannot_read(p->b, path, error);
	if (p->r > 0)
		p->r = 0;
	return p->r;
}

/* Protects what git obeys on account of the repository @git_dir; NULL = in any repository. */
static int protect_repository(struct build *b, const char *git_dir, const char *work_dir)
{
	const struct git_user user = { .home = b->home_real,
				       .variable = getenv,
				       .passwd = b->passwd };
	struct protect p = { .b = b };
	const struct git_follow follow = {
		.user = &user,
		.work_dir = work_dir,
		.found = protect_found,
		.closed = protect_closed,
		.ctx = &p,
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

static void close_fd(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* @below: the part of the work tree that can be written to, NULL = all of it. */
static int add_repo(struct build *b, const char *git_dir, const char *work_dir, const char *below)
{
	const char *modules = plan_join(b, git_dir, "modules");
	CLEANUP(close_fd) int git_fd = -1, work_fd = -1;
	struct git_repo *repo;
	struct stat st;

	if (!modules)
		return plan_nomem(b);
	git_fd = plan_open_real(git_dir);
	work_fd = plan_open_real(work_dir);
	/* Closed to us and so to git, and the command cannot open it. */
	if (git_fd == -EACCES && !plan_is_guarded(b, git_dir))
		return 0;
	if (git_fd < 0 || work_fd < 0)
		return plan_cannot_protect(b, git_fd < 0 ? git_dir : work_dir,
					   git_fd < 0 ? git_fd : work_fd);
	repo = PLAN_ADD(b, repos, n_repos, cap_repos);
	if (!repo)
		return plan_nomem(b);
	repo->git_fd = TAKE_FD(git_fd);
	repo->work_fd = TAKE_FD(work_fd);
	repo->git_dir = git_dir;
	repo->work_dir = work_dir;
	repo->below = below;
	repo->home = b->home_real;
	/* A missing one is reserved; one behind a link may be anywhere. */
	repo->has_safe_modules = !is_written_below(b, modules) &&
				 (!plan_grant_of(b, git_dir, true) || lstat(modules, &st) < 0 ||
				  S_ISDIR(st.st_mode) || is_placeholder(AT_FDCWD, modules, &st));
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

	if (r == 0)
		r = hold_pointed(b, work_dir, ".git", "gitdir: ");
	if (r < 0)
		return r;
	r = git_pointed_dir(work_dir, ".git", "gitdir: ", path);
	if (r <= 0)
		return r == 0 ? 0 : cannot_read(b, file, r);
	git_dir = arena_strdup(b->arena, path);
	return git_dir ? protect_and_add(b, git_dir, work_dir, NULL) : plan_nomem(b);
}

/* `.git` in @dir. 1 = git stops there; 0 = it looks further up; or an error. */
static int protect_dot_git(struct build *b, const char *dir)
{
	const char *path = plan_join(b, dir, ".git");
	struct resolved res;
	int r;

	if (!path)
		return plan_nomem(b);
	if (plan_is_lifted(b, path))
		return 1;
	r = plan_hold_way(b, path, &res);
	if (r != 0)
		return r < 0 ? r : 0;
	if (res.missing)
		return plan_protect_path(b, path, PROTECT_RESERVE_DIR);
	if (!S_ISDIR(res.st.st_mode)) {
		r = protect_git_file(b, path, dir);
		return r < 0 ? r : 1;
	}
	r = protect_and_add(b, res.real, dir, NULL);
	return r < 0 ? r : git_is_repository(res.real);
}

/*
 * The repository around the grant, for which git looks if there is none in the grant, or none any
 * more. @is_own: there is one now, and what lies in it is no other's work tree. 1 = there is one
 * above; 0; or an error.
 */
static int protect_above(struct build *b, const char *grant, bool is_own)
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
	r = is_own ? protect_repository(b, git_dir, dir)
		   : protect_and_add(b, git_dir, dir, grant + strlen(dir) + (dir[1] != '\0'));
	return r < 0 ? r : 1;
}

/* 1 = nothing is there, or a link to nothing; 0; or an error. */
static int is_missing(struct build *b, const char *path)
{
	struct stat st;

	if (plan_stat(path, &st, 0) == 0)
		return is_placeholder(AT_FDCWD, path, &st);
	return errno == EACCES ? plan_cannot_protect(b, path, -errno) : 1;
}

/*
 * Keeps @dir from becoming a repository's own directory, for which git takes it if `.git` is none.
 * It wants HEAD, and objects and refs beside it or where `commondir` says. In a work tree HEAD is
 * the last choice: with a file of that name `git diff HEAD` is ambiguous.
 */
static int protect_from_bare(struct build *b, const char *dir, bool is_own,
			     enum protect_missing file)
{
	static const char *const names[] = { "refs", "objects", "HEAD" };
	bool is_work_tree = file != PROTECT_RESERVE_READABLE;
	const char *common = plan_join(b, dir, "commondir"), *path;
	int r = common ? is_missing(b, common) : plan_nomem(b);
	size_t first = r == 0 ? 2 : 0; /* with `commondir` only HEAD counts */

	for (size_t i = 0; r >= 0 && first + i < ARRAY_SIZE(names); i++) {
		size_t at = is_work_tree ? first + i : ARRAY_SIZE(names) - 1 - i;

		path = plan_join(b, dir, names[at]);
		r = path ? is_missing(b, path) : plan_nomem(b);
		if (r != 1)
			continue;
		/* An empty HEAD is none. */
		r = plan_protect_entry(b, path, at == 2 || is_work_tree ? file : PROTECT_RESERVE);
		return r < 0 || at == 2 ? r
					: plan_protect_entry(b, common,
							     is_work_tree ? file : PROTECT_RESERVE);
	}
	if (r < 0)
		return r;
	/* It is one now, and what lies in it is no work tree. */
	return !is_own && git_is_repository(dir) ? protect_and_add(b, dir, dir, NULL)
						 : protect_repository(b, dir, dir);
}

/* Git would add an empty file. */
static enum protect_missing file_in(struct build *b, const char *dir, bool is_work_tree)
{
	if (!is_work_tree)
		return PROTECT_RESERVE_READABLE;
	return shows_types(b, dir) ? PROTECT_RESERVE_FOR_GIT : PROTECT_RESERVE;
}

int plan_protect_git(struct build *b, const char *dir, enum protect_missing *ret_file)
{
	int own = protect_dot_git(b, dir), above = own < 0 ? own : protect_above(b, dir, own);
	int r = above < 0 ? above : 0;

	/* What the user's own configs name counts wherever git is used. */
	if (r == 0 && !own && !above)
		r = protect_repository(b, NULL, b->home_real);
	if (r < 0)
		return r;
	*ret_file = file_in(b, dir, own || above);
	return protect_from_bare(b, dir, own, *ret_file);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan's repositories before and after a run: what was put aside becomes a denial. A repository
 * that could not be checked is out of git's reach, and an error besides.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "format/placeholder.h"
#include "git/put_aside.h"
#include "git/snapshot.h"
#include "launch/launch.h"
#include "launch/locks.h"

#define BACK_MIN_NS 20000000 /* less is the grain of the clock */

/* Since when others may have changed it: a run that goes on there now is one of them. */
static int find_since(struct cordon_run *run, const struct git_repo *repo, struct git_since *ret)
{
	const struct dir_lock *lock;
	int r = run->locks ? locks_take(run->locks, repo->git_fd, &lock) : -ENOLCK;

	if (r < 0)
		return r;
	ret->at = lock->since;
	ret->is_shared = lock->since.tv_sec < run->started_at.tv_sec ||
			 (lock->since.tv_sec == run->started_at.tv_sec &&
			  lock->since.tv_nsec < run->started_at.tv_nsec);
	if (!ret->is_shared)
		ret->at = run->started_at;
	return 0;
}

static int cannot_look(const struct git_repo *repo, int error, struct cordon_error *err)
{
	const char *path = repo->git_dir;

	if (error == -ENOMEM)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (error == -EINVAL || error == -EFBIG)
		cordon_err(err, CORDON_E_PATH, -error, "cannot understand '%s/index'", path);
	else
		cordon_err(err, CORDON_E_PATH, -error, "cannot look at the repository '%s'", path);
	cordon_err_hint(err, "what the command leaves there could not be checked; --no-protect "
			     "gives up the protection");
	return -CORDON_E_PATH;
}

int repositories_note(struct cordon_run *run, struct cordon_error *err)
{
	const struct plan *plan = run->plan;
	struct git_since *since;
	size_t failed = 0;
	int r = 0;

	git_snapshot_free(TAKE_PTR(run->repositories));
	if (plan->n_repos == 0)
		return 0;
	since = arena_alloc(&run->arena, plan->n_repos * sizeof(*since));
	if (!since)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	for (size_t i = 0; i < plan->n_repos; i++) {
		r = find_since(run, &plan->repos[i], &since[i]);
		if (r < 0)
			return cannot_look(&plan->repos[i], r, err);
	}
	r = git_snapshot_take(plan->repos, since, plan->n_repos, &run->repositories, &failed);
	return r < 0 ? cannot_look(&plan->repos[failed], r, err) : 0;
}

/* As the caller would type it; NULL when memory is out. */
static const char *shown(struct cordon_run *run, const char *dir, const char *path)
{
	const char *cwd = run->plan->cwd;

	if (cwd && strcmp(cwd, dir) == 0)
		return arena_strdup(&run->arena, path);
	if (cwd && path_is_within(cwd, dir))
		dir += strlen(cwd) + (cwd[1] != '\0');
	return arena_printf(&run->arena, "%s/%s", dir, path);
}

void add_shell_word(struct strbuf *sb, const char *text)
{
	if (strspn(text,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+:@%-") ==
	    strlen(text)) {
		strbuf_puts(sb, text);
		return;
	}
	strbuf_putc(sb, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_puts(sb, "'\\''");
		else
			strbuf_putc(sb, *text);
	}
	strbuf_putc(sb, '\'');
}

/* The command that gives it back its name; NULL when memory is out. */
static const char *undo(struct arena *arena, const char *aside, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	const char *fix = NULL;

	strbuf_puts(&sb, *path == '-' ? "mv -- " : "mv ");
	add_shell_word(&sb, aside);
	strbuf_putc(&sb, ' ');
	add_shell_word(&sb, path);
	if (!sb.failed)
		fix = arena_strdup(arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

static const char *const whats[] = {
	[GIT_FOUND_NESTED] = "nested repository",  [GIT_FOUND_INDEX] = "git index",
	[GIT_FOUND_LINK] = "link in a repository", [GIT_FOUND_FILE] = "file in a repository",
	[GIT_FOUND_REPOSITORY] = "repository",	   [GIT_FOUND_PIPE] = "pipe in a work tree",
};

/* The error that the run ends with. The first one is kept. */
static void fail(struct cordon_run *run, const struct git_finding *f, const char *path,
		 const char *fix)
{
	struct cordon_error *err = &run->look_error;
	const struct git_repo *repo = f->repo;

	if (run->look_failed)
		return;
	run->look_failed = 1;
	cordon_err(err, CORDON_E_PATH, -f->error,
		   "what the command left in '%s' could not be checked%s%s%s", repo->work_dir,
		   f->about ? ", because of '" : "", f->about ? f->about : "", f->about ? "'" : "");
	if (fix)
		cordon_err_hint(err, "it was put out of git's reach; look at it, then: %s", fix);
	else
		cordon_err_hint(err, "do not use git there before you have moved '%s' away",
				path ? path : repo->git_dir);
}

static void deny(void *ctx, const struct git_finding *f)
{
	struct cordon_run *run = ctx;
	struct arena *arena = &run->arena;
	bool is_nested = f->kind == GIT_FOUND_NESTED;
	bool is_outer = is_nested || f->kind == GIT_FOUND_PIPE || f->kind == GIT_FOUND_REPOSITORY;
	const char *dir = is_outer ? f->repo->work_dir : f->repo->git_dir;
	const char *target = shown(run, dir, f->path);
	const char *path = target && is_nested ? arena_printf(arena, "%s/.git", target) : target;
	const char *aside = f->aside ? shown(run, dir, f->aside) : NULL;
	const struct cordon_denial denial = {
		.what = whats[f->kind],
		.target = target,
		.rule = "fs.protect",
		.fix = aside && path ? undo(arena, aside, path) : NULL,
	};

	if (f->kind == GIT_FOUND_REPOSITORY)
		fail(run, f, path, denial.fix);
	/* Out of memory: nothing else is said. */
	if (target && path)
		result_deny(run, &denial);
}

void put_aside(struct cordon_run *run, const struct plan_reserved *name, const char *what)
{
	char aside[NAME_MAX + 1];
	const char *dir = arena_strndup(&run->arena, name->path, path_dir_len(name->path));
	const char *target = dir ? shown(run, dir, name->name) : NULL;
	int r = git_put_aside(name->dir_fd, name->name, name->dir_fd, aside);
	const char *to = r == 0 && dir ? shown(run, dir, aside) : NULL;
	const struct cordon_denial denial = {
		.what = what,
		.target = target,
		.rule = "fs.protect",
		.fix = to && target ? undo(&run->arena, to, target) : NULL,
	};

	if (r < 0 && !run->look_failed) {
		run->look_failed = 1;
		cordon_err(&run->look_error, CORDON_E_PATH, -r,
			   "'%s' runs by itself later and could not be put aside", name->path);
		cordon_err_hint(&run->look_error, "look at it before you use it, or remove it");
	}
	if (target)
		result_deny(run, &denial);
}

void absent_names_check(struct cordon_run *run)
{
	for (size_t i = 0; run->plan && i < run->plan->n_absent; i++) {
		const struct plan_reserved *name = &run->plan->absent[i];
		struct git_opened dir = { .fd = name->dir_fd };
		struct stat st;

		git_open_dir(&dir);
		/* The placeholder of another run, which goes on, is not new. The command may have
		 * made one, too; but of the very kind, so there is nothing in it to be obeyed. */
		if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !reserve_is_placeholder(name))
			/* It may be the user's, so that it is there is no error. */
			put_aside(run, name, "protected name");
		git_close_dir(&dir);
	}
}

/* By how much the clock was set back while the run went on. */
static long long clock_back(const struct cordon_run *run)
{
	struct timespec now;
	long long went, passed = (long long)(clock_ns() - run->started_ns);

	if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0)
		return 0;
	went = (now.tv_sec - run->started_at.tv_sec) * 1000000000LL +
	       (now.tv_nsec - run->started_at.tv_nsec);
	return passed - went > BACK_MIN_NS ? passed - went : 0;
}

void repositories_check(struct cordon_run *run)
{
	if (!run->repositories || !run->plan)
		return;
	git_snapshot_check(run->repositories, run->plan->repos, run->plan->n_repos, clock_back(run),
			   deny, run);
	git_snapshot_free(TAKE_PTR(run->repositories));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's repositories before and after a run: what was put aside becomes a denial. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "git/nested.h"
#include "launch/launch.h"

int repositories_note(struct cordon_run *run, struct cordon_error *err)
{
	const struct plan *plan = run->plan;

	git_snapshot_free(TAKE_PTR(run->repositories));
	if (plan->n_repos == 0)
		return 0;
	if (git_snapshot_take(plan->repos, plan->n_repos, &run->repositories) < 0)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return 0;
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

/* @text as one word of a shell command. */
static void add_word(struct strbuf *sb, const char *text)
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
	add_word(&sb, aside);
	strbuf_putc(&sb, ' ');
	add_word(&sb, path);
	if (!sb.failed)
		fix = arena_strdup(arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

/* Out of memory: nothing is said. */
static void deny(void *ctx, const struct git_finding *f)
{
	static const char *const what[] = {
		[GIT_FOUND_NESTED] = "nested repository",
		[GIT_FOUND_INDEX] = "git index",
		[GIT_FOUND_LINK] = "link in a repository",
	};
	struct cordon_run *run = ctx;
	struct arena *arena = &run->arena;
	bool is_nested = f->kind == GIT_FOUND_NESTED;
	const char *target = shown(run, is_nested ? f->repo->work_dir : f->repo->git_dir, f->path);
	const char *path = target && is_nested ? arena_printf(arena, "%s/.git", target) : target;
	const char *aside = path ? arena_printf(arena, "%s%s", path, f->suffix) : NULL;
	const struct cordon_denial denial = {
		.what = what[f->kind],
		.target = target,
		.rule = "fs.protect",
		.fix = aside && f->is_aside ? undo(arena, aside, path) : NULL,
	};

	if (aside)
		result_deny(run, &denial);
}

void repositories_check(struct cordon_run *run)
{
	if (!run->repositories || !run->plan)
		return;
	git_snapshot_check(run->repositories, run->plan->repos, run->plan->n_repos,
			   &run->started_at, deny, run);
	git_snapshot_free(TAKE_PTR(run->repositories));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cordon workspace commit. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "out.h"
#include "verbs.h"
#include "workspace.h"

/* The most lines about changes that were not committed. */
#define SAID_MAX 50
/* More refusals than this in one directory, for the same reason, become one line. */
#define FOLD_MAX 3
#define FLUSH_AT 65536

/* Refusals that wait for the next one: if that is about the same, one line says it of all. */
struct fold {
	struct strbuf dir;   /* that they are in; or the repository that would be lost */
	struct strbuf lines; /* one for each, up to FOLD_MAX */
	unsigned risks;
	int is_lost;
	uint64_t n;
};

#define FOLD_INIT { .dir = STRBUF_INIT, .lines = STRBUF_INIT }

struct commit {
	struct cordon_workspace *ws;
	const char *which; /* how people call it */
	int is_json, dry_run, is_quiet, conflicts;
	int is_removed; /* nothing was left in it */
	struct strbuf sb;
	struct json_writer w;
	struct fold fold;
	uint64_t said, unsaid;
};

static const char *outcome_name(int outcome)
{
	static const char *const names[] = {
		[CORDON_OUTCOME_APPLIED] = "applied",	[CORDON_OUTCOME_REFUSED] = "refused",
		[CORDON_OUTCOME_CONFLICT] = "conflict", [CORDON_OUTCOME_SKIPPED] = "skipped",
		[CORDON_OUTCOME_FAILED] = "failed",
	};

	return outcome > 0 && (size_t)outcome < ARRAY_SIZE(names) ? names[outcome] : "unknown";
}

/* A path as a word that can be pasted into a shell. */
static void add_shell_word(struct strbuf *sb, const char *path)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "_-./+@%:,=";

	if (path[0] == '-')
		strbuf_puts(sb, "./");
	if (!path[strspn(path, safe)]) {
		strbuf_puts(sb, path);
		return;
	}
	strbuf_puts(sb, "$'");
	for (const char *p = path; *p; p++) {
		if (strchr(safe, *p) || *p == ' ')
			strbuf_putc(sb, *p);
		else
			strbuf_printf(sb, "\\%03o", (unsigned char)*p);
	}
	strbuf_putc(sb, '\'');
}

/* What became of each */

static void told_json(struct commit *c, const struct cordon_change *change, int outcome,
		      const struct cordon_error *err)
{
	json_open_object(&c->w, NULL);
	json_string(&c->w, "path", change->path);
	json_string(&c->w, "from", change->from);
	json_string(&c->w, "kind", cordon_change_kind_name(change->kind));
	json_open_array(&c->w, "risk");
	for (unsigned bit = 1; bit && bit <= change->risks; bit <<= 1) {
		if ((change->risks & bit) && cordon_risk_name(bit))
			json_string(&c->w, NULL, cordon_risk_name(bit));
	}
	json_close_array(&c->w);
	json_string(&c->w, "outcome", outcome_name(outcome));
	json_string(&c->w, "error", err && err->code ? err->msg : NULL);
	json_close_object(&c->w);
}

/* @n lines about what was not done. */
static void say(struct commit *c, const struct strbuf *sb, uint64_t n)
{
	if (c->said < SAID_MAX && !sb->failed)
		(void)write_full(STDERR_FILENO, sb->data, sb->len);
	else
		c->unsaid += n;
	c->said += n;
}

static void add_remedy(struct strbuf *sb, const struct commit *c, const char *path)
{
	strbuf_printf(sb, " (name it to commit it: cordon workspace commit %s ", c->which);
	add_shell_word(sb, path);
	strbuf_puts(sb, ")\n");
}

/* One line for what failed or is in conflict. */
static void told_text(struct commit *c, const struct cordon_change *change, int outcome,
		      const struct cordon_error *err)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon: %s: ", outcome_name(outcome));
	if (err && err->code) {
		strbuf_puts(&sb, err->msg);
		if (err->hint[0])
			strbuf_printf(&sb, " (%s)", err->hint);
	} else {
		strbuf_putc(&sb, '\'');
		add_path(&sb, change->path);
		strbuf_putc(&sb, '\'');
	}
	strbuf_putc(&sb, '\n');
	say(c, &sb, 1);
	strbuf_done(&sb);
}

/* Refusals */

/* Says what has waited. */
static void unfold(struct commit *c)
{
	struct fold *f = &c->fold;

	if (f->n > FOLD_MAX && !f->is_lost) {
		f->lines.len = 0;
		strbuf_printf(&f->lines, "cordon: refused: %llu changes in '",
			      (unsigned long long)f->n);
		add_path(&f->lines, f->dir.len ? f->dir.data : ".");
		strbuf_puts(&f->lines, "' are risky: ");
		add_risks(&f->lines, f->risks);
		strbuf_printf(&f->lines,
			      " (name each to commit it; they are listed by: cordon workspace "
			      "diff %s ",
			      c->which);
		add_shell_word(&f->lines, f->dir.len ? f->dir.data : ".");
		strbuf_puts(&f->lines, ")\n");
	}
	if (f->n)
		say(c, &f->lines, f->is_lost || f->n > FOLD_MAX ? 1 : f->n);
	f->n = 0;
	f->lines.len = 0;
}

static void told_refused(struct commit *c, const struct cordon_change *change,
			 const struct cordon_error *err)
{
	struct fold *f = &c->fold;
	const char *slash = strrchr(change->path, '/');
	/* Only the loss of a repository comes with an explanation. */
	int is_lost = change->lost && err && err->code;
	const char *dir = is_lost ? change->lost : change->path;
	size_t len = is_lost ? strlen(dir) : slash ? (size_t)(slash - dir) : 0;
	unsigned risks = is_lost ? 0 : change->risks & CORDON_RISK_REFUSED;

	if (f->n && (f->is_lost != is_lost || f->risks != risks || f->dir.len != len ||
		     (len && memcmp(f->dir.data, dir, len) != 0)))
		unfold(c);
	if (f->n++ == 0) {
		f->dir.len = 0;
		strbuf_add(&f->dir, dir, len);
		f->risks = risks;
		f->is_lost = is_lost;
	}
	if (is_lost && f->n == 1) {
		strbuf_printf(&f->lines, "cordon: refused: %s", err->msg);
		add_remedy(&f->lines, c, change->lost);
	} else if (!is_lost && f->n <= FOLD_MAX) {
		strbuf_puts(&f->lines, "cordon: refused: '");
		add_path(&f->lines, change->path);
		strbuf_puts(&f->lines, "' is risky: ");
		add_risks(&f->lines, risks);
		add_remedy(&f->lines, c, change->path);
	}
}

static void told(void *arg, const struct cordon_change *change, int outcome,
		 const struct cordon_error *err)
{
	struct commit *c = arg;

	if (c->is_json) {
		told_json(c, change, outcome, err);
		return;
	}
	if (outcome == CORDON_OUTCOME_APPLIED || outcome == CORDON_OUTCOME_SKIPPED) {
		if (!c->dry_run || outcome != CORDON_OUTCOME_APPLIED || !change->is_listed)
			return;
		strbuf_printf(&c->sb, "would apply: %-8s  ", cordon_change_kind_name(change->kind));
		add_path(&c->sb, change->path);
		strbuf_putc(&c->sb, '\n');
		if (c->sb.len > FLUSH_AT && !c->sb.failed) {
			(void)write_full(STDOUT_FILENO, c->sb.data, c->sb.len);
			c->sb.len = 0;
		}
	} else if (outcome == CORDON_OUTCOME_REFUSED) {
		told_refused(c, change, err);
	} else {
		unfold(c);
		told_text(c, change, outcome, err);
	}
}

/* Asking */

static int make_patch(void *arg, int fd, struct cordon_error *err)
{
	const char *const *paths = arg;
	struct cordon_workspace *ws;
	/* Another handle: ours is in the middle of a commit. */
	int r = cordon_workspace_open(NULL, paths[1], &ws, err);

	if (r == 0) {
		const char *const one[] = { paths[0], NULL };

		r = cordon_workspace_patch(ws, one, fd, err);
		cordon_workspace_close(ws);
	}
	return r;
}

static void show_patch(struct commit *c, const struct cordon_change *change)
{
	const char *words[] = { change->path, cordon_workspace_info(c->ws)->id };
	const struct patch_source source = { make_patch, words };
	struct cordon_error err = CORDON_ERROR_INIT;

	if (patch_show(&source, STDERR_FILENO, &err) < 0)
		say_error(&err);
}

static void put_question(const struct cordon_change *change)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "%s ", cordon_change_kind_name(change->kind));
	if (change->from) {
		add_path(&sb, change->from);
		strbuf_puts(&sb, " -> ");
	}
	add_path(&sb, change->path);
	if (change->target) {
		strbuf_puts(&sb, " -> ");
		add_path(&sb, change->target);
	}
	if (change->in_git)
		strbuf_puts(&sb, " (all of it)");
	if (change->risks) {
		strbuf_puts(&sb, " [risky: ");
		add_risks(&sb, change->risks);
		strbuf_putc(&sb, ']');
	}
	strbuf_puts(&sb, "\ncommit it? [y,n,d,q,?] ");
	if (!sb.failed)
		(void)write_full(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

static int choose(void *arg, const struct cordon_change *change)
{
	static const char help[] = "y - commit this change\n"
				   "n - leave it in the workspace\n"
				   "d - show it, line by line\n"
				   "q - stop; nothing is committed\n"
				   "? - this help\n";
	char answer[8];

	for (;;) {
		put_question(change);
		if (read_answer(answer, sizeof(answer)) < 0)
			return -1;
		/* One letter and nothing else: a slip of the finger commits nothing. */
		if (!answer[0] || answer[1])
			answer[0] = '?';
		switch (answer[0]) {
		case 'y':
			return 1;
		case 'n':
			return 0;
		case 'q':
			return -1;
		case 'd':
			show_patch(arg, change);
			break;
		default:
			(void)write_full(STDERR_FILENO, help, sizeof(help) - 1);
		}
	}
}

/* The whole */

static int excluded(const struct parsed *args, const char *base, const char ***ret,
		    struct cordon_error *err)
{
	const char **list = workspace_keep((args->n_options + 1) * sizeof(*list));
	size_t n = 0;
	int r = list ? 0 : cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");

	for (size_t i = 0; list && i < args->n_options && r == 0; i++) {
		if (args->options[i].id != OPT_EXCLUDE)
			continue;
		r = workspace_path(base, args->options[i].value, &list[n++], err);
		if (r < 0)
			cordon_err_prefix(err, "--exclude");
	}
	*ret = list;
	return r;
}

static int conflicts_of(const struct parsed *args, int *ret, struct cordon_error *err)
{
	int theirs = parsed_has(args, OPT_THEIRS) || parsed_has(args, OPT_FORCE);

	if (theirs && parsed_has(args, OPT_OURS))
		return cordon_err(err, CORDON_E_USAGE, 0, "--ours and --%s exclude each other",
				  parsed_has(args, OPT_THEIRS) ? "theirs" : "force");
	*ret = theirs			    ? CORDON_CONFLICTS_THEIRS
	       : parsed_has(args, OPT_OURS) ? CORDON_CONFLICTS_OURS
					    : CORDON_CONFLICTS_REFUSE;
	return 0;
}

static int check_usage(const struct parsed *args, struct cordon_error *err)
{
	if (!parsed_has(args, OPT_ASK))
		return 0;
	if (parsed_has(args, OPT_JSON))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--interactive and --json exclude each other");
	if (!isatty(STDIN_FILENO))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--interactive asks, and standard input is no terminal");
	return 0;
}

static void say_counts(struct commit *c, const struct cordon_commit_result *res)
{
	const char *base = cordon_workspace_info(c->ws)->base;
	/* One undecided conflict holds back the whole commit. */
	int is_stuck = res->conflicts && c->conflicts == CORDON_CONFLICTS_REFUSE;
	unsigned long long applied = res->applied, conflicts = res->conflicts;
	struct strbuf sb = STRBUF_INIT;

	if (c->unsaid)
		say_line("... and %llu more", (unsigned long long)c->unsaid);
	if (is_stuck)
		strbuf_printf(&sb, "cordon: nothing %s committed to ",
			      c->dry_run ? "would be" : "was");
	else
		strbuf_printf(&sb, "cordon: %llu change%s %s to ", applied, applied == 1 ? "" : "s",
			      c->dry_run ? "would be committed" : "committed");
	strbuf_add_escaped(&sb, base, strlen(base));
	if (is_stuck)
		strbuf_printf(&sb, " because of %llu conflict%s", conflicts,
			      conflicts == 1 ? "" : "s");
	if (res->refused)
		strbuf_printf(&sb, ", %llu refused", (unsigned long long)res->refused);
	if (conflicts && !is_stuck)
		strbuf_printf(&sb, ", %llu in conflict", conflicts);
	if (res->failed)
		strbuf_printf(&sb, ", %llu failed", (unsigned long long)res->failed);
	if (res->skipped)
		strbuf_printf(&sb, ", %llu left in the workspace",
			      (unsigned long long)res->skipped);
	if (is_stuck)
		strbuf_puts(&sb, " (--ours keeps the base's version of those and commits the rest, "
				 "--theirs replaces it)");
	strbuf_putc(&sb, '\n');
	if (!sb.failed)
		(void)write_full(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

static void finish_json(struct commit *c, const struct cordon_commit_result *res,
			const struct cordon_error *err)
{
	json_close_array(&c->w);
	json_uint(&c->w, "applied", res->applied);
	json_uint(&c->w, "refused", res->refused);
	json_uint(&c->w, "conflicts", res->conflicts);
	json_uint(&c->w, "skipped", res->skipped);
	json_uint(&c->w, "failed", res->failed);
	json_bool(&c->w, "removed", c->is_removed);
	json_string(&c->w, "error", err->code ? err->msg : NULL);
	json_close_object(&c->w);
	strbuf_putc(&c->sb, '\n');
}

/* Commits, and removes the workspace if it is empty and has no name. Closes it. */
static int commit(struct commit *c, const struct cordon_commit_options *options)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_commit_result res = { 0 };
	const struct cordon_workspace_info *info = cordon_workspace_info(c->ws);
	int status;
	int r;

	json_writer_init(&c->w, &c->sb, 0);
	if (c->is_json) {
		json_open_object(&c->w, NULL);
		json_string(&c->w, "id", info->id);
		json_string(&c->w, "name", info->name);
		json_string(&c->w, "base", info->base);
		json_bool(&c->w, "dry_run", c->dry_run);
		json_open_array(&c->w, "changes");
	}
	r = cordon_workspace_commit(c->ws, options, &res, &err);
	unfold(c);
	strbuf_done(&c->fold.lines);
	strbuf_done(&c->fold.dir);
	/* With --ours a conflict is decided. */
	status = r < 0 ? status_of_error(&err)
		       : res.refused || res.failed ||
				 (res.conflicts && c->conflicts != CORDON_CONFLICTS_OURS);
	if (!c->is_json && !c->is_quiet && r >= 0)
		say_counts(c, &res);
	if (r >= 0 && res.is_empty && !info->name && !c->dry_run) {
		c->is_removed = 1;
		if (cordon_workspace_discard(c->ws, &err) < 0)
			status = status_of_error(&err);
	} else {
		cordon_workspace_close(c->ws);
	}
	if (r < 0 && err.sys_errno == ECANCELED) {
		say_line("stopped; nothing was committed");
		status = 1;
	} else if (err.code) {
		say_error(&err);
	}
	if (c->is_json)
		finish_json(c, &res, &err);
	return out_finish(&c->sb, status);
}

int cmd_workspace_commit(const struct parsed *args)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const char **paths = NULL, **exclude = NULL;
	struct commit c = { .is_json = parsed_has(args, OPT_JSON),
			    .dry_run = parsed_has(args, OPT_ONLY_SAY),
			    .fold = FOLD_INIT,
			    .sb = STRBUF_INIT };
	const struct cordon_workspace_info *info;
	int r = check_usage(args, &err);

	if (r == 0)
		r = conflicts_of(args, &options.conflicts, &err);
	if (r == 0)
		r = workspace_open_with_paths(args, &c.ws, &paths, &err);
	if (r == 0) {
		info = cordon_workspace_info(c.ws);
		c.which = info->name ? info->name : info->id;
		r = excluded(args, info->base, &exclude, &err);
	}
	if (r < 0) {
		cordon_workspace_close(c.ws);
		return workspace_fail(&err);
	}
	options.paths = paths;
	options.exclude = exclude;
	options.dry_run = c.dry_run;
	c.conflicts = options.conflicts;
	options.choose = parsed_has(args, OPT_ASK) ? choose : NULL;
	options.told = told;
	options.arg = &c;
	return commit(&c, &options);
}

int workspace_commit_all(struct cordon_workspace *ws, int is_quiet, int *ret_removed)
{
	const struct cordon_workspace_info *info = cordon_workspace_info(ws);
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	struct commit c = { .ws = ws,
			    .which = info->name ? info->name : info->id,
			    .is_quiet = is_quiet,
			    .fold = FOLD_INIT,
			    .sb = STRBUF_INIT };
	int status;

	options.told = told;
	options.arg = &c;
	status = commit(&c, &options);
	*ret_removed = c.is_removed;
	return status;
}

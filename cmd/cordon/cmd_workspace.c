/* SPDX-License-Identifier: Apache-2.0 */
/* cordon workspace list, status, discard, gc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "format/workspace_json.h"
#include "out.h"
#include "verbs.h"
#include "workspace.h"

static int no_operands(const struct parsed *args, struct cordon_error *err)
{
	int r;

	if (!args->n_rest)
		return 0;
	r = cordon_err(err, CORDON_E_USAGE, 0, "'%s' takes no argument '%s'",
		       verb_table[args->verb].name, args->rest[0]);
	cordon_err_hint(err, "try 'cordon %s --help'", verb_table[args->verb].name);
	return r;
}

/* All ids, since nothing can be opened while the list is read. */
struct ids {
	char (*v)[64];
	size_t n, cap;
};

static int keep_id(void *arg, const struct cordon_workspace_info *info)
{
	struct ids *ids = arg;

	if (ids->n == ids->cap) {
		size_t cap = ids->cap ? 2 * ids->cap : 16;
		void *grown = realloc(ids->v, cap * sizeof(*ids->v));

		if (!grown)
			return -1;
		ids->v = grown;
		ids->cap = cap;
	}
	snprintf(ids->v[ids->n++], sizeof(*ids->v), "%s", info->id);
	return 0;
}

static int all_ids(struct ids *ids, struct cordon_error *err)
{
	return cordon_workspace_list(NULL, keep_id, ids, err);
}

/* list */

static const char *state_of(const struct cordon_workspace_info *info, int has_summary)
{
	if (info->commit_begun)
		return "commit interrupted";
	if (info->in_use)
		return "in use";
	return has_summary ? "kept" : "unreadable";
}

static void add_cell(struct strbuf *sb, const char *text, int width)
{
	size_t before = sb->len;

	strbuf_add_escaped(sb, text, strlen(text));
	/* Bytes, not columns: long names may push the rest to the right, but never break a line. */
	while (!sb->failed && sb->len < before + (size_t)width)
		strbuf_putc(sb, ' ');
	strbuf_puts(sb, "  ");
}

struct lister {
	struct strbuf sb;
	struct json_writer w;
	int is_json;
	int base_width;
};

static void list_one(struct lister *l, const struct cordon_workspace_info *info,
		     const struct cordon_summary *s, const struct cordon_error *err)
{
	char age[HUMAN_MAX], changes[24];
	int has_summary = !err->code;

	if (l->is_json) {
		json_open_object(&l->w, NULL);
		workspace_info_json(&l->w, info);
		if (has_summary)
			workspace_summary_json(&l->w, s);
		else
			json_null(&l->w, "summary");
		json_string(&l->w, "error", has_summary ? NULL : err->msg);
		json_close_object(&l->w);
		return;
	}
	snprintf(changes, sizeof(changes), "%llu", (unsigned long long)summary_total(s));
	add_cell(&l->sb, info->id, 10);
	add_cell(&l->sb, info->name ? info->name : "-", 12);
	add_cell(&l->sb, info->base, l->base_width);
	add_cell(&l->sb, has_summary ? changes : "?", 7);
	add_cell(&l->sb, human_age(info->created_s, age), 4);
	strbuf_puts(&l->sb, state_of(info, has_summary));
	if (!has_summary) {
		strbuf_puts(&l->sb, ": ");
		strbuf_puts(&l->sb, err->msg);
	}
	strbuf_putc(&l->sb, '\n');
}

static int widest_base(void *arg, const struct cordon_workspace_info *info)
{
	int *width = arg;
	size_t len = strlen(info->base);

	if (len > (size_t)*width)
		*width = len < 40 ? (int)len : 40;
	return 0;
}

int cmd_workspace_list(const struct parsed *args)
{
	struct lister l = { .sb = STRBUF_INIT,
			    .is_json = parsed_has(args, OPT_JSON),
			    .base_width = 4 };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct ids ids = { 0 };

	if (no_operands(args, &err) < 0)
		return workspace_fail(&err);
	/* The others are listed although one is damaged. */
	if (all_ids(&ids, &err) < 0) {
		if (!ids.n)
			return workspace_fail(&err);
		say_error(&err);
	}
	(void)cordon_workspace_list(NULL, widest_base, &l.base_width, NULL);
	json_writer_init(&l.w, &l.sb, 0);
	if (l.is_json)
		json_open_array(&l.w, NULL);
	else if (ids.n)
		strbuf_printf(&l.sb, "%-10s  %-12s  %-*s  %-7s  %-4s  %s\n", "ID", "NAME",
			      l.base_width, "BASE", "CHANGES", "AGE", "STATE");
	for (size_t i = 0; i < ids.n; i++) {
		struct cordon_error one = CORDON_ERROR_INIT;
		struct cordon_summary s = { 0 };
		struct cordon_workspace *ws;

		/* One that was removed since is no error. */
		if (cordon_workspace_open(NULL, ids.v[i], &ws, &one) < 0)
			continue;
		(void)cordon_workspace_summary(ws, &s, &one);
		list_one(&l, cordon_workspace_info(ws), &s, &one);
		cordon_workspace_close(ws);
	}
	if (l.is_json) {
		json_close_array(&l.w);
		strbuf_putc(&l.sb, '\n');
	}
	free(ids.v);
	return out_finish(&l.sb, 0);
}

/* status */

struct totals {
	struct cordon_summary s;
	uint64_t bytes; /* of files that are new or changed */
};

static int count_bytes(void *arg, const struct cordon_change *c)
{
	struct totals *t = arg;

	if (c->is_listed && c->type == CORDON_FILE_REGULAR &&
	    (c->kind == CORDON_CHANGE_ADDED || c->kind == CORDON_CHANGE_MODIFIED ||
	     c->kind == CORDON_CHANGE_TYPE))
		t->bytes += c->size;
	return 0;
}

static void add_row(struct strbuf *sb, const char *key, const char *value)
{
	strbuf_printf(sb, "%-10s ", key);
	strbuf_add_escaped(sb, value, strlen(value));
	strbuf_putc(sb, '\n');
}

static void status_text(struct strbuf *sb, const struct cordon_workspace_info *info,
			const struct totals *t)
{
	char text[HUMAN_MAX];

	add_row(sb, "workspace", info->id);
	if (info->name)
		add_row(sb, "name", info->name);
	add_row(sb, "base", info->base);
	if (info->parent)
		add_row(sb, "copy of", info->parent);
	add_row(sb, "mechanism", cordon_mechanism_name(info->mechanism));
	strbuf_printf(sb, "%-10s %llu\n", "runs", (unsigned long long)info->runs);
	add_row(sb, "age", human_age(info->created_s, text));
	add_row(sb, "last used", human_age(info->used_s, text));
	add_row(sb, "state", state_of(info, 1));
	strbuf_printf(sb, "%-10s ", "changes");
	add_summary(sb, &t->s);
	strbuf_putc(sb, '\n');
	add_row(sb, "size", human_size(t->bytes, text));
	strbuf_printf(sb, "%-10s %llu", "risky", (unsigned long long)t->s.risky);
	if (t->s.refused && t->s.refused < t->s.risky)
		strbuf_printf(sb, ", of which %llu %s", (unsigned long long)t->s.refused,
			      t->s.refused == 1 ? "is" : "are");
	else if (t->s.refused)
		strbuf_putc(sb, ',');
	strbuf_puts(sb, t->s.refused ? " left out of a commit unless named\n" : "\n");
}

int cmd_workspace_status(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws = NULL;
	struct strbuf sb = STRBUF_INIT;
	struct totals t = { 0 };
	struct json_writer w;

	if (args->n_rest > 1) {
		cordon_err(&err, CORDON_E_USAGE, 0, "'workspace status' takes one workspace");
		return workspace_fail(&err);
	}
	if (workspace_open(args->rest[0], &ws, &err) < 0 ||
	    cordon_workspace_summary(ws, &t.s, &err) < 0 ||
	    cordon_workspace_changes(ws, count_bytes, &t, &err) < 0) {
		cordon_workspace_close(ws);
		return workspace_fail(&err);
	}
	if (parsed_has(args, OPT_JSON)) {
		json_writer_init(&w, &sb, 0);
		json_open_object(&w, NULL);
		workspace_info_json(&w, cordon_workspace_info(ws));
		workspace_summary_json(&w, &t.s);
		json_uint(&w, "bytes", t.bytes);
		json_close_object(&w);
		strbuf_putc(&sb, '\n');
	} else {
		status_text(&sb, cordon_workspace_info(ws), &t);
	}
	cordon_workspace_close(ws);
	return out_finish(&sb, 0);
}

/* discard */

static int ask_discard(struct cordon_workspace *ws)
{
	const struct cordon_workspace_info *info = cordon_workspace_info(ws);
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_summary s = { 0 };
	struct strbuf sb = STRBUF_INIT;
	int yes;

	strbuf_printf(&sb, "discard workspace %s of %s (", info->name ? info->name : info->id,
		      info->base);
	if (cordon_workspace_summary(ws, &s, &err) < 0)
		strbuf_puts(&sb, "its changes cannot be read");
	else
		add_summary(&sb, &s);
	strbuf_puts(&sb, ")?");
	yes = !sb.failed && ask_yes(sb.data);
	strbuf_done(&sb);
	return yes;
}

static int discard_one(const char *which, int ask)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;

	if (workspace_open(which, &ws, &err) < 0)
		return workspace_fail(&err);
	if (ask && !ask_discard(ws)) {
		cordon_workspace_close(ws);
		return 1;
	}
	return cordon_workspace_discard(ws, &err) < 0 ? workspace_fail(&err) : 0;
}

/* The worst status of all. */
static int discard_all(const struct ids *ids)
{
	int status = 0;

	for (size_t i = 0; i < ids->n; i++) {
		int s = discard_one(ids->v[i], 0);

		status = s > status ? s : status;
	}
	return status;
}

int cmd_workspace_discard(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int is_terminal = isatty(STDIN_FILENO);
	int ask = is_terminal && !parsed_has(args, OPT_YES);
	struct ids ids = { 0 };
	char question[64];
	int status = 0;

	if (!parsed_has(args, OPT_ALL)) {
		if (!args->n_rest)
			return discard_one(NULL, ask);
		for (size_t i = 0; i < args->n_rest; i++) {
			int s = discard_one(args->rest[i], ask);

			status = s > status ? s : status;
		}
		return status;
	}
	if (no_operands(args, &err) < 0 || all_ids(&ids, &err) < 0)
		return workspace_fail(&err);
	if (!is_terminal && !parsed_has(args, OPT_YES)) {
		cordon_err(&err, CORDON_E_USAGE, 0, "--all asks, and there is no terminal");
		cordon_err_hint(&err, "say --yes");
		free(ids.v);
		return workspace_fail(&err);
	}
	snprintf(question, sizeof(question), "discard %zu workspace%s?", ids.n,
		 ids.n == 1 ? "" : "s");
	status = ids.n && ask && !ask_yes(question) ? 1 : discard_all(&ids);
	free(ids.v);
	return status;
}

/* gc */

struct gc {
	struct strbuf sb;
	struct json_writer w;
	int is_json, dry_run;
};

static void told_gc(void *arg, const struct cordon_workspace_info *info, const char *why)
{
	struct gc *gc = arg;

	if (gc->is_json) {
		json_open_object(&gc->w, NULL);
		json_string(&gc->w, "id", info->id);
		json_string(&gc->w, "name", info->name);
		json_string(&gc->w, "base", info->base);
		json_string(&gc->w, "why", why);
		json_close_object(&gc->w);
		return;
	}
	strbuf_puts(&gc->sb, gc->dry_run ? "would remove " : "removed ");
	strbuf_add_escaped(&gc->sb, info->id ? info->id : "?", info->id ? strlen(info->id) : 1);
	if (info->base) {
		strbuf_puts(&gc->sb, " over ");
		strbuf_add_escaped(&gc->sb, info->base, strlen(info->base));
	}
	strbuf_puts(&gc->sb, ": ");
	strbuf_puts(&gc->sb, why);
	strbuf_putc(&gc->sb, '\n');
}

int cmd_workspace_gc(const struct parsed *args)
{
	struct cordon_gc_options options = CORDON_GC_OPTIONS_INIT;
	struct gc gc = { .sb = STRBUF_INIT,
			 .is_json = parsed_has(args, OPT_JSON),
			 .dry_run = parsed_has(args, OPT_ONLY_SAY) };
	struct cordon_error err = CORDON_ERROR_INIT;
	uint64_t n = 0;

	if (no_operands(args, &err) < 0)
		return workspace_fail(&err);
	if (parsed_has(args, OPT_OLDER_THAN) &&
	    parse_age(parsed_value(args, OPT_OLDER_THAN), &options.older_than_s, &err) < 0)
		return workspace_fail(&err);
	options.dry_run = gc.dry_run;
	options.told = told_gc;
	options.is_disposable = is_server_workspace;
	options.arg = &gc;
	json_writer_init(&gc.w, &gc.sb, 0);
	if (gc.is_json) {
		json_open_object(&gc.w, NULL);
		json_open_array(&gc.w, "workspaces");
	}
	if (cordon_workspace_gc(NULL, &options, &n, &err) < 0) {
		strbuf_done(&gc.sb);
		return workspace_fail(&err);
	}
	if (gc.is_json) {
		json_close_array(&gc.w);
		json_uint(&gc.w, "removed", gc.dry_run ? 0 : n);
		json_close_object(&gc.w);
		strbuf_putc(&gc.sb, '\n');
	} else if (!n) {
		strbuf_puts(&gc.sb, "nothing to remove\n");
	}
	return out_finish(&gc.sb, 0);
}

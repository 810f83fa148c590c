/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace_diff and workspace_commit, by the verbs of the command in a process of their own. A
 * commit has no argument: what a person has to name to get it committed, no model can name here.
 */
#include <stdio.h>
#include <string.h>

#include "server.h"

#define PATCH_SHOWN ((size_t)64 << 10)
#define REST_SHOWN 20 /* changes that were not committed */

int tools_have_workspace(const struct server *s)
{
	return s->workspace[0] != '\0';
}

int tools_may_commit(const struct server *s)
{
	return s->workspace[0] && s->may_commit;
}

/* The helper's answer, or -1: the call was answered with what went wrong. */
static int check_helper(struct call *call)
{
	const struct helper *helper = &call->helper;

	/* 1: a commit left something out. */
	if ((helper->status == 0 || helper->status == 1) && !helper->out.failed)
		return 0;
	answer_refuse(call, "%.500s",
		      helper->out.len && helper->status > 0 ? helper->out.data
		      : helper->is_cut ? "there are too many changes to show; the "
					 "operator sees them with 'cordon workspace diff'"
				       : "the changes could not be looked at");
	return -1;
}

/* @note: of ours, an item of its own; NULL = none. */
static void send_object(struct call *call, struct strbuf *object, const char *text, size_t len,
			const char *note)
{
	struct answer a = ANSWER_INIT;
	const struct json_value *root;

	/* Whole, and an object: it becomes a part of ours. */
	if (json_read(object->data ? object->data : "", object->len, "changes", &call->line->arena,
		      &root, NULL) < 0 ||
	    root->type != JSON_OBJECT) {
		answer_refuse(call, "the changes have names that cannot be told here; the operator "
				    "sees them with 'cordon workspace diff'");
		return;
	}
	while (object->data && object->len && object->data[object->len - 1] == '\n')
		object->len--;
	strbuf_add(&a.data, object->data, object->len);
	answer_text(&a, text, len);
	if (note)
		answer_text(&a, note, strlen(note));
	answer_send(call, &a);
}

static void patch_done(struct call *call)
{
	static const char cut[] = "this is the beginning of the patch: the rest is not shown";
	const struct helper *helper = &call->helper;
	const struct strbuf *patch = &helper->out;
	size_t n = patch->len < PATCH_SHOWN ? patch->len : PATCH_SHOWN;

	if (helper->status != 0 && !helper->is_cut)
		send_object(call, &call->kept, "the patch could not be made", 27, NULL);
	else if (n == 0)
		send_object(call, &call->kept, "nothing has changed", 19, NULL);
	else
		send_object(call, &call->kept, patch->data, n, n < patch->len ? cut : NULL);
}

static void diff_done(struct call *call)
{
	const char *const argv[] = {
		"cordon", "workspace", "diff", "--patch", call->server->workspace, NULL
	};

	if (check_helper(call) < 0)
		return;
	answer_without_surrogates(call->helper.out.data);
	strbuf_add(&call->kept, call->helper.out.data, call->helper.out.len);
	helper_start(call, argv, patch_done);
}

/* A workspace that the operator has named may have changes from before; without changes one may
 * have been collected meanwhile. */
static void look_for_it(struct server *s)
{
	struct cordon_workspace *ws = NULL;

	s->workspace_began = 0;
	if (cordon_workspace_open(NULL, s->workspace, &ws, NULL) < 0)
		return;
	/* With one of another directory no call works. */
	s->workspace_began = !strcmp(cordon_workspace_info(ws)->base, s->base);
	cordon_workspace_close(ws);
}

/* Nothing ran yet, so there is nothing to look at. */
static int is_untouched(struct call *call)
{
	struct answer a = ANSWER_INIT;

	if (!call->server->box.session)
		look_for_it(call->server);
	if (call->server->workspace_began)
		return 0;
	answer_text(&a, "nothing has changed", 19);
	strbuf_puts(&a.data, "{\"changes\":[]}");
	answer_send(call, &a);
	return 1;
}

static int n_helpers(const struct server *s)
{
	int n = 0;

	for (const struct call *call = s->calls; call; call = call->next)
		n += call->helper.pid > 0;
	return n;
}

void tool_workspace_diff(struct call *call)
{
	const char *const argv[] = {
		"cordon", "workspace", "diff", "--json", call->server->workspace, NULL
	};

	if (is_untouched(call))
		return;
	if (n_helpers(call->server) >= MCP_HELPERS_MAX)
		answer_refuse(call, "%d calls look at the changes already: wait for one of them",
			      MCP_HELPERS_MAX);
	else
		helper_start(call, argv, diff_done);
}

static const char *text_of(const struct json_value *change, const char *key)
{
	const struct json_value *v = json_get(change, key);

	return v && v->type == JSON_STRING ? v->text : "";
}

/* What was left out, of the commit's own account. The guest has chosen the names. */
static void add_rest(struct strbuf *sb, const struct json_value *changes)
{
	int n = 0;

	for (const struct json_value *v = changes ? changes->first : NULL; v; v = v->next) {
		const char *path = text_of(v, "path"), *outcome = text_of(v, "outcome");

		if (!strcmp(outcome, "applied") || ++n > REST_SHOWN)
			continue;
		strbuf_printf(sb, "\n%s: '", outcome);
		strbuf_add_escaped(sb, path, strlen(path));
		strbuf_putc(sb, '\'');
	}
	if (n > REST_SHOWN)
		strbuf_printf(sb, "\nand %d more", n - REST_SHOWN);
}

static void add_commit(struct strbuf *sb, struct call *call, const struct strbuf *object)
{
	const struct json_value *root = NULL, *applied = NULL;

	if (json_read(object->data ? object->data : "", object->len, "changes", &call->line->arena,
		      &root, NULL) < 0 ||
	    root->type != JSON_OBJECT)
		root = NULL;
	if (root)
		applied = json_get(root, "applied");
	if (call->helper.status == 0)
		strbuf_puts(sb, "all changes were committed");
	else
		strbuf_printf(sb,
			      "%s was committed; the rest is the operator's to decide, with "
			      "'cordon workspace commit %s'",
			      applied && applied->integer == 0 ? "nothing" : "not everything",
			      call->server->workspace);
	if (call->helper.is_cut)
		strbuf_puts(sb, "; the changes are too many to be listed");
	else if (root)
		add_rest(sb, json_get(root, "changes"));
}

static void commit_done(struct call *call)
{
	static const char none[] = "{\"changes\":[],\"more\":true}";
	struct strbuf *object = &call->helper.out, words = STRBUF_INIT;

	if (check_helper(call) < 0)
		return;
	if (call->helper.is_cut) {
		strbuf_done(object);
		*object = (struct strbuf)STRBUF_INIT;
		strbuf_puts(object, none);
	}
	answer_without_surrogates(object->data);
	add_commit(&words, call, object);
	send_object(call, object, words.data ? words.data : "", words.failed ? 0 : words.len, NULL);
	strbuf_done(&words);
}

void tool_workspace_commit(struct call *call)
{
	struct server *s = call->server;
	const char *const argv[] = {
		"cordon", "workspace", "commit", "--json", s->workspace, NULL
	};

	if (is_untouched(call))
		return;
	if (s->is_committing || s->box.jobs || s->n_sessions) {
		answer_refuse(call,
			      "other calls are running, or sessions: commit when they are done");
		return;
	}
	/* Only one can have the workspace. */
	box_end(&s->box);
	box_free(&s->box);
	s->is_committing = call->is_commit = 1;
	helper_start(call, argv, commit_done);
}

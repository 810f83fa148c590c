/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/commit/commit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

void commit_temp_name(const struct commit *c, uint32_t number, char ret[COMMIT_TEMP_SIZE])
{
	snprintf(ret, COMMIT_TEMP_SIZE, COMMIT_TEMP_PREFIX "%s-%u", c->ws->meta.id, number);
}

static const char *remedy(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT:
		return "make room there, then ";
	case EROFS:
	case EACCES:
	case EPERM:
		return "make it writable for you, then ";
	case ESTALE:
		return "something moves directories there; when it has ended, ";
	default:
		return "";
	}
}

int commit_fail(struct commit *c, uint32_t node, int r, const char *what)
{
	struct strbuf path = STRBUF_INIT;
	int code = r == -ENOMEM ? CORDON_E_NOMEM : CORDON_E_SYSTEM;

	c->failed = node;
	if (node == WS_NO_NODE) {
		cordon_err(c->err, code, -r, "%s", what);
	} else {
		ws_node_path(&c->changes, node, &path);
		cordon_err(c->err, code, -r, "%s '%s'", what, path.data ? path.data : "");
		strbuf_done(&path);
	}
	if (c->is_begun)
		cordon_err_hint(c->err, "%srepeat `cordon workspace commit %s`: it goes on there",
				remedy(-r), c->ws->meta.id);
	else
		cordon_err_hint(c->err, "%s%s", remedy(-r), "nothing was changed so far");
	return -code;
}

/* --- reporting --- */

static int outcome_of(const struct commit *c, const struct commit_item *item)
{
	switch (item->state) {
	case ITEM_SKIPPED:
		return CORDON_OUTCOME_SKIPPED;
	case ITEM_REFUSED:
		return CORDON_OUTCOME_REFUSED;
	case ITEM_CONFLICT:
		return CORDON_OUTCOME_CONFLICT;
	case ITEM_FAILED:
		return CORDON_OUTCOME_FAILED;
	case ITEM_DONE:
	case ITEM_APPLIED:
		return CORDON_OUTCOME_APPLIED;
	case ITEM_CHOSEN:
		return c->options.dry_run ? CORDON_OUTCOME_APPLIED : 0;
	default:
		return 0;
	}
}

static void count(struct cordon_commit_result *ret, int outcome)
{
	uint64_t *const counters[] = {
		[CORDON_OUTCOME_APPLIED] = &ret->applied,
		[CORDON_OUTCOME_REFUSED] = &ret->refused,
		[CORDON_OUTCOME_CONFLICT] = &ret->conflicts,
		[CORDON_OUTCOME_SKIPPED] = &ret->skipped,
		[CORDON_OUTCOME_FAILED] = &ret->failed,
	};

	++*counters[outcome];
}

/* What is said about it; @path as it is in the base. */
static void explain(const struct commit *c, uint32_t i, const char *path, struct cordon_error *ret)
{
	const struct commit_item *item = &c->items[i];
	const struct ws_lost *lost = c->changes.v[i].lost;

	if (item->state == ITEM_REFUSED && commit_is_lost(c, i)) {
		cordon_err(ret, CORDON_E_STATE, 0,
			   "'%s' was removed or replaced in the workspace: %s history would be "
			   "lost",
			   lost->what, strcmp(lost->what, lost->path) == 0 ? "its" : "the");
		cordon_err_hint(ret, "name '%s' to commit it", lost->path);
	} else if (item->why && item->is_in_base) {
		bool is_both = strcmp(item->why, "was changed") == 0 ||
			       strcmp(item->why, "appeared") == 0;

		cordon_err(ret, CORDON_E_STATE, 0, "'%s' %s in %s%s", path, item->why,
			   c->ws->meta.base, is_both ? " as well" : "");
	} else if (item->why) {
		cordon_err(ret, CORDON_E_STATE, 0, "'%s': %s", path, item->why);
	}
}

static void tell_one(struct commit *c, uint32_t i, int outcome)
{
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;
	struct cordon_error why = CORDON_ERROR_INIT;
	const struct cordon_error *err = NULL;
	struct cordon_change change;

	ws_node_change(&c->changes, i, &path, &from, &change);
	if (i == c->failed && c->err) {
		err = c->err;
	} else {
		explain(c, i, path.data ? path.data : "", &why);
		err = why.code ? &why : NULL;
	}
	if (!path.failed && !from.failed)
		c->options.told(c->options.arg, &change, outcome, err);
	strbuf_done(&path);
	strbuf_done(&from);
}

/* Reports the outcome of each, sorted by path. */
static void tell(struct commit *c, struct cordon_commit_result *ret)
{
	if (c->failed != WS_NO_NODE && c->failed < c->changes.n && c->is_begun)
		c->items[c->failed].state = ITEM_FAILED;
	for (uint32_t i = 0; i < c->changes.n; i++) {
		int outcome = outcome_of(c, &c->items[i]);

		if (!outcome ||
		    (!ws_node_is_listed(&c->changes, i) &&
		     (outcome != CORDON_OUTCOME_FAILED &&
		      (outcome != CORDON_OUTCOME_CONFLICT || c->changes.v[i].is_renamed_away))))
			continue;
		count(ret, outcome);
		if (c->options.told)
			tell_one(c, i, outcome);
	}
}

/* --- the commit --- */

static int prepare(struct commit *c)
{
	struct cordon_summary summary;
	int r = 0;

	if (c->ws->meta.is_dirty)
		r = ws_settle(c->ws, &summary, NULL, c->err);
	if (r == 0)
		r = ws_open_base(c->ws, c->err);
	if (r < 0)
		return r;
	c->content_fd = ws_open_content(c->ws);
	if (c->content_fd < 0)
		return commit_fail(c, WS_NO_NODE, c->content_fd, "cannot open the workspace");
	r = journal_load(c);
	if (r < 0 || !c->journal)
		return r;
	r = journal_check(c);
	if (r == 0 && !c->options.dry_run)
		r = commit_clean_leftovers(c);
	return r;
}

static int make_items(struct commit *c)
{
	c->items = calloc(c->changes.n + 1, sizeof(*c->items));
	if (!c->items)
		return commit_fail(c, WS_NO_NODE, -ENOMEM, "commit");
	for (uint32_t i = 0; i < c->changes.n; i++) {
		const struct ws_node *node = &c->changes.v[i];
		struct commit_item *item = &c->items[i];

		item->partner = WS_NO_NODE;
		item->unit = node->parent == WS_NO_NODE ? WS_NO_NODE : c->items[node->parent].unit;
		if (node->parent != WS_NO_NODE)
			c->items[node->parent].n_children++;
		if (item->unit == WS_NO_NODE && strcmp(node->name, ".git") == 0)
			item->unit = i;
		/* Bare ones are units if they may be lost. */
		if (node->lost)
			item->unit = node->lost->unit;
	}
	return 0;
}

static int decide(struct commit *c)
{
	int r;

	r = ws_collect(c->ws, &c->changes, c->err);
	if (r == 0)
		r = ws_records_load(c->ws, &c->records, c->err);
	if (r == 0)
		r = make_items(c);
	if (r < 0)
		return r;
	r = walker_start(&c->base, &c->changes, c->ws->base_fd, false);
	if (r == 0)
		r = walker_start(&c->content, &c->changes, c->content_fd, true);
	if (r < 0)
		return commit_fail(c, WS_NO_NODE, r, "cannot open the directory");
	r = c->journal ? commit_select_resumed(c) : commit_select(c);
	return r < 0 ? r : commit_check_base(c);
}

/* Whether the base is to be changed. */
static bool is_go(const struct commit *c)
{
	bool is_go = c->journal != NULL;

	for (size_t i = 0; i < c->changes.n; i++) {
		if (c->items[i].state == ITEM_CONFLICT &&
		    c->options.conflicts == CORDON_CONFLICTS_REFUSE)
			return false;
		if (c->items[i].state == ITEM_CHOSEN || c->items[i].state == ITEM_DONE)
			is_go = true;
	}
	return is_go && !c->options.dry_run;
}

static bool is_empty(const struct commit *c)
{
	for (size_t i = 0; i < c->changes.n; i++) {
		if (c->changes.v[i].kind && c->items[i].state != ITEM_APPLIED &&
		    c->items[i].state != ITEM_DONE)
			return false;
	}
	return true;
}

static int run(struct commit *c, struct cordon_commit_result *ret)
{
	int r;

	r = prepare(c);
	if (r == 0)
		r = decide(c);
	if (r < 0)
		return r;
	if (is_go(c)) {
		if (!c->journal)
			r = journal_write(c);
		if (r == 0)
			r = commit_apply(c);
		if (r == 0)
			r = commit_clear_applied(c);
		if (r == 0)
			r = journal_remove(c);
		/* Its usage is lower now. */
		c->ws->meta.usage_bytes = c->ws->meta.usage_inodes = WS_USAGE_UNKNOWN;
		if (r == 0)
			r = ws_save_run(c->ws, c->err);
		/* The base is younger now because of us. */
		if (r == 0)
			r = ws_end_since(c->ws, c->err);
	}
	tell(c, ret);
	if (r == 0)
		ret->is_empty = is_empty(c);
	return r;
}

static void done(struct commit *c)
{
	walker_done(&c->base);
	walker_done(&c->content);
	if (c->content_fd >= 0)
		close(c->content_fd);
	journal_free(c->journal);
	ws_records_free(c->records);
	ws_changes_done(&c->changes);
	free(c->items);
	arena_done(&c->arena);
}

int ws_end_interrupted(struct cordon_workspace *ws, struct cordon_error *err)
{
	struct cordon_error unseen = CORDON_ERROR_INIT;
	struct commit c = {
		.ws = ws,
		.content_fd = -1,
		.base = WALKER_INIT,
		.content = WALKER_INIT,
		.err = err ? err : &unseen,
		.failed = WS_NO_NODE,
	};
	int r = 0;

	/* If the base is gone or the journal cannot be read, there is nothing to clean up. */
	if (!ws_has_journal(ws->dir_fd) || ws_open_base(ws, NULL) < 0)
		return 0;
	c.content_fd = ws_open_content(ws);
	if (c.content_fd >= 0 && journal_load(&c) == 0 && c.journal)
		r = commit_clean_leftovers(&c);
	else
		*c.err = (struct cordon_error)CORDON_ERROR_INIT;
	done(&c);
	return r;
}

static int check_options(const struct cordon_commit_options *options, struct cordon_error *err)
{
	if (options->conflicts < CORDON_CONFLICTS_REFUSE ||
	    options->conflicts > CORDON_CONFLICTS_THEIRS)
		return cordon_err(err, CORDON_E_USAGE, 0, "no such way to decide conflicts: %d",
				  options->conflicts);
	return 0;
}

int cordon_workspace_commit(struct cordon_workspace *ws,
			    const struct cordon_commit_options *options,
			    struct cordon_commit_result *ret, struct cordon_error *err)
{
	struct cordon_commit_result nowhere;
	struct cordon_error unseen = CORDON_ERROR_INIT;
	struct commit c = {
		.ws = ws,
		.options = CORDON_COMMIT_OPTIONS_INIT,
		.content_fd = -1,
		.base = WALKER_INIT,
		.content = WALKER_INIT,
		.err = err ? err : &unseen,
		.failed = WS_NO_NODE,
	};
	bool was_locked = ws->is_locked;
	int r;

	if (!ret)
		ret = &nowhere;
	*ret = (struct cordon_commit_result){ 0 };
	/* A caller of another version has a shorter or longer one. */
	if (options)
		memcpy(&c.options, options,
		       options->size < sizeof(c.options) ? options->size : sizeof(c.options));
	r = check_options(&c.options, c.err);
	if (r == 0 && !was_locked)
		r = ws_lock(ws, c.err);
	if (r < 0)
		return r;
	r = run(&c, ret);
	done(&c);
	if (!was_locked)
		ws_unlock(ws);
	return r;
}

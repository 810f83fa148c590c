/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes are wanted: paths, exclusions, risks, questions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/path.h"
#include "workspace/commit/commit.h"

/* Only its very path chooses it. */
static bool is_refused_kind(const struct ws_node *node)
{
	return (node->risks & CORDON_RISK_REFUSED) != 0;
}

/* The same even if the repository that it was lost with is named. */
static bool is_refused_by_itself(const struct ws_node *node)
{
	return node->lost ? node->is_risky_itself : is_refused_kind(node);
}

bool commit_is_lost(const struct commit *c, uint32_t i)
{
	const struct ws_lost *lost = c->changes.v[i].lost;

	if (!lost)
		return false;
	return lost->unit == WS_NO_NODE ? !c->is_all_named : !c->items[lost->unit].is_named;
}

/* The path as nodes have it, "" for the base itself. NULL: error is set. */
static char *relative(struct commit *c, const char *path)
{
	const char *base = c->ws->meta.base;
	size_t size = strlen(path) + 3;
	char *text;

	text = arena_alloc(&c->arena, size);
	if (!text) {
		cordon_err(c->err, CORDON_E_NOMEM, ENOMEM, "commit");
		return NULL;
	}
	if (path_normalise(NULL, path, text, size) < 0 || path_has_dotdot(text)) {
		cordon_err(c->err, CORDON_E_PATH, EINVAL, "'%s' is no path in a workspace", path);
		cordon_err_hint(c->err, "paths are relative to %s, without \"..\"", base);
		return NULL;
	}
	if (strcmp(text, ".") == 0)
		text[0] = '\0';
	if (text[0] != '/')
		return text;
	if (!path_is_within(base, text)) {
		cordon_err(c->err, CORDON_E_PATH, EINVAL, "'%s' is not in %s", path, base);
		return NULL;
	}
	text += strlen(base);
	return text + strspn(text, "/");
}

static uint32_t find(const struct node_index *index, const char *path)
{
	uint32_t node = WS_NO_NODE;

	while (*path) {
		size_t len = strcspn(path, "/");

		node = node_index_child(index, node, path, len);
		if (node == WS_NO_NODE)
			return WS_NO_NODE;
		path += len;
		path += strspn(path, "/");
	}
	return node;
}

static int no_such_change(struct commit *c, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	char best[NEAREST_LEN_MAX + 1] = "";
	struct nearest nearest;

	cordon_err(c->err, CORDON_E_PATH, 0, "'%s' was not changed in the workspace", path);
	nearest_init(&nearest, path);
	for (size_t i = 0; i < c->changes.n; i++) {
		if (!c->changes.v[i].kind)
			continue;
		ws_node_path(&c->changes, (uint32_t)i, &sb);
		if (sb.failed || sb.len > NEAREST_LEN_MAX)
			continue;
		nearest_offer(&nearest, sb.data);
		if (nearest.best == sb.data) {
			memcpy(best, sb.data, sb.len + 1);
			nearest.best = best;
		}
	}
	strbuf_done(&sb);
	if (best[0])
		cordon_err_hint(c->err, "did you mean '%s'?", best);
	else
		cordon_err_hint(c->err, "`cordon workspace diff %s` lists what was changed",
				c->ws->meta.id);
	return -CORDON_E_PATH;
}

/* Marks what @paths name. A directory on the way to changes is as good as a change. */
static int mark(struct commit *c, const struct node_index *index, const char *const *paths,
		bool is_exclude)
{
	for (; paths && *paths; paths++) {
		const char *path = relative(c, *paths);
		uint32_t node;

		if (!path)
			return -CORDON_E_PATH;
		if (!*path) {
			c->is_all_named |= !is_exclude;
			for (size_t i = 0; i < c->changes.n; i++) {
				if (is_exclude)
					c->items[i].is_excluded = true;
				else
					c->items[i].is_within = true;
			}
			continue;
		}
		node = find(index, path);
		if (node == WS_NO_NODE) {
			/* An unchanged path is left out already. */
			if (is_exclude)
				continue;
			return no_such_change(c, *paths);
		}
		if (is_exclude)
			c->items[node].is_excluded = true;
		else
			c->items[node].is_within = c->items[node].is_named = true;
	}
	return 0;
}

static int mark_paths(struct commit *c)
{
	struct node_index *index;
	int r;

	if (node_index_make(&c->changes, &index) < 0)
		return cordon_err(c->err, CORDON_E_NOMEM, ENOMEM, "commit");
	r = mark(c, index, c->options.paths, false);
	if (r == 0)
		r = mark(c, index, c->options.exclude, true);
	node_index_free(index);
	return r;
}

/* Both names of something renamed are one change. */
static void join_renames(struct commit *c)
{
	for (size_t i = 0; i < c->changes.n; i++) {
		uint32_t from = c->changes.v[i].from;
		struct commit_item *a = &c->items[i], *b;

		if (c->changes.v[i].kind != CORDON_CHANGE_RENAMED || from == WS_NO_NODE)
			continue;
		b = &c->items[from];
		b->partner = (uint32_t)i;
		a->is_within = b->is_within = a->is_within || b->is_within;
		a->is_excluded = b->is_excluded = a->is_excluded || b->is_excluded;
	}
}

static void select_each(struct commit *c)
{
	bool all = !c->options.paths || !c->options.paths[0];

	for (size_t i = 0; i < c->changes.n; i++) {
		const struct ws_node *node = &c->changes.v[i];
		struct commit_item *item = &c->items[i];

		if (node->parent != WS_NO_NODE) {
			item->is_within |= c->items[node->parent].is_within;
			item->is_excluded |= c->items[node->parent].is_excluded;
		}
	}
	join_renames(c);
	for (uint32_t i = 0; i < c->changes.n; i++) {
		const struct ws_node *node = &c->changes.v[i];
		struct commit_item *item = &c->items[i];

		if (!node->kind)
			continue;
		if (item->is_excluded || !(all || item->is_within))
			item->state = ITEM_SKIPPED;
		else if (commit_is_lost(c, i) || (is_refused_by_itself(node) && !item->is_named))
			item->state = ITEM_REFUSED;
		else
			item->state = ITEM_CHOSEN;
		/* An interrupted commit is finished with just these. */
		if (node->lost && item->state == ITEM_CHOSEN)
			item->is_named = true;
	}
}

/* A lock that a killed git left in the workspace would block git in the base. */
static bool is_git_lock(const struct commit *c, size_t i)
{
	const struct ws_node *node = &c->changes.v[i];

	return c->items[i].unit != WS_NO_NODE && node->parent == c->items[i].unit &&
	       (strcmp(node->name, "index.lock") == 0 || strcmp(node->name, "HEAD.lock") == 0);
}

/* Belongs to its unit, whatever the unit's fate is. What git obeys is not part of it. */
static bool is_member(const struct commit *c, size_t i)
{
	return c->changes.v[i].kind && c->items[i].unit != WS_NO_NODE &&
	       !is_refused_by_itself(&c->changes.v[i]) && !is_git_lock(c, i);
}

/* One state for all members: chosen if any of them is, and none was excluded. */
static int join_units(struct commit *c)
{
	uint8_t *fate = calloc(c->changes.n + 1, 1);

	if (!fate)
		return cordon_err(c->err, CORDON_E_NOMEM, ENOMEM, "commit");
	for (size_t i = 0; i < c->changes.n; i++) {
		uint8_t *unit =
			&fate[c->items[i].unit == WS_NO_NODE ? c->changes.n : c->items[i].unit];

		if (is_git_lock(c, i) && c->items[i].state == ITEM_CHOSEN)
			c->items[i].state = ITEM_SKIPPED;
		if (!is_member(c, i))
			continue;
		if (c->items[i].is_excluded)
			*unit = ITEM_SKIPPED;
		else if (!*unit && c->items[i].state == ITEM_CHOSEN)
			*unit = ITEM_CHOSEN;
	}
	for (size_t i = 0; i < c->changes.n; i++) {
		uint8_t *state = &c->items[i].state;

		if (!is_member(c, i))
			continue;
		if (fate[c->items[i].unit] == ITEM_CHOSEN)
			*state = ITEM_CHOSEN;
		else if (*state != ITEM_REFUSED || fate[c->items[i].unit] == ITEM_SKIPPED)
			*state = ITEM_SKIPPED;
	}
	free(fate);
	return 0;
}

/* Asks about one node, or a whole unit. 1, 0 or negative. */
static int ask(struct commit *c, uint32_t node)
{
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;
	struct cordon_change change;
	int r = -1;

	ws_node_change(&c->changes, node, &path, &from, &change);
	if (!change.kind) {
		change.kind = CORDON_CHANGE_MODIFIED;
		change.type = change.old_type = CORDON_FILE_DIRECTORY;
	}
	if (!path.failed && !from.failed)
		r = c->options.choose(c->options.arg, &change);
	strbuf_done(&path);
	strbuf_done(&from);
	return r;
}

static int choose(struct commit *c)
{
	uint8_t *answers; /* of units: 1 = no, 2 = yes */
	int r = 1;

	if (!c->options.choose)
		return 0;
	answers = calloc(c->changes.n + 1, 1);
	if (!answers)
		return cordon_err(c->err, CORDON_E_NOMEM, ENOMEM, "commit");
	for (uint32_t i = 0; i < c->changes.n && r >= 0; i++) {
		struct commit_item *item = &c->items[i];
		uint8_t *answer = is_member(c, i) ? &answers[item->unit] : &answers[c->changes.n];

		if (item->state != ITEM_CHOSEN ||
		    (!is_member(c, i) && !ws_node_is_listed(&c->changes, i)))
			continue;
		if (!is_member(c, i))
			*answer = 0;
		if (!*answer) {
			r = ask(c, is_member(c, i) ? item->unit : i);
			*answer = r > 0 ? 2 : 1;
		}
		if (*answer == 1)
			item->state = ITEM_SKIPPED;
	}
	free(answers);
	if (r < 0)
		return cordon_err(c->err, CORDON_E_STATE, ECANCELED,
				  "stopped; nothing was committed");
	return 0;
}

/* Adds what the selection implies: directories of what is chosen, and only those; both ends of
 * renames. */
static void close_selection(struct commit *c)
{
	for (size_t i = 0; i < c->changes.n; i++) {
		struct commit_item *item = &c->items[i];

		if (item->partner != WS_NO_NODE)
			item->state = c->items[item->partner].state;
		/* Not a change in its own right; what is below decides. */
		if (item->state == ITEM_CHOSEN && c->changes.v[i].kind == CORDON_CHANGE_ADDED &&
		    !ws_node_is_listed(&c->changes, (uint32_t)i) && i + 1 < c->changes.n &&
		    c->changes.v[i + 1].parent == i)
			item->state = ITEM_SKIPPED;
	}
	for (size_t i = c->changes.n; i-- > 0;) {
		const struct ws_node *node = &c->changes.v[i];
		const struct ws_node *dir;

		if (c->items[i].state != ITEM_CHOSEN || node->type == CORDON_FILE_NONE ||
		    node->parent == WS_NO_NODE)
			continue;
		dir = &c->changes.v[node->parent];
		if (dir->kind == CORDON_CHANGE_ADDED || dir->kind == CORDON_CHANGE_TYPE)
			c->items[node->parent].state = ITEM_CHOSEN;
	}
}

int commit_select(struct commit *c)
{
	int r = 0;

	if ((c->options.paths && c->options.paths[0]) ||
	    (c->options.exclude && c->options.exclude[0]))
		r = mark_paths(c);
	if (r < 0)
		return r;
	select_each(c);
	r = join_units(c);
	if (r == 0)
		r = choose(c);
	if (r == 0)
		close_selection(c);
	return r;
}

/* Whether the path that was given for node @i of the journal was given for what is there now: a run
 * may have made something else of it meanwhile. */
static int is_still_named(struct commit *c, size_t i, uint32_t now)
{
	const struct journal_named *was = &c->journal->named[i];
	struct journal_named is;
	int r;

	if (!(c->journal->flags[i] & JOURNAL_NAMED))
		return 0;
	r = journal_identify(c, now, &is);
	if (r < 0)
		return commit_fail(c, now, r, "cannot look at");
	return was->type == is.type && was->mode == is.mode && was->ino == is.ino &&
	       was->size == is.size && was->ctime_s == is.ctime_s && was->ctime_ns == is.ctime_ns;
}

int commit_select_resumed(struct commit *c)
{
	struct journal *journal = c->journal;
	struct node_index *index;
	int r = 0;

	if (node_index_make(&c->changes, &index) < 0)
		return cordon_err(c->err, CORDON_E_NOMEM, ENOMEM, "commit");
	for (size_t i = 0; i < c->changes.n; i++) {
		if (c->changes.v[i].kind)
			c->items[i].state = is_refused_kind(&c->changes.v[i]) ? ITEM_REFUSED
									      : ITEM_SKIPPED;
	}
	join_renames(c);
	for (size_t i = 0; i < journal->forest.n; i++) {
		const struct ws_node *node = &journal->forest.v[i];
		struct commit_item *item;
		uint32_t parent = node->parent, now;

		if (parent != WS_NO_NODE)
			parent = journal->now[parent];
		now = node->parent != WS_NO_NODE && parent == WS_NO_NODE
			      ? WS_NO_NODE
			      : node_index_child(index, parent, node->name, strlen(node->name));
		journal->now[i] = now;
		if (now == WS_NO_NODE)
			continue;
		item = &c->items[now];
		item->number = (uint32_t)i;
		item->in_journal = true;
		r = is_still_named(c, i, now);
		if (r < 0)
			break;
		item->is_named = r > 0;
		item->removes_first = (journal->flags[i] & JOURNAL_REMOVES) != 0;
		/* Another run may have made something else of it meanwhile. Directories come with
		 * what is in them. */
		if ((journal->flags[i] & JOURNAL_CHOSEN) && c->changes.v[now].kind &&
		    (item->is_named || c->changes.v[now].type == CORDON_FILE_DIRECTORY ||
		     !is_refused_kind(&c->changes.v[now])))
			item->state = ITEM_CHOSEN;
	}
	/* Renames that are paired today need not have been paired then. */
	for (size_t i = 0; i < c->changes.n; i++) {
		if (c->items[i].partner != WS_NO_NODE &&
		    c->items[c->items[i].partner].state != ITEM_CHOSEN)
			c->items[i].partner = WS_NO_NODE;
	}
	node_index_free(index);
	return r < 0 ? r : 0;
}

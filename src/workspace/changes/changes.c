/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/changes/changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "workspace/changes/collect.h"
#include "workspace/record/record.h"

/* How often collecting starts again if the tree is changed meanwhile. */
#define TRIES 5

void ws_changes_done(struct ws_changes *changes)
{
	arena_done(&changes->arena);
	free(changes->v);
	*changes = (struct ws_changes){ 0 };
}

static void find_home(struct ws_collect *c)
{
	const char *home = getenv("HOME");
	struct stat st;

	if (home && home[0] == '/' && stat(home, &st) == 0) {
		c->home_dev = st.st_dev;
		c->home_ino = st.st_ino;
	}
}

static void drop_frames(struct ws_collect *c)
{
	while (c->n > 0) {
		c->n--;
		names_done(&c->frames[c->n].up_names);
		names_done(&c->frames[c->n].lo_names);
	}
}

/* A repository on the way may obey files that the walk had passed already: then once more. */
static int walk_twice(struct ws_collect *c)
{
	size_t known = c->n_obeyed;
	int r = ws_walk(c);

	if (r < 0 || c->n_obeyed == known)
		return r;
	drop_frames(c);
	c->out->n = 0;
	return ws_walk(c);
}

static int collect_once(struct cordon_workspace *ws, struct ws_changes *ret)
{
	struct ws_collect c = {
		.out = ret,
		.up = CURSOR_INIT,
		.lo = CURSOR_INIT,
		.is_copy = !ws_is_overlay(ws),
		.created = ws->meta.created,
	};
	int fd = ws_open_content(ws), r = fd;

	find_home(&c);
	if (c.is_copy)
		c.begun = ws_copy_begun(ws);
	c.buf = malloc(WS_BUF_SIZE);
	if (r >= 0)
		r = c.buf ? cursor_start(&c.up, fd, true) : -ENOMEM;
	if (fd >= 0)
		close(fd);
	if (r == 0)
		r = cursor_start(&c.lo, ws->base_fd, false);
	/* Without records only times tell. */
	if (r == 0 && c.is_copy && ws_records_load(ws, &c.records, NULL) < 0)
		c.records = NULL;
	if (r == 0)
		r = ws_find_obeyed(&c, ws->meta.base);
	if (r == 0)
		r = walk_twice(&c);
	if (r == 0)
		r = ws_hold_lost(ret);
	ws_records_free(c.records);
	drop_frames(&c);
	free(c.frames);
	free(c.obeyed);
	free(c.buf);
	cursor_done(&c.up);
	cursor_done(&c.lo);
	return r;
}

int ws_collect(struct cordon_workspace *ws, struct ws_changes *ret, struct cordon_error *err)
{
	int r = 0;

	*ret = (struct ws_changes){ 0 };
	if (ws->base_fd < 0)
		r = ws_open_base(ws, err);
	if (r < 0)
		return r;
	for (int i = 0; i < TRIES; i++) {
		r = collect_once(ws, ret);
		if (r == 0)
			r = ws_find_renames(ws, ret);
		if (r == 0)
			return 0;
		ws_changes_done(ret);
		if (r != -ESTALE)
			break;
	}
	if (r == -ENOMEM)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (r == -E2BIG)
		return cordon_err(err, CORDON_E_STATE, 0,
				  "workspace %s has more changes than can be looked at",
				  ws->meta.id);
	return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot compare workspace %s with %s",
			  ws->meta.id, ws->meta.base);
}

void ws_node_path(const struct ws_changes *changes, uint32_t node, struct strbuf *sb)
{
	size_t len = 0, at;

	for (uint32_t i = node; i != WS_NO_NODE; i = changes->v[i].parent)
		len += strlen(changes->v[i].name) + 1;
	sb->len = 0;
	/* Room first: it is filled from the end. */
	for (at = 0; at < len; at += 64)
		strbuf_add(sb, "                                                                ",
			   len - at < 64 ? len - at : 64);
	if (sb->failed || len == 0)
		return;
	at = len - 1;
	sb->data[at] = '\0';
	sb->len = at;
	for (uint32_t i = node; i != WS_NO_NODE; i = changes->v[i].parent) {
		size_t n = strlen(changes->v[i].name);

		at -= n;
		memcpy(sb->data + at, changes->v[i].name, n);
		if (at > 0)
			sb->data[--at] = '/';
	}
}

static bool has_children(const struct ws_changes *changes, uint32_t node)
{
	return (size_t)node + 1 < changes->n && changes->v[node + 1].parent == node;
}

bool ws_node_is_listed(const struct ws_changes *changes, uint32_t node)
{
	const struct ws_node *n = &changes->v[node];

	if (n->kind == 0 || n->is_renamed_away)
		return false;
	if (n->kind == CORDON_CHANGE_ADDED && n->type == CORDON_FILE_DIRECTORY)
		return !has_children(changes, node);
	if (n->kind == CORDON_CHANGE_DELETED && n->old_type == CORDON_FILE_DIRECTORY)
		return !has_children(changes, node);
	return true;
}

void ws_node_change(const struct ws_changes *changes, uint32_t node, struct strbuf *path,
		    struct strbuf *from, struct cordon_change *ret)
{
	const struct ws_node *n = &changes->v[node];

	ws_node_path(changes, node, path);
	*ret = (struct cordon_change){
		.path = path->data,
		.kind = n->kind,
		.type = n->type,
		.old_type = n->old_type,
		.mode = n->mode,
		.old_mode = n->old_mode,
		.size = n->size,
		.old_size = n->old_size,
		.target = n->target,
		.old_target = n->old_target,
		.risks = n->risks,
		.in_git = n->in_git,
		.is_listed = ws_node_is_listed(changes, node),
		.lost = n->lost ? n->lost->path : NULL,
	};
	if (n->from != WS_NO_NODE) {
		ws_node_path(changes, n->from, from);
		ret->from = from->data;
	}
}

void ws_summarise(const struct ws_changes *changes, struct cordon_summary *ret)
{
	*ret = (struct cordon_summary){ 0 };
	for (uint32_t i = 0; i < changes->n; i++) {
		const struct ws_node *n = &changes->v[i];
		uint64_t *counters[CORDON_CHANGE_MAX] = {
			[CORDON_CHANGE_ADDED] = &ret->added,
			[CORDON_CHANGE_MODIFIED] = &ret->modified,
			[CORDON_CHANGE_DELETED] = &ret->deleted,
			[CORDON_CHANGE_RENAMED] = &ret->renamed,
			[CORDON_CHANGE_MODE] = &ret->mode,
			[CORDON_CHANGE_SYMLINK] = &ret->symlink,
			[CORDON_CHANGE_TYPE] = &ret->type,
		};

		if (!ws_node_is_listed(changes, i))
			continue;
		(*counters[n->kind])++;
		ret->risky += n->risks != 0;
		ret->refused += (n->risks & CORDON_RISK_REFUSED) != 0;
	}
}

int cordon_workspace_changes(struct cordon_workspace *ws,
			     int (*fn)(void *arg, const struct cordon_change *change), void *arg,
			     struct cordon_error *err)
{
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;
	struct ws_changes changes;
	int r = ws_collect(ws, &changes, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; r == 0 && i < changes.n; i++) {
		struct cordon_change change;

		if (changes.v[i].kind == 0 || changes.v[i].is_renamed_away)
			continue;
		ws_node_change(&changes, i, &path, &from, &change);
		if (path.failed || from.failed)
			r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
		else if (fn(arg, &change) != 0)
			break;
	}
	strbuf_done(&path);
	strbuf_done(&from);
	ws_changes_done(&changes);
	return r;
}

int cordon_workspace_summary(struct cordon_workspace *ws, struct cordon_summary *ret,
			     struct cordon_error *err)
{
	struct ws_changes changes;
	int r = ws_collect(ws, &changes, err);

	if (r < 0)
		return r;
	ws_summarise(&changes, ret);
	ws_changes_done(&changes);
	return 0;
}

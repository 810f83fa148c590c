/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a run: records the base wherever something changed.
 *
 * One record stands for everything below a path that was added, deleted or changed its type. Below
 * a deleted directory only times tell later whether something changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "workspace/changes/collect.h"
#include "workspace/changes/walker.h"
#include "workspace/record/record.h"

#define HASH_BYTES_MAX ((uint64_t)256 << 20)
#define STALE_MAX 10000

struct settle {
	struct cordon_workspace *ws;
	const struct ws_changes *changes;
	struct ws_records *records;
	struct walker base;
	struct timespec seen;
	uint64_t hashed;
	uint32_t *record_of; /* of each change: its record, or WS_NO_RECORD */
	bool *is_below;	     /* of each change: a record above it stands for it */
	bool *is_met;	     /* of each record: there is a change */
	size_t n_met;
};

static bool is_whole(const struct ws_node *n)
{
	return n->kind == CORDON_CHANGE_ADDED || n->kind == CORDON_CHANGE_DELETED ||
	       n->kind == CORDON_CHANGE_TYPE;
}

static void hash_content(struct settle *s, const char *name, struct ws_record *r)
{
	struct stat st;
	int fd;

	if (r->size > HASH_BYTES_MAX - s->hashed)
		return;
	fd = cursor_open_file(&s->base.c, name, &st);
	if (fd < 0)
		return;
	/* Unless it was replaced meanwhile. */
	if (st.st_ino == r->ino && (uint64_t)st.st_size == r->size &&
	    ws_hash_file(fd, &r->hash) == 0) {
		r->has_hash = true;
		s->hashed += r->size;
	}
	close(fd);
}

/* A directory's times change with its entries; then both at once. */
static bool is_only_entries(const struct stat *st)
{
	return S_ISDIR(st->st_mode) && ws_is_same_time(&st->st_mtim, &st->st_ctim);
}

static int fill(struct settle *s, uint32_t node, struct ws_record *r)
{
	const struct ws_node *n = &s->changes->v[node];
	struct stat st;
	int e;

	r->is_live = true;
	r->is_whole = is_whole(n);
	r->is_uncertain = r->has_hash = false;
	r->type = CORDON_FILE_NONE;
	r->seen = s->seen;
	s->records->is_changed = true;
	if (n->old_type == CORDON_FILE_NONE || n->kind == CORDON_CHANGE_RENAMED)
		return 0;
	e = walker_go_to_file(&s->base, node);
	if (e == -ENOMEM)
		return e;
	if (e < 0 || fstatat(s->base.c.fd, n->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		/* It was there a moment ago. */
		r->is_uncertain = true;
		return 0;
	}
	r->type = (uint8_t)ws_file_type(st.st_mode);
	r->mode = st.st_mode & 07777;
	r->size = (uint64_t)st.st_size;
	r->ino = st.st_ino;
	r->mtime = st.st_mtim;
	r->ctime = st.st_ctim;
	r->is_uncertain = !ws_is_before(&st.st_ctim, &s->seen) && !is_only_entries(&st);
	if (S_ISREG(st.st_mode) && !r->is_uncertain)
		hash_content(s, n->name, r);
	else if (S_ISLNK(st.st_mode))
		r->has_hash = ws_hash_link(s->base.c.fd, n->name, &r->hash) == 0;
	return 0;
}

static int record_change(struct settle *s, uint32_t node)
{
	const struct ws_node *n = &s->changes->v[node];
	uint32_t up = n->parent == WS_NO_NODE ? WS_NO_RECORD : s->record_of[n->parent], at;
	bool has_parent = n->parent == WS_NO_NODE || up != WS_NO_RECORD;

	s->record_of[node] = WS_NO_RECORD;
	s->is_below[node] = n->parent != WS_NO_NODE &&
			    (s->is_below[n->parent] || is_whole(&s->changes->v[n->parent]));
	if (!has_parent)
		return 0;
	at = ws_records_child(s->records, up, n->name, strlen(n->name));
	if (at == WS_NO_RECORD && !s->is_below[node])
		at = ws_records_make(s->records, up, n->name, strlen(n->name));
	/* Too many records: only times tell then. */
	s->record_of[node] = at;
	if (at == WS_NO_RECORD)
		return 0;
	if (at < s->n_met)
		s->is_met[at] = true;
	if (n->kind == 0 || s->is_below[node] || s->records->v[at].is_live)
		return 0;
	return fill(s, node, &s->records->v[at]);
}

static void record_path(const struct ws_records *records, uint32_t at, struct strbuf *sb)
{
	struct strbuf rest = STRBUF_INIT;

	sb->len = 0;
	strbuf_puts(sb, records->v[at].name);
	while ((at = records->v[at].parent) != WS_NO_RECORD) {
		rest.len = 0;
		strbuf_puts(&rest, records->v[at].name);
		strbuf_putc(&rest, '/');
		strbuf_add(&rest, sb->data, sb->len);
		sb->len = 0;
		strbuf_add(sb, rest.data, rest.len);
		sb->failed |= rest.failed;
	}
	strbuf_done(&rest);
}

/* Whether the upper directory has anything at the path of a record. In doubt: true. */
static bool is_in_upper(struct cursor *c, char *path)
{
	char *name = strrchr(path, '/');
	struct stat st;
	int r = 0;

	if (name) {
		*name++ = '\0';
		r = cursor_goto(c, path);
	} else {
		name = path;
		r = cursor_goto(c, "");
	}
	if (r == 0)
		r = fstatat(c->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	return r != -ENOENT && r != -ENOTDIR && r != -ELOOP;
}

/* A change that a later run took back: the next run saw the base's version. */
static int drop_stale(struct settle *s)
{
	struct strbuf path = STRBUF_INIT;
	struct cursor c = CURSOR_INIT;
	size_t n_looked = 0;
	int fd, r;

	if (!ws_is_overlay(s->ws))
		return 0; /* a copy never shows the base */
	fd = ws_open_content(s->ws);
	r = fd < 0 ? fd : cursor_start(&c, fd, true);
	for (uint32_t i = 0; r == 0 && i < s->n_met && n_looked < STALE_MAX; i++) {
		struct ws_record *record = &s->records->v[i];

		if (!record->is_live || s->is_met[i])
			continue;
		n_looked++;
		record_path(s->records, i, &path);
		if (path.failed)
			r = -ENOMEM;
		else if (!is_in_upper(&c, path.data)) {
			record->is_live = false;
			s->records->is_changed = true;
		}
	}
	cursor_done(&c);
	if (fd >= 0)
		close(fd);
	strbuf_done(&path);
	return r;
}

static int record_all(struct cordon_workspace *ws, const struct ws_changes *changes,
		      struct ws_records *records)
{
	bool is_copy = !ws_is_overlay(ws);
	struct settle s = {
		.ws = ws,
		.changes = changes,
		.records = records,
		.base = WALKER_INIT,
		/* An overlay shows the base as it is during the run, a copy as it was. */
		.seen = is_copy ? ws_copy_begun(ws) : ws_seen(ws),
		.record_of = calloc(changes->n + 1, sizeof(*s.record_of)),
		.is_below = calloc(changes->n + 1, sizeof(*s.is_below)),
		.is_met = calloc(records->n + 1, sizeof(*s.is_met)),
		.n_met = records->n,
	};
	int r = s.record_of && s.is_below && s.is_met ? 0 : -ENOMEM;

	if (s.seen.tv_sec == 0 && s.seen.tv_nsec == 0)
		s.seen = ws->meta.run_started;
	if (r == 0)
		r = walker_start(&s.base, changes, ws->base_fd, false);
	for (uint32_t i = 0; r == 0 && i < changes->n; i++)
		r = record_change(&s, i);
	if (r == 0)
		r = drop_stale(&s);
	walker_done(&s.base);
	free(s.record_of);
	free(s.is_below);
	free(s.is_met);
	return r;
}

static int settle_records(struct cordon_workspace *ws, const struct ws_changes *changes,
			  struct cordon_error *err)
{
	struct ws_records *records;
	int r = ws_records_load(ws, &records, err);

	if (r < 0)
		return r;
	r = record_all(ws, changes, records);
	if (r < 0)
		r = cordon_err(err, r == -ENOMEM ? CORDON_E_NOMEM : CORDON_E_SYSTEM, -r,
			       "cannot write down what %s is like", ws->meta.base);
	else
		r = ws_records_save(ws, records, err);
	ws_records_free(records);
	if (r < 0)
		return r;
	ws->meta.is_dirty = false;
	return ws_save_run(ws, err);
}

int ws_settle(struct cordon_workspace *ws, struct cordon_summary *ret, struct ws_changes *changes,
	      struct cordon_error *err)
{
	struct ws_changes own;
	int r = ws_collect(ws, &own, err);

	if (r < 0)
		return r;
	if (ws->meta.is_dirty)
		r = settle_records(ws, &own, err);
	if (r == 0 && ret)
		ws_summarise(&own, ret);
	if (r == 0 && changes)
		*changes = own;
	else
		ws_changes_done(&own);
	return r;
}

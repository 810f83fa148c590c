/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes what was applied from the workspace: files and whiteouts from the upper directory, then
 * directories that are empty, and the mark "opaque" where it hides nothing any more. A directory
 * that is not empty stays as it is: what equals the base is no change. A copy keeps everything for
 * the same reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sys/calls.h"
#include "workspace/commit/commit.h"

#define OPAQUE "user.overlay.opaque"

struct clearing {
	struct commit *c;
	const struct ws_changes *forest; /* of the changes, or of the journal that was resumed */
	struct walker upper, base;
	uint8_t *marks; /* MARK_*, for each of the forest */
	bool *hides;	/* for each of the changes: something of the base below stays hidden */
};

#define MARK_GOES 0x1u	 /* is in the base now */
#define MARK_ON_WAY 0x2u /* something below it is */
#define MARK_OPAQUE 0x4u /* stays opaque, or is below something that does */

static uint32_t now(const struct clearing *s, size_t i)
{
	return s->c->journal ? s->c->journal->now[i] : (uint32_t)i;
}

static bool is_done(const struct commit *c, uint32_t node)
{
	return c->items[node].state == ITEM_APPLIED || c->items[node].state == ITEM_DONE;
}

/* What the journal has and the changes lack was applied before, and is the same in both. */
static bool goes(const struct clearing *s, size_t i)
{
	uint32_t node = now(s, i);

	if (s->c->journal && !(s->c->journal->flags[i] & JOURNAL_CHOSEN))
		return false;
	return node == WS_NO_NODE || is_done(s->c, node);
}

static void mark(struct clearing *s)
{
	const struct commit *c = s->c;

	for (size_t i = c->changes.n; i-- > 0;) {
		const struct ws_node *node = &c->changes.v[i];

		if (node->type == CORDON_FILE_NONE && node->kind && !is_done(c, (uint32_t)i))
			s->hides[i] = true;
		if (s->hides[i] && node->parent != WS_NO_NODE)
			s->hides[node->parent] = true;
	}
	for (size_t i = s->forest->n; i-- > 0;) {
		uint32_t parent = s->forest->v[i].parent;

		if (goes(s, i))
			s->marks[i] |= MARK_GOES;
		if (s->marks[i] && parent != WS_NO_NODE)
			s->marks[parent] |= MARK_ON_WAY;
	}
}

/* Before its content: removing a file from an opaque directory would hide the base's. */
static int clear_opaque(struct clearing *s, uint32_t i)
{
	uint32_t parent = s->forest->v[i].parent, node = now(s, i);
	char value[2];
	int fd, r;

	if (parent != WS_NO_NODE && (s->marks[parent] & MARK_OPAQUE)) {
		s->marks[i] |= MARK_OPAQUE;
		return 0;
	}
	if (!(s->marks[i] & MARK_ON_WAY))
		return 0;
	r = walker_go(&s->upper, i);
	if (r < 0)
		return r;
	fd = walker_fd(&s->upper);
	if (fd < 0 || fgetxattr(fd, OPAQUE, value, sizeof(value)) != 1 || value[0] != 'y')
		return 0;
	if (node != WS_NO_NODE && s->hides[node]) {
		s->marks[i] |= MARK_OPAQUE;
		return 0;
	}
	return sys_fremovexattr(fd, OPAQUE);
}

/* Whether it exists only for what is below it. */
static bool is_bare_dir(const struct clearing *s, uint32_t i)
{
	uint32_t node = now(s, i);

	return (s->marks[i] & MARK_ON_WAY) && (node == WS_NO_NODE || !s->c->changes.v[node].kind);
}

static int clear_node(struct clearing *s, uint32_t i)
{
	uint32_t parent = s->forest->v[i].parent;
	const char *name = s->forest->v[i].name;
	struct stat st;
	int fd, r;

	if ((!(s->marks[i] & MARK_GOES) && !is_bare_dir(s, i)) || (s->marks[i] & MARK_OPAQUE) ||
	    (parent != WS_NO_NODE && (s->marks[parent] & MARK_OPAQUE)))
		return 0;
	r = walker_go(&s->upper, parent);
	if (r < 0)
		return r;
	fd = walker_fd(&s->upper);
	if (fd < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return s->marks[i] & MARK_GOES ? sys_unlinkat(fd, name, 0) : 0;
	r = sys_unlinkat(fd, name, AT_REMOVEDIR);
	return r == -ENOTEMPTY || r == -EEXIST ? 0 : r;
}

static int clear_upper(struct clearing *s)
{
	struct stat st;
	int r;

	if (fstat(s->c->content_fd, &st) < 0)
		return -errno;
	/* The root has the mode of the base, which may be closed to us. */
	if ((st.st_mode & 0700) != 0700 &&
	    fchmod(s->c->content_fd, (st.st_mode & 07777) | 0700) < 0)
		return -errno;
	s->upper.need = 0700;
	r = walker_start(&s->upper, s->forest, s->c->content_fd, true);
	for (uint32_t i = 0; i < s->forest->n && r == 0; i++)
		r = clear_opaque(s, i);
	for (uint32_t i = (uint32_t)s->forest->n; i-- > 0 && r == 0;)
		r = clear_node(s, i);
	walker_done(&s->upper);
	if ((st.st_mode & 0700) != 0700 && fchmod(s->c->content_fd, st.st_mode & 07777) < 0 &&
	    r == 0)
		r = -errno;
	return r;
}

/* An overlay shows the base again. A copy keeps its version, which the base has now, too. */
static int drop_record(struct clearing *s, uint32_t i, const char *path)
{
	const struct ws_node *n = &s->forest->v[i];
	struct stat st;
	int r;

	if (!ws_is_overlay(s->c->ws) && n->type != CORDON_FILE_NONE) {
		r = walker_go(&s->base, n->parent);
		if (r == -ENOMEM)
			return r;
		/* A directory may be closed to us by what was just committed: then times tell. */
		if (r == 0 && walker_fd(&s->base) >= 0 &&
		    fstatat(walker_fd(&s->base), n->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			ws_records_keep(s->c->records, path, &st);
			return 0;
		}
	}
	ws_records_drop(s->c->records, path);
	return 0;
}

static int drop_records(struct clearing *s)
{
	struct strbuf path = STRBUF_INIT;
	int r = walker_start(&s->base, s->forest, s->c->ws->base_fd, false);

	for (uint32_t i = 0; i < s->forest->n && r == 0; i++) {
		if (!(s->marks[i] & MARK_GOES))
			continue;
		ws_node_path(s->forest, i, &path);
		r = path.failed ? -ENOMEM : drop_record(s, i, path.data);
	}
	walker_done(&s->base);
	strbuf_done(&path);
	return r;
}

int commit_clear_applied(struct commit *c)
{
	struct clearing s = {
		.c = c,
		.forest = c->journal ? &c->journal->forest : &c->changes,
		.upper = WALKER_INIT,
		.base = WALKER_INIT,
	};
	int r = 0;

	s.marks = calloc(s.forest->n + 1, 1);
	s.hides = calloc(c->changes.n + 1, sizeof(*s.hides));
	if (!s.marks || !s.hides) {
		r = -ENOMEM;
	} else {
		mark(&s);
		if (ws_is_overlay(c->ws))
			r = clear_upper(&s);
		if (r == 0)
			r = drop_records(&s);
	}
	free(s.marks);
	free(s.hides);
	if (r < 0)
		return commit_fail(c, WS_NO_NODE, r,
				   "everything is in place, but the workspace cannot be tidied up");
	return ws_records_save(c->ws, c->records, c->err);
}

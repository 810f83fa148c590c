/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories of the base whose history a commit would take away.
 *
 * Git itself never removes HEAD, objects, objects/pack, refs, refs/heads, reftable or packed-refs,
 * and never puts another directory in the place of one. Whatever else disappears in a repository
 * (loose objects, packs, branches, the directories of work trees) may be the work of `git gc` and
 * the like, as long as some object is left. So these few are looked at. If one of them was
 * removed or replaced, everything in that repository must be asked for by its name.
 *
 * A directory was replaced if it is opaque in the overlay. In a copy, if it was born after the copy
 * was made and after the base's directory, and something of the base's is gone: a commit from this
 * very workspace may have brought its content to the base before. Where births are not known, the
 * objects tell: if none of the base's is left, the repository counts as another one, even if
 * `git gc` was at work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "workspace/changes/collect.h"
#include "workspace/tree/birth_time.h"

static bool base_has(const struct ws_collect *c, const char *name)
{
	struct stat st;

	return fstatat(c->lo.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_repository(const struct ws_collect *c, const char *name)
{
	if (name && strcmp(name, ".git") == 0)
		return base_has(c, "HEAD") || base_has(c, "objects");
	return base_has(c, "HEAD") && base_has(c, "objects") && base_has(c, "refs");
}

static bool is_loose_directory(const char *name)
{
	return strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2;
}

static uint8_t part_of(const struct ws_collect *c, uint8_t above, const char *name)
{
	static const struct {
		uint8_t above;
		const char *name;
		uint8_t part;
	} parts[] = {
		{ WS_PART_REPOSITORY, "objects", WS_PART_OBJECTS },
		{ WS_PART_REPOSITORY, "refs", WS_PART_REFS },
		{ WS_PART_REPOSITORY, "reftable", WS_PART_BRANCHES },
		{ WS_PART_OBJECTS, "pack", WS_PART_PACK },
		{ WS_PART_REFS, "heads", WS_PART_BRANCHES },
	};

	for (size_t i = 0; name && i < ARRAY_SIZE(parts); i++) {
		if (parts[i].above == above && strcmp(parts[i].name, name) == 0)
			return parts[i].part;
	}
	if (above == WS_PART_OBJECTS && name && is_loose_directory(name))
		return WS_PART_LOOSE;
	return is_repository(c, name) ? WS_PART_REPOSITORY : WS_PART_NONE;
}

/* Whether births tell if a directory of a copy is the one that was copied. */
static bool knows_births(const struct ws_collect *c, struct timespec *ret_up,
			 struct timespec *ret_lo)
{
	return (c->created.tv_sec != 0 || c->created.tv_nsec != 0) &&
	       birth_time(c->up.fd, ret_up) && birth_time(c->lo.fd, ret_lo);
}

/* Copies: the guest made this directory. */
static bool is_young(const struct ws_collect *c, const struct ws_frame *f)
{
	struct timespec up, lo;

	return c->is_copy && f->in_up && knows_births(c, &up, &lo) &&
	       !ws_is_before(&up, &c->created) && ws_is_before(&lo, &up);
}

void ws_lost_enter(struct ws_collect *c, const struct ws_frame *above, const char *name,
		   struct ws_frame *f)
{
	struct ws_node *node = f->node == WS_NO_NODE ? NULL : &c->out->v[f->node];

	if (!f->in_lo)
		return;
	f->part = part_of(c, above ? above->part : WS_PART_NONE, name);
	if (f->part == WS_PART_OBJECTS)
		f->objects = c->n - 1;
	else if (above && (f->part == WS_PART_PACK || f->part == WS_PART_LOOSE))
		f->objects = above->objects;
	if (f->part == WS_PART_REPOSITORY) {
		if (node)
			node->is_repository = true;
		else
			c->out->is_repository = true;
	}
	if (!node || f->part == WS_PART_NONE || f->part == WS_PART_LOOSE)
		return;
	node->is_lost = !f->in_up || f->hides_lo;
	f->is_young = is_young(c, f);
}

static bool is_object(uint8_t part, const char *name)
{
	size_t len = strlen(name);

	if (part == WS_PART_PACK)
		return len > 5 && strcmp(name + len - 5, ".pack") == 0;
	return part == WS_PART_LOOSE && strspn(name, "0123456789abcdef") == len;
}

void ws_lost_visit(struct ws_collect *c, const struct ws_frame *f, struct ws_node *node)
{
	if (f->part == WS_PART_REPOSITORY) {
		node->is_lost =
			(node->kind == CORDON_CHANGE_DELETED || node->kind == CORDON_CHANGE_TYPE) &&
			(strcmp(node->name, "HEAD") == 0 || strcmp(node->name, "packed-refs") == 0);
	} else if (is_object(f->part, node->name)) {
		c->frames[f->objects].n_gone += node->kind == CORDON_CHANGE_DELETED;
		c->frames[f->objects].n_new += node->kind == CORDON_CHANGE_ADDED;
	}
}

/* How many objects and packs the base's directory @name has. 0 or -errno. */
static int count_in(struct ws_collect *c, const char *name, uint8_t part, uint64_t *ret)
{
	struct names names = { 0 };
	int r = cursor_down(&c->lo, name);

	/* What the base does not have does not count. */
	if (r < 0)
		return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r : 0;
	r = names_read(c->lo.fd, &names);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		*ret += is_object(part, names.v[i]);
	names_done(&names);
	if (r != -ENOMEM)
		r = 0;
	return r < 0 ? r : cursor_up(&c->lo);
}

static int count_objects(struct ws_collect *c, uint64_t *ret)
{
	struct names names = { 0 };
	int r = names_read(c->lo.fd, &names);

	*ret = 0;
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		uint8_t part = part_of(c, WS_PART_OBJECTS, names.v[i]);

		if (part == WS_PART_PACK || part == WS_PART_LOOSE)
			r = count_in(c, names.v[i], part, ret);
	}
	names_done(&names);
	return r == -ENOENT || r == -EACCES ? 0 : r;
}

/* Whether something of the base's is gone from a directory that the guest made. */
static bool lacks(const struct ws_collect *c, const struct ws_frame *f)
{
	if (f->part == WS_PART_PACK)
		return c->frames[f->objects].n_gone > 0;
	if (f->part == WS_PART_REPOSITORY || f->part == WS_PART_OBJECTS)
		return f->n_gone > 0;
	for (size_t i = (size_t)f->node + 1; i < c->out->n; i++) {
		if (c->out->v[i].kind == CORDON_CHANGE_DELETED)
			return true;
	}
	return false;
}

int ws_lost_leave(struct ws_collect *c, const struct ws_frame *f)
{
	struct timespec up, lo;
	uint64_t n;
	int r;

	if (f->is_young && lacks(c, f))
		c->out->v[f->node].is_lost = true;
	if (f->part != WS_PART_OBJECTS || f->n_gone == 0)
		return 0;
	/* The repository's own directory is the one above. */
	c->frames[c->n - 2].n_gone = f->n_gone;
	if (c->out->v[f->node].is_lost)
		return 0;
	/* New ones may hold what the old ones did. */
	if (f->n_new > 0 && (!c->is_copy || knows_births(c, &up, &lo)))
		return 0;
	r = count_objects(c, &n);
	if (r == 0 && f->n_gone >= n)
		c->out->v[f->node].is_lost = true;
	return r;
}

/* The outermost repository that each node is in, WS_NO_NODE = none. The base itself, if it is one,
 * is the number of nodes. */
static void find_units(const struct ws_changes *changes, uint32_t *unit)
{
	for (uint32_t i = 0; i < changes->n; i++) {
		const struct ws_node *n = &changes->v[i];

		unit[i] = n->parent == WS_NO_NODE ? WS_NO_NODE : unit[n->parent];
		if (changes->is_repository)
			unit[i] = (uint32_t)changes->n;
		else if (unit[i] == WS_NO_NODE &&
			 (n->is_repository || strcmp(n->name, ".git") == 0))
			unit[i] = i;
	}
}

static struct ws_lost *make_lost(struct ws_changes *changes, uint32_t what, uint32_t unit)
{
	struct ws_lost *lost = arena_alloc(&changes->arena, sizeof(*lost));
	struct strbuf sb = STRBUF_INIT;

	if (!lost)
		return NULL;
	ws_node_path(changes, what, &sb);
	lost->what = sb.failed ? NULL : arena_strdup(&changes->arena, sb.data);
	lost->unit = unit;
	lost->path = ".";
	if (unit == changes->n) {
		lost->unit = WS_NO_NODE;
	} else {
		ws_node_path(changes, unit, &sb);
		lost->path = sb.failed ? NULL : arena_strdup(&changes->arena, sb.data);
	}
	strbuf_done(&sb);
	return lost->what && lost->path ? lost : NULL;
}

/* Everything in a repository waits together for what was lost of it. */
static void hold(struct ws_node *n, const struct ws_lost *lost)
{
	n->lost = lost;
	/* What is gone is not there to be obeyed. */
	n->is_risky_itself = n->kind != CORDON_CHANGE_DELETED &&
			     (n->risks & CORDON_RISK_REFUSED) != 0;
	if (n->kind)
		n->risks |= CORDON_RISK_PROTECTED;
}

int ws_hold_lost(struct ws_changes *changes)
{
	const struct ws_lost **lost;
	uint32_t *unit;
	bool has_any = false;
	int r = 0;

	for (size_t i = 0; i < changes->n && !has_any; i++)
		has_any = changes->v[i].is_lost;
	if (!has_any)
		return 0;
	unit = calloc(changes->n, sizeof(*unit));
	lost = calloc(changes->n + 1, sizeof(*lost));
	if (!unit || !lost)
		r = -ENOMEM;
	else
		find_units(changes, unit);
	for (uint32_t i = 0; i < changes->n && r == 0; i++) {
		if (!changes->v[i].is_lost || lost[unit[i]])
			continue;
		lost[unit[i]] = make_lost(changes, i, unit[i]);
		if (!lost[unit[i]])
			r = -ENOMEM;
	}
	for (size_t i = 0; i < changes->n && r == 0; i++) {
		if (unit[i] != WS_NO_NODE && lost[unit[i]])
			hold(&changes->v[i], lost[unit[i]]);
	}
	free(unit);
	free(lost);
	return r;
}

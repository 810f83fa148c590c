/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk through workspace and base, side by side.
 *
 * With an overlay only the names in the upper directory are followed. The base is asked about
 * those, and listed only where all of it matters: below what was deleted, or in a directory that
 * replaced another ("opaque"). With a copy both sides are listed.
 *
 * A failure on the base's side counts as "does not exist", because the user may be changing the
 * base. On the workspace's side it is an error, unless the name has just disappeared.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "workspace/changes/collect.h"
#include "workspace/record/record.h"

#define OPAQUE "user.overlay.opaque"
#define WHITEOUT "user.overlay.whiteout"

static struct ws_frame *push_frame(struct ws_collect *c)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 16;
		struct ws_frame *frames = reallocarray(c->frames, cap, sizeof(*frames));

		if (!frames)
			return NULL;
		c->frames = frames;
		c->cap = cap;
	}
	c->frames[c->n] = (struct ws_frame){ .node = WS_NO_NODE };
	return &c->frames[c->n++];
}

static struct ws_node *push_node(struct ws_changes *out)
{
	if (out->n == out->cap) {
		size_t cap = out->cap ? out->cap * 2 : 64;
		struct ws_node *v;

		if (out->n >= WS_CHANGES_MAX)
			return NULL;
		v = reallocarray(out->v, cap, sizeof(*v));
		if (!v)
			return NULL;
		out->v = v;
		out->cap = cap;
	}
	out->v[out->n] = (struct ws_node){ .from = WS_NO_NODE, .parent = WS_NO_NODE };
	return &out->v[out->n++];
}

static int read_target(struct ws_collect *c, int dir_fd, const char *name, const char **ret)
{
	/* Gone or changed meanwhile: as if it led nowhere. */
	if (ws_read_link(dir_fd, name, c->buf, WS_BUF_SIZE) < 0)
		c->buf[0] = '\0';
	*ret = arena_strdup(&c->out->arena, c->buf);
	return *ret ? 0 : -ENOMEM;
}

static int fill_node(struct ws_collect *c, const struct ws_frame *f, const struct ws_entry *e,
		     struct ws_node *node)
{
	int r = 0;

	node->name = arena_strdup(&c->out->arena, e->name);
	if (!node->name)
		return -ENOMEM;
	if (e->has_up) {
		node->type = (uint8_t)ws_file_type(e->up.st_mode);
		node->mode = e->up.st_mode & 07777;
		if (S_ISREG(e->up.st_mode))
			node->size = (uint64_t)e->up.st_size;
		if (S_ISLNK(e->up.st_mode))
			r = read_target(c, c->up.fd, e->name, &node->target);
	}
	if (r == 0 && e->has_lo) {
		node->old_type = (uint8_t)ws_file_type(e->lo.st_mode);
		node->old_mode = e->lo.st_mode & 07777;
		if (S_ISREG(e->lo.st_mode))
			node->old_size = (uint64_t)e->lo.st_size;
		if (S_ISLNK(e->lo.st_mode))
			r = read_target(c, c->lo.fd, e->name, &node->old_target);
	}
	node->in_git = f->autorun.in_git || autorun_is_git(e->name);
	node->is_obeyed = (f->in_lo && ws_is_obeyed(c, e->name)) || !ws_is_git_allowed(c, f, e);
	return r;
}

/* A node's risks, when its kind is known. @f: the directory that holds it. */
static void set_risks(const struct ws_frame *f, size_t depth, struct ws_node *node, bool has_power)
{
	node->risks = has_power ? CORDON_RISK_ATTRIBUTE : 0;
	node->risks = (uint16_t)ws_risks(&f->autorun, depth, node->name, node);
	if (f->has_bad_name)
		node->risks |= CORDON_RISK_NAME;
}

/* The next name of either list; *ret says which have it. */
static const char *next_name(struct ws_frame *f, bool *ret_up, bool *ret_lo)
{
	const char *up = f->i_up < f->up_names.n ? f->up_names.v[f->i_up] : NULL;
	const char *lo = f->i_lo < f->lo_names.n ? f->lo_names.v[f->i_lo] : NULL;
	int order = up && lo ? strcmp(up, lo) : up ? -1 : 1;

	if (!up && !lo)
		return NULL;
	*ret_up = order <= 0;
	*ret_lo = order >= 0;
	f->i_up += *ret_up;
	f->i_lo += *ret_lo;
	return *ret_up ? up : lo;
}

static bool is_whiteout(const struct ws_collect *c, const struct ws_frame *f, const char *name,
			const struct stat *st)
{
	bool ret;
	int fd;

	if (S_ISCHR(st->st_mode))
		return st->st_rdev == 0;
	if (!f->has_xwhiteout || !S_ISREG(st->st_mode) || st->st_size != 0)
		return false;
	fd = cursor_open_file(&c->up, name, NULL);
	if (fd < 0)
		return false;
	ret = fgetxattr(fd, WHITEOUT, NULL, 0) >= 0;
	close(fd);
	return ret;
}

static int look(struct ws_collect *c, const struct ws_frame *f, const char *name, bool has_up,
		bool has_lo, struct ws_entry *ret)
{
	*ret = (struct ws_entry){ .name = name };
	if (has_up) {
		ret->has_up = fstatat(c->up.fd, name, &ret->up, AT_SYMLINK_NOFOLLOW) == 0;
		if (!ret->has_up && errno != ENOENT)
			return -errno;
	} else {
		ret->is_gone = true; /* only the base has it, and all of the base was listed */
	}
	if (ret->has_up && !c->is_copy && is_whiteout(c, f, name, &ret->up)) {
		ret->has_up = false;
		ret->is_gone = true;
	}
	if (f->in_lo && (has_lo || !f->lists_lo))
		ret->has_lo = fstatat(c->lo.fd, name, &ret->lo, AT_SYMLINK_NOFOLLOW) == 0;
	return 0;
}

/* Whether the base's content of this directory is hidden, also by a directory above. */
static void read_opaque(struct ws_collect *c, struct ws_frame *f)
{
	char value = '\0';

	if (c->is_copy || !f->in_up)
		return;
	if (fgetxattr(c->up.fd, OPAQUE, &value, 1) == 1) {
		f->has_xwhiteout = value == 'x';
		f->hides_lo = f->hides_lo || value == 'y';
	}
	if (!f->hides_lo)
		return;
	f->lists_lo = true;
	if (f->node != WS_NO_NODE)
		c->out->v[f->node].is_opaque = f->in_lo;
}

static bool has_name(struct ws_collect *c, const struct ws_frame *f, const char *name)
{
	struct stat st;

	if (f->in_up && fstatat(c->up.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return !S_ISCHR(st.st_mode);
	return f->in_lo && fstatat(c->lo.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What a directory is, by its inode and the names in it. */
static void read_autorun(struct ws_collect *c, struct ws_frame *f)
{
	if (f->in_lo) {
		const struct cursor_level *level = &c->lo.levels[c->lo.depth];

		if (level->ino == c->home_ino && level->dev == c->home_dev)
			f->autorun.home = 1;
	}
	if (!has_name(c, f, "HEAD"))
		return;
	/* Git obeys any directory that looks like this, or will when there is a refs/ as well. */
	if (has_name(c, f, "commondir") || has_name(c, f, "objects"))
		autorun_is_repository(&f->autorun);
	if (has_name(c, f, "commondir") || (has_name(c, f, "objects") && has_name(c, f, "refs")))
		f->in_repository = true;
}

/* The cursors are in the directory: reads what is needed of it. */
static int enter(struct ws_collect *c, struct ws_frame *f)
{
	int r = 0;

	f->lists_lo = c->is_copy || !f->in_up;
	read_opaque(c, f);
	if (f->in_up)
		r = names_read(c->up.fd, &f->up_names);
	if (r == 0 && f->in_lo && f->lists_lo) {
		r = names_read(c->lo.fd, &f->lo_names);
		if (r != -ENOMEM)
			r = 0;
	}
	read_autorun(c, f);
	if (r == 0 && f->in_lo)
		r = ws_find_nested_obeyed(c, f->node);
	return r;
}

/* Into the directory @e, as far as it exists. 1 = entered, 0 = there is nothing to enter. */
static int go_down(struct ws_collect *c, const struct ws_entry *e, const struct ws_step *step,
		   bool *ret_up, bool *ret_lo)
{
	int r;

	*ret_up = *ret_lo = false;
	if (step->down_up) {
		r = cursor_down(&c->up, e->name);
		if (r < 0)
			return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
		*ret_up = true;
	}
	if (step->down_lo) {
		r = cursor_down(&c->lo, e->name);
		if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
			return r;
		*ret_lo = r == 0;
	}
	return *ret_up || *ret_lo;
}

static int go_up(struct ws_collect *c, const struct ws_frame *f)
{
	int r = 0;

	if (f->in_up)
		r = cursor_up(&c->up);
	if (r == 0 && f->in_lo)
		r = cursor_up(&c->lo);
	return r;
}

/* Makes the frame for a directory that was just entered; @i: of the one that it is in. */
static int push_directory(struct ws_collect *c, size_t i, const struct ws_entry *e,
			  const struct ws_step *step, uint32_t node, bool in_up, bool in_lo)
{
	struct ws_frame *f = push_frame(c), *above = &c->frames[i];
	bool differs;
	int r;

	if (!f)
		return -ENOMEM;
	f->node = node;
	f->promote = step->promote;
	f->in_up = in_up;
	f->in_lo = in_lo;
	f->hides_lo = above->hides_lo;
	f->is_fresh = step->is_fresh;
	f->is_touched = step->is_touched;
	f->is_suspect = step->is_suspect;
	f->has_bad_name = above->has_bad_name || ws_is_bad_name(e->name);
	if (above->is_recorded) {
		f->record = ws_records_child(c->records, above->record, e->name, strlen(e->name));
		f->is_recorded = f->record != WS_NO_RECORD;
	}
	autorun_enter(&above->autorun, e->name, &f->autorun);
	ws_enter_git(above, e->name, f);
	if (c->out->v[node].is_obeyed)
		f->autorun.all |= AUTORUN_PROTECTED;
	r = enter(c, f);
	ws_lost_enter(c, above, e->name, f);
	if (r < 0 || !in_up || !in_lo || step->kind != 0 || step->promote != 0)
		return r;
	r = ws_decide_directory(c, above, e, &differs);
	if (r == 0 && differs) {
		struct ws_node *n = &c->out->v[node];

		n->kind = CORDON_CHANGE_MODE;
		set_risks(above, c->n - 2, n, n->risks & CORDON_RISK_ATTRIBUTE);
	}
	return r;
}

static int visit(struct ws_collect *c, const char *name, bool has_up, bool has_lo)
{
	size_t i = c->n - 1;
	struct ws_frame *f = &c->frames[i];
	bool in_up, in_lo, has_power;
	struct ws_node *node;
	struct ws_entry e;
	struct ws_step step = { 0 };
	uint32_t index;
	int r;

	r = look(c, f, name, has_up, has_lo, &e);
	if (r == 0)
		r = ws_decide(c, f, &e, &step);
	if (r < 0 || (step.kind == 0 && !step.down_up && !step.down_lo))
		return r;
	node = push_node(c->out);
	if (!node)
		return c->out->n >= WS_CHANGES_MAX ? -E2BIG : -ENOMEM;
	index = (uint32_t)(c->out->n - 1);
	node->parent = f->node;
	node->kind = step.kind;
	r = fill_node(c, f, &e, node);
	if (r < 0)
		return r;
	has_power = e.has_up && ws_has_power_attribute(c->up.fd, name, c->buf);
	set_risks(f, i, node, has_power);
	ws_lost_visit(c, f, node);
	if (!step.down_up && !step.down_lo)
		return 0;
	r = go_down(c, &e, &step, &in_up, &in_lo);
	if (r > 0)
		return push_directory(c, i, &e, &step, index, in_up, in_lo);
	if (r == 0 && step.kind == 0)
		c->out->n = index;
	return r;
}

/* Leaves a directory. Its node stays only if it or something below it changed. */
static int leave(struct ws_collect *c)
{
	struct ws_frame *f = &c->frames[c->n - 1];
	int r = ws_lost_leave(c, f);

	if (r == 0)
		r = go_up(c, f);
	if (f->node != WS_NO_NODE && c->out->v[f->node].kind == 0) {
		struct ws_node *node = &c->out->v[f->node];

		if (c->out->n == (size_t)f->node + 1) {
			c->out->n--;
		} else if (f->promote != 0) {
			node->kind = f->promote;
			set_risks(f - 1, c->n - 2, node, node->risks & CORDON_RISK_ATTRIBUTE);
		}
	}
	names_done(&f->up_names);
	names_done(&f->lo_names);
	c->n--;
	return r;
}

int ws_walk(struct ws_collect *c)
{
	struct ws_frame *f = push_frame(c);
	bool has_up, has_lo;
	struct stat st;
	int r;

	if (!f)
		return -ENOMEM;
	f->in_up = f->in_lo = true;
	f->record = WS_NO_RECORD;
	f->is_recorded = c->records != NULL;
	/* The root is never moved, but its entries may be. */
	f->is_touched = c->is_copy &&
			(fstat(c->up.fd, &st) < 0 || !ws_is_before(&st.st_ctim, &c->created));
	r = enter(c, f);
	ws_lost_enter(c, NULL, NULL, f);
	while (r == 0) {
		const char *name = next_name(&c->frames[c->n - 1], &has_up, &has_lo);

		if (name)
			r = visit(c, name, has_up, has_lo);
		else if (c->n > 1)
			r = leave(c);
		else
			break;
	}
	return r;
}

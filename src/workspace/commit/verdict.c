/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the chosen changes the base still allows. Nothing is changed here. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "workspace/commit/commit.h"

static const char why_gone[] = "its directory is gone";
static const char why_not_dir[] = "its directory is something else now";

static void conflict(struct commit_item *item, const char *why)
{
	item->state = ITEM_CONFLICT;
	item->why = why;
	item->is_in_base = false;
}

/* The base lacks the directory of @node: fine if it is about to be made, or @node is deleted. */
static bool is_fine_without(const struct commit *c, uint32_t node)
{
	uint32_t dir = c->changes.v[node].parent;

	if (c->changes.v[node].type == CORDON_FILE_NONE)
		return true;
	return dir != WS_NO_NODE && c->items[dir].state == ITEM_CHOSEN &&
	       c->changes.v[dir].type == CORDON_FILE_DIRECTORY &&
	       (c->changes.v[dir].kind == CORDON_CHANGE_ADDED ||
		c->changes.v[dir].kind == CORDON_CHANGE_TYPE);
}

/* Whether the difference was made by the interrupted commit that is resumed. */
static bool is_our_own(const struct commit *c, uint32_t i)
{
	const struct commit_item *item = &c->items[i];
	const struct journal_old *was;
	const struct stat *st;

	if (!c->journal)
		return false;
	if (!item->old)
		return item->removes_first;
	st = &item->old->st;
	if (S_ISDIR(st->st_mode))
		return c->changes.v[i].type == CORDON_FILE_DIRECTORY;
	was = &c->journal->olds[item->number];
	return was->ino == (uint64_t)st->st_ino && was->size == (uint64_t)st->st_size &&
	       was->mtime_s == (uint64_t)st->st_mtim.tv_sec &&
	       was->mtime_ns == (uint64_t)st->st_mtim.tv_nsec && was->mode == st->st_mode;
}

/* Can the workspace's version take the place of what is there at all? */
static bool is_replaceable(const struct commit *c, uint32_t i)
{
	const struct commit_old *old = c->items[i].old;

	return !old || !S_ISDIR(old->st.st_mode) || c->changes.v[i].type == CORDON_FILE_DIRECTORY ||
	       c->changes.v[i].old_type == CORDON_FILE_DIRECTORY;
}

/* A directory that is to be removed: a conflict if it has more in it than the changes remove. */
static int check_content(struct commit *c, uint32_t i)
{
	struct names names = { 0 };
	int r;

	r = walker_go(&c->base, i);
	if (r == 0 && walker_fd(&c->base) >= 0)
		r = names_read(walker_fd(&c->base), &names);
	if (r < 0)
		return commit_fail(c, i, r, "cannot look at the directory");
	if (names.n > c->items[i].n_children)
		conflict(&c->items[i], "something appeared in it");
	names_done(&names);
	return 0;
}

static int check_node(struct commit *c, uint32_t i, struct strbuf *path)
{
	const struct ws_node *node = &c->changes.v[i];
	struct commit_item *item = &c->items[i];
	const char *why = NULL;
	int dir_fd, r;

	r = walker_go(&c->base, node->parent);
	if (r < 0)
		return commit_fail(c, i, r, "cannot look at the directory of");
	dir_fd = walker_fd(&c->base);
	if (dir_fd < 0 && !is_fine_without(c, i)) {
		conflict(item, c->base.why == -ENOENT ? why_gone : why_not_dir);
		return 0;
	}
	/* Its identity before its content, so that a later change is noticed. */
	r = dir_fd < 0 ? 0 : install_look(dir_fd, node->name, &c->arena, &item->old);
	if (r == 0)
		r = walker_go(&c->content, node->parent);
	if (r < 0)
		return commit_fail(c, i, r, "cannot look at");
	ws_node_path(&c->changes, i, path);
	if (path->failed)
		return commit_fail(c, WS_NO_NODE, -ENOMEM, "commit");
	r = ws_check_base(c->ws, c->records, path->data, node, dir_fd, walker_fd(&c->content),
			  node->name, &why);
	if (r < 0)
		return commit_fail(c, i, r, "cannot compare");
	if (r == WS_DONE)
		item->state = ITEM_DONE;
	else if (r == WS_CHANGED && !is_our_own(c, i)) {
		if (c->options.conflicts == CORDON_CONFLICTS_THEIRS && is_replaceable(c, i))
			item->is_forced = true;
		else
			conflict(item, why);
		item->is_in_base = item->state == ITEM_CONFLICT;
	}
	if (item->state == ITEM_CHOSEN && item->old && S_ISDIR(item->old->st.st_mode) &&
	    node->type != CORDON_FILE_DIRECTORY)
		return check_content(c, i);
	return 0;
}

/* Whether git is at work in the base: it has a lock file then. */
static int check_unit(struct commit *c, uint32_t unit)
{
	static const char *const locks[] = { "index.lock", "HEAD.lock" };
	struct stat st;
	int r;

	r = walker_go(&c->base, unit);
	if (r < 0)
		return commit_fail(c, unit, r, "cannot look at");
	if (walker_fd(&c->base) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(locks); i++) {
		if (fstatat(walker_fd(&c->base), locks[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			return 1;
	}
	return 0;
}

static const char why_git[] = "git is at work there (index.lock or HEAD.lock)";
static const char why_member[] = "another file of the repository is in conflict";

/* What is wrong with each unit, "" = nothing. A conflict of one member is one of all. */
static int look_at_units(struct commit *c, const char **why)
{
	int r = 0;

	for (size_t i = 0; i < c->changes.n && r >= 0; i++) {
		const struct commit_item *item = &c->items[i];

		if (item->unit == WS_NO_NODE ||
		    (item->state != ITEM_CHOSEN && item->state != ITEM_CONFLICT))
			continue;
		if (!why[item->unit]) {
			r = check_unit(c, item->unit);
			why[item->unit] = r > 0 ? why_git : "";
		}
		if (item->state == ITEM_CONFLICT && !*why[item->unit])
			why[item->unit] = why_member;
	}
	return r < 0 ? r : 0;
}

static int check_units(struct commit *c)
{
	const char **why;
	int r;

	why = calloc(c->changes.n + 1, sizeof(*why));
	if (!why)
		return commit_fail(c, WS_NO_NODE, -ENOMEM, "commit");
	r = look_at_units(c, why);
	for (size_t i = 0; i < c->changes.n && r == 0; i++) {
		struct commit_item *item = &c->items[i];

		if (item->unit != WS_NO_NODE && item->state == ITEM_CHOSEN && *why[item->unit])
			conflict(item, why[item->unit]);
	}
	free(why);
	return r;
}

/* A directory cannot go while something in it stays, nothing can be in what does not come, and a
 * rename happens as a whole. */
static void check_neighbours(struct commit *c)
{
	for (size_t i = c->changes.n; i-- > 0;) {
		const struct ws_node *node = &c->changes.v[i];
		struct commit_item *item = &c->items[i], *dir;

		if (node->parent == WS_NO_NODE || node->type != CORDON_FILE_NONE)
			continue;
		dir = &c->items[node->parent];
		if (dir->state != ITEM_CHOSEN ||
		    c->changes.v[node->parent].type == CORDON_FILE_DIRECTORY)
			continue;
		if (item->state == ITEM_CONFLICT)
			conflict(dir, "something in it changed");
		else if (item->state != ITEM_CHOSEN && item->state != ITEM_DONE)
			dir->state = ITEM_SKIPPED;
	}
	for (size_t i = 0; i < c->changes.n; i++) {
		const struct ws_node *node = &c->changes.v[i];
		struct commit_item *item = &c->items[i];

		if (item->state == ITEM_CHOSEN && node->parent != WS_NO_NODE &&
		    node->type != CORDON_FILE_NONE &&
		    c->items[node->parent].state == ITEM_CONFLICT &&
		    c->changes.v[node->parent].kind != CORDON_CHANGE_MODE)
			conflict(item, "its directory is in conflict");
	}
}

static void check_renames(struct commit *c)
{
	for (size_t i = 0; i < c->changes.n; i++) {
		struct commit_item *old = &c->items[i], *new;

		if (old->partner == WS_NO_NODE)
			continue;
		new = &c->items[old->partner];
		if (old->state == ITEM_CONFLICT && new->state == ITEM_CHOSEN)
			conflict(new, "its old name changed");
		else if (new->state == ITEM_CONFLICT && old->state == ITEM_CHOSEN)
			conflict(old, "its new name is in conflict");
	}
}

/* Only what this program can make; the guest could not have made devices anyway. */
static void check_types(struct commit *c)
{
	for (size_t i = 0; i < c->changes.n; i++) {
		struct commit_item *item = &c->items[i];
		int type = c->changes.v[i].type;

		if (item->state != ITEM_CHOSEN)
			continue;
		if (type == CORDON_FILE_SOCKET || type == CORDON_FILE_DEVICE) {
			item->state = ITEM_FAILED;
			item->why = "sockets and devices are never committed";
		} else if (strncmp(c->changes.v[i].name, COMMIT_TEMP_PREFIX,
				   strlen(COMMIT_TEMP_PREFIX)) == 0) {
			item->state = ITEM_FAILED;
			item->why = "commits use such names themselves";
		}
	}
}

int commit_check_base(struct commit *c)
{
	struct strbuf path = STRBUF_INIT;
	int r = 0;

	check_types(c);
	for (uint32_t i = 0; i < c->changes.n && r == 0; i++) {
		if (c->items[i].state == ITEM_CHOSEN)
			r = check_node(c, i, &path);
	}
	strbuf_done(&path);
	if (r == 0)
		r = check_units(c);
	if (r < 0)
		return r;
	check_renames(c);
	check_neighbours(c);
	check_renames(c);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage of a tree: all of it, or of the directories that are closed even to their owner.
 *
 * Without privileges those cannot be counted unless they are opened first, which is done for the
 * moment of the visit when they alone are asked for. Who asks for all of a tree only looks: what is
 * closed is left out then, and the answer says so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "workspace/tree/cursor.h"
#include "workspace/tree/dents.h"
#include "workspace/tree/tree.h"

#define ENTRIES_MAX 2000000u /* more would take too long */
#define STAT_BLOCK 512u
#define NEED 0500
#define NONE SIZE_MAX

struct look {
	struct cursor at;
	struct dents dents;
	struct name_stack names; /* of directories that wait */
	size_t *starts;		 /* of each level's names */
	size_t starts_cap;
	size_t closed; /* depth of the outermost closed directory that we are in */
	unsigned entries;
	bool is_partial; /* something was left out */
	struct tree_usage found;
};

static void add(struct look *l, const struct stat *st)
{
	uint64_t links = !S_ISDIR(st->st_mode) && st->st_nlink > 1 ? st->st_nlink : 1;

	l->found.bytes += ((uint64_t)st->st_blocks * STAT_BLOCK + links - 1) / links;
	l->found.inodes++;
}

static int take_entry(struct look *l, const char *name, unsigned char type)
{
	struct stat st;

	if (++l->entries > ENTRIES_MAX)
		return -E2BIG;
	if (l->closed != NONE || type == DT_UNKNOWN) {
		if (fstatat(l->at.fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != EACCES || l->at.may_open)
				return errno == ENOENT ? 0 : -errno;
			l->is_partial = true;
			return 0;
		}
		type = S_ISDIR(st.st_mode) ? DT_DIR : DT_REG;
		if (l->closed != NONE)
			add(l, &st);
	}
	return type == DT_DIR ? name_stack_push(&l->names, name) : 0;
}

/* Reads the current directory. */
static int read_level(struct look *l)
{
	size_t depth = l->at.depth, cap = l->starts_cap ? l->starts_cap * 2 : 16;
	unsigned char type;
	const char *name;
	ssize_t n = 0;
	int r = 0;

	if (depth >= l->starts_cap) {
		size_t *starts = realloc(l->starts, cap * sizeof(*starts));

		if (!starts)
			return -ENOMEM;
		l->starts = starts;
		l->starts_cap = cap;
	}
	l->starts[depth] = l->names.len;
	if (l->closed == NONE && depth > 0 && (l->at.levels[depth].mode & NEED) != NEED)
		l->closed = depth;
	while (r == 0 && (n = dents_read(l->at.fd, &l->dents)) > 0)
		while (r == 0 && (name = dents_next(&l->dents, &type)))
			r = take_entry(l, name, type);
	return n < 0 ? (int)n : r;
}

static int go_down(struct look *l)
{
	size_t at = name_stack_last(&l->names, l->starts[l->at.depth]);
	int r = cursor_down(&l->at, l->names.data + at);

	l->names.len = at;
	if (r == 0)
		return read_level(l);
	if (r == -EACCES && !l->at.may_open) {
		l->is_partial = true;
		return 0;
	}
	/* Gone, or something else by now. */
	return r == -ENOENT || r == -ENOTDIR || r == -EXDEV ? 0 : r;
}

static int walk(struct look *l)
{
	int r = read_level(l);

	while (r == 0) {
		if (l->names.len > l->starts[l->at.depth]) {
			r = go_down(l);
			continue;
		}
		if (l->at.depth == 0)
			break;
		if (l->closed == l->at.depth)
			l->closed = NONE;
		r = cursor_up(&l->at);
	}
	return r;
}

static int look_at_tree(int dir_fd, bool is_all, struct tree_usage *ret, bool *ret_partial)
{
	struct look *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->at = (struct cursor)CURSOR_INIT;
	l->closed = is_all ? 0 : NONE;
	r = cursor_start(&l->at, dir_fd, !is_all);
	if (r == 0)
		r = walk(l);
	cursor_done(&l->at);
	*ret = l->found;
	*ret_partial = l->is_partial;
	free(l->names.data);
	free(l->starts);
	free(l);
	return r;
}

int tree_closed_usage(int dir_fd, struct tree_usage *ret)
{
	bool is_partial;

	return look_at_tree(dir_fd, false, ret, &is_partial);
}

int tree_usage(int dir_fd, struct tree_usage *ret, bool *ret_partial)
{
	int r = look_at_tree(dir_fd, true, ret, ret_partial);

	/* What was counted until then is there. */
	if (r < 0 && r != -ENOMEM)
		*ret_partial = true;
	return r == -ENOMEM ? r : 0;
}

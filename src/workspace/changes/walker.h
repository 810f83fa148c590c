/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor that is moved by the nodes of a forest of changes, also where a tree lacks a directory
 * that the forest has. */
#ifndef WORKSPACE_CHANGES_WALKER_H
#define WORKSPACE_CHANGES_WALKER_H

#include <stdbool.h>
#include <stdint.h>

#include "workspace/changes/changes.h"
#include "workspace/tree/cursor.h"

struct walker {
	const struct ws_changes *forest;
	struct cursor c;
	int root_fd; /* borrowed */
	bool may_open;
	unsigned need;	/* what directories are opened for, as cursor.need; 0 = to read */
	uint32_t at;	/* the directory's node; WS_NO_NODE = the root */
	size_t missing; /* how many of the last steps to it the tree does not have */
	int why;	/* -errno of the first of them: -ENOENT, -ENOTDIR, -ELOOP, -EXDEV */
	uint32_t *way;	/* room for the steps down */
	size_t way_cap;
};

#define WALKER_INIT { .c = CURSOR_INIT, .root_fd = -1, .at = WS_NO_NODE }

int walker_start(struct walker *w, const struct ws_changes *forest, int root_fd, bool may_open);
void walker_done(struct walker *w);

/* Goes to the directory of @node. 0 also if the tree does not have it. */
int walker_go(struct walker *w, uint32_t node);

/* Goes to the directory that @node is in; an error if the tree does not have it. */
int walker_go_to_file(struct walker *w, uint32_t node);

/* The descriptor of the current directory, -1 if the tree does not have it. */
static inline int walker_fd(const struct walker *w)
{
	return w->missing ? -1 : w->c.fd;
}

#endif

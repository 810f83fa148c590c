/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hard links within a tree that is copied.
 *
 * The copy's other names may lie deeper than a path can be long, so each copied file with several
 * names gets one more, a number in a directory of its own ("stage") at the root of the copy, from
 * which further names are made and which is removed at the end.
 */
#ifndef WORKSPACE_TREE_LINKS_H
#define WORKSPACE_TREE_LINKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "workspace/tree/cursor.h"

/* More files with several names than this are copied one by one. */
#define LINKS_MAX (1u << 20)

struct link_entry {
	dev_t dev;
	ino_t ino;
	uint32_t number; /* 0 = free */
};

struct links {
	int root_fd, stage_fd;
	char stage[40];
	struct link_entry *v;
	size_t n, cap;
};

/* @names: what will lie in @root_fd, the root of the copy (borrowed). */
int links_start(struct links *links, int root_fd, const struct names *names);
/* Makes @name in @dir_fd another name of the copy of @st: 1, 0 if it is not known, -errno. */
int links_make(const struct links *links, const struct stat *st, int dir_fd, const char *name);
/* @name in @dir_fd is the copy of @st. */
int links_add(struct links *links, const struct stat *st, int dir_fd, const char *name);
int links_done(struct links *links); /* removes the stage */

#endif

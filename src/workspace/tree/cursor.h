/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A position in a directory tree that the guest may have made.
 *
 * Trees may be deeper than a path can be long and than there are descriptors, so a cursor has one
 * descriptor, goes down by name and up by "..", and checks on the way up that it arrives where it
 * came from (device and inode). No link is followed, and no other filesystem entered.
 */
#ifndef WORKSPACE_TREE_CURSOR_H
#define WORKSPACE_TREE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct cursor_level {
	dev_t dev;
	ino_t ino;
	unsigned mode;	/* to be restored on leaving, if changed */
	bool is_opened; /* our own permissions were raised for the visit */
};

struct cursor {
	int fd;			     /* O_RDONLY | O_DIRECTORY of the current directory */
	int root_fd;		     /* O_PATH | O_DIRECTORY of the root */
	struct cursor_level *levels; /* of all directories above it, and its own */
	size_t depth, cap;	     /* depth 0 = the root */
	/* The tree is ours: a directory closed to its owner is opened for the visit, and its mode
	 * restored. */
	bool may_open;
	/* The owner's permissions that a visit needs: 0500, or 0700 to change things. */
	unsigned need;
};

#define CURSOR_INIT { .fd = -1, .root_fd = -1 }

/* Takes a copy of @root_fd, which may be an O_PATH one. 0 or -errno; also for the others. After a
 * failure the cursor is where it was. */
int cursor_start(struct cursor *c, int root_fd, bool may_open);
/* -EXDEV: something is mounted there; -ENOTDIR: no directory (links included). */
int cursor_down(struct cursor *c, const char *name);
int cursor_up(struct cursor *c); /* -ESTALE: the tree was changed meanwhile */
/* Restores the modes on the way to the root. May be called for one that was never started. */
void cursor_done(struct cursor *c);

/* Opens the file @name in the current directory for reading: a regular file or -errno (-EINVAL for
 * other types), never blocking, no link followed; with may_open also one that is closed to us. */
int cursor_open_file(const struct cursor *c, const char *name, struct stat *ret_st);

/* The names in a directory, sorted by bytes, without . and .. */
struct names {
	char *data;
	const char **v;
	size_t n;
};

/* 0 or -errno; reads from the beginning, wherever the descriptor is (and moves it). */
int names_read(int dir_fd, struct names *ret);
void names_done(struct names *names);

/* Moves a cursor to @path (relative, any length; "" = the root), from its root: for random access.
 * After a failure the cursor is somewhere on the way. */
int cursor_goto(struct cursor *c, const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trees: removing and copying them, without recursion, whatever is in them. */
#ifndef WORKSPACE_TREE_TREE_H
#define WORKSPACE_TREE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Removes what is called @name in @dir_fd and everything below it. A name that is not there is
 * fine. Directories closed to us are opened first. 0 or -errno (the first failure; the rest is
 * removed all the same). */
int tree_remove(int dir_fd, const char *name);

struct tree_amount {
	uint64_t bytes, inodes;
};

/* What lies in directories below @dir_fd that are closed to their owner, which are opened for the
 * visit. 0 or -errno: somebody changed the tree meanwhile, or it is very large. */
int tree_locked(int dir_fd, struct tree_amount *ret);

struct tree_copy {
	/* Layers of an overlay are copied as they are: whiteouts and user.overlay.* attributes. */
	bool is_layer;
	bool was_reflinked; /* out: the filesystem shared the blocks of every file with content */
	uint64_t files, bytes; /* out: entries, and bytes of content (holes left out) */
	char failed[1024];     /* out: the path, relative, that a failure is about, perhaps cut */
	/* Called now and then; not 0 = stop with -ECANCELED. May be NULL. */
	int (*progress)(void *arg, const struct tree_copy *copy);
	void *arg;
};

/*
 * Copies everything in the directory @from_fd into the empty directory @to_fd: content (holes stay
 * holes, blocks are shared where the filesystem can), modes, times, user.* attributes, links and
 * hard links within the tree. FIFOs, sockets and devices are left out (except whiteouts in layers),
 * and so is what is mounted below it. The directory itself gets mode and times of the other.
 * Everything belongs to us afterwards; set-id bits stay where it did before. What appears or
 * goes away while it is copied is copied or not; what cannot be read is a failure, except in
 * layers, which are opened. 0 or -errno.
 */
int tree_copy(int from_fd, int to_fd, struct tree_copy *copy);

/* One regular file's content, from an open file to another (empty): shared, or copied with its
 * holes. *ret_shared may be NULL. 0 or -errno. A file that grows or shrinks meanwhile: up to
 * @from->st_size, or what is there. */
int file_copy(int from_fd, int to_fd, const struct stat *from, bool *ret_shared);

/* user.* attributes (without user.overlay.*; names that the guest gave that prefix to are stored
 * escaped in a layer and come back unescaped). @is_layer_from: @from_fd is in an upper layer. */
int file_copy_attributes(int from_fd, int to_fd, bool is_layer_from);
/* All user.* attributes as they are, from layer to layer. */
int file_copy_layer_attributes(int from_fd, int to_fd);

/* file_copy() that counts in @copy->bytes and asks @copy->progress within large files. */
int file_copy_counted(int from_fd, int to_fd, const struct stat *from, bool *ret_shared,
		      struct tree_copy *copy);

#endif

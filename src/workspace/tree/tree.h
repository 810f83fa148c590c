/* SPDX-License-Identifier: Apache-2.0 */
/* Removing and copying whole trees, without recursion, whatever the guest put into them. */
#ifndef WORKSPACE_TREE_TREE_H
#define WORKSPACE_TREE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Removes what is called @name in @dir_fd and everything below it. A name that is not there is
 * fine. Directories closed to us are opened first. 0 or -errno (the first failure; the rest is
 * removed all the same). */
int tree_remove(int dir_fd, const char *name);

struct tree_usage {
	uint64_t bytes, inodes;
};

/* The usage of directories below @dir_fd that are closed to their owner, which are opened for the
 * visit. 0 or -errno: the tree was changed meanwhile, or it is very large. */
int tree_closed_usage(int dir_fd, struct tree_usage *ret);

/* The usage of everything below @dir_fd, as it is: nothing is opened or changed. *ret_partial:
 * there is more, in directories that are closed to us, that changed meanwhile, or after the first
 * two million. 0 or -ENOMEM. */
int tree_usage(int dir_fd, struct tree_usage *ret, bool *ret_partial);

/* What a copy may take. Further names of a file are no entries, as they take no inode, but there
 * may be 16 for each entry. */
struct tree_room {
	uint64_t bytes, entries;
};

struct tree_copy {
	/* An upper directory is copied as it is: whiteouts and the overlay's marks. */
	bool is_upper;
	/* FIFOs and sockets are copied, too. In an upper directory what they took the place of
	 * would show again without them. */
	bool has_special;
	const struct tree_room *room; /* NULL = as much as there is */
	/* Everything belongs to these instead of us, which only root can do. */
	bool gives_away;
	uid_t uid;
	gid_t gid;
	bool was_reflinked; /* out: the filesystem shared the blocks of every file with content */
	bool is_too_much;   /* out: more than the room, which is -EDQUOT */
	uint64_t files, bytes; /* out: names, and bytes of content (holes left out) */
	uint64_t entries;      /* out: names but for further ones of a file */
	char failed[1024];     /* out: the relative path that failed, perhaps its end only */
	/* Called now and then; not 0 = stop with -ECANCELED. May be NULL. */
	int (*progress)(void *arg, const struct tree_copy *copy);
	void *arg;
};

/*
 * Copies everything in the directory @from_fd into the empty directory @to_fd: content (holes stay
 * holes, blocks are shared where the filesystem can), modes, times, user.* attributes, links and
 * hard links within the tree. Devices are left out (except whiteouts in an upper), FIFOs and
 * sockets unless @copy->has_special, and so is what is mounted below it. The directory itself gets
 * mode and times of the other. Everything belongs to us afterwards, or to @copy->uid and gid;
 * set-id bits stay on files that belonged to us before. What appears or disappears while it is
 * copied is copied or not. What cannot be read is a failure, except in an upper directory, whose
 * entries are opened. 0 or -errno.
 */
int tree_copy(int from_fd, int to_fd, struct tree_copy *copy);

/* One regular file's content, from an open file to another (empty): shared, or copied with its
 * holes. *ret_shared may be NULL. 0 or -errno. A file that grows or shrinks meanwhile: up to
 * @from->st_size, or what is there. */
int file_copy(int from_fd, int to_fd, const struct stat *from, bool *ret_shared);

/* user.* attributes, but none of user.overlay.*, whoever set them: an overlay would obey them. */
int file_copy_attributes(int from_fd, int to_fd);
/* The same from one upper directory to another, with the marks of the overlay itself. */
int file_copy_upper_attributes(int from_fd, int to_fd);

/* file_copy() that counts in @copy->bytes, looks at its bound, and asks @copy->progress within
 * large files. */
int file_copy_counted(int from_fd, int to_fd, const struct stat *from, bool *ret_shared,
		      struct tree_copy *copy);

#endif

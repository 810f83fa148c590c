/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which runs are going on in a directory.
 *
 * A run takes a shared lock for each directory in which it reserves names or looks after a
 * repository; who has it alone is the last one there. The locks are files in a directory that only
 * this user can open. They are not on the directories themselves, since everybody who can read one
 * could lock it, and so keep runs from starting or from tidying up. Only where other users may
 * write (/var/tmp), and so have runs of their own, is the directory locked as well: that keeps the
 * last run of several users from being disturbed, and can keep none from starting.
 *
 * Root sees the runs of the user to whom a directory belongs: in it root's run takes a lock among
 * that user's, too, with that user's rights. If that fails it goes on without.
 *
 * Elsewhere runs of two users in one directory do not see each other. Each removes only
 * placeholders that it made or that belong to its user or to root (reserve.c), so none loses its
 * own; and each looks at repositories from its own start on, so what one of them left there is put
 * aside at the end of that one.
 */
#ifndef LAUNCH_LOCKS_H
#define LAUNCH_LOCKS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "format/janitor.h"

struct cordon_error;

struct dir_lock {
	dev_t dev; /* of the directory */
	ino_t ino;
	int fd;		       /* the lock's file, shared with the janitor */
	int shared_fd;	       /* the directory, locked itself, if other users may write to it;
				* or the lock of the user to whom it belongs */
	int owner_fd;	       /* the directory of that user's locks */
	struct timespec since; /* when the first run began of those that overlap with this one */
	char name[JANITOR_LOCK_MAX];
};

struct locks {
	int fd; /* the directory of the locks */
	char path[PATH_MAX];
	struct timespec started_at; /* of this run */
	struct dir_lock v[JANITOR_DIRS_MAX];
	size_t n;
};

/* Finds or makes the directory of the locks. @started_at: this run's. */
int locks_open(const char *state_dir, const struct timespec *started_at, struct locks **ret,
	       struct cordon_error *err);
/* The lock of the directory @dir_fd, taken now or before: 0 or -errno; the pointer is valid until
 * locks_close(). */
int locks_take(struct locks *locks, int dir_fd, const struct dir_lock **ret);
/* Is no other run there? Then none can begin there until the lock is given up. */
bool locks_is_alone(const struct dir_lock *lock);
/* The same at the end of a run: if another one is there, the lock is given up. */
bool locks_is_last(const struct dir_lock *lock);
/* Gives all up, and removes the files of locks that no other run has. */
void locks_close(struct locks *locks);

#endif

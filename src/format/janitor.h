/* SPDX-License-Identifier: Apache-2.0 */
/* What the janitor is told. The message after CONTROL_JANITOR: the reserved names that it removes.
 */
#ifndef FORMAT_JANITOR_H
#define FORMAT_JANITOR_H

#include <stddef.h>
#include <stdint.h>

#define JANITOR_NAMES_MAX 190
#define JANITOR_NAME_MAX 256
#define JANITOR_DIRS_MAX 98 /* two descriptors each, in one message (CONTROL_FDS_MAX) */
#define JANITOR_LOCK_MAX 40

/* The descriptors: init's pidfd, the supervisor's, the directory of the locks, then of each
 * directory with reserved names the lock and the directory itself. */
enum {
	JANITOR_FD_INIT,
	JANITOR_FD_SUPERVISOR,
	JANITOR_FD_LOCKS,
	JANITOR_FDS
};

/* Later messages, one byte each. */
enum {
	/* The placeholders are made: keep those open that are directories, until they are gone. Who
	 * closes a removed directory last has to free its blocks, which is slow on some file
	 * systems, and nobody waits for the janitor. */
	JANITOR_HOLD = 'h',
	JANITOR_DISMISSED = 'd', /* nothing is left to do */
};

struct janitor_order {
	int64_t since; /* seconds: what was made before this is no placeholder of the run */
	uint32_t n_names, n_dirs;
	uint8_t dirs[JANITOR_NAMES_MAX];		 /* in which directory each name is */
	char locks[JANITOR_DIRS_MAX][JANITOR_LOCK_MAX];	 /* the name of each directory's lock */
	char names[JANITOR_NAMES_MAX][JANITOR_NAME_MAX]; /* only those that there are are sent */
};

#define JANITOR_ORDER_BYTES(n_names)                                                               \
	(offsetof(struct janitor_order, names) + (size_t)(n_names) * JANITOR_NAME_MAX)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies in a directory that the guest works in: every file once, however many names it has.
 *
 * Descriptors and single names only. What the guest moves meanwhile may be counted twice or not at
 * all, so a caller must count again before it acts on the figure.
 */
#ifndef INIT_WATCH_DIR_USAGE_H
#define INIT_WATCH_DIR_USAGE_H

#include <stdint.h>

struct dir_usage {
	uint64_t bytes, inodes;
	int is_blind; /* something could not be looked into */
};

/* 0, or -errno: nothing is known then. Not to be called twice at the same time. */
long dir_usage_count(int dir_fd, struct dir_usage *ret);

#endif

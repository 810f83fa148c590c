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

/* As clock_gettime() gives it. */
struct dir_time {
	int64_t sec, nsec;
};

struct dir_usage {
	uint64_t bytes, inodes;
	uint64_t old_bytes, old_inodes; /* the part that has not changed since a given time */
	int is_blind;			/* something could not be looked into */
};

/* 0, or -errno: nothing is known then. Not to be called twice at the same time. */
long dir_usage_count(int dir_fd, const struct dir_time *since, struct dir_usage *ret);

#endif

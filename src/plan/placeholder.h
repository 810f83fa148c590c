/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the placeholder of a held name looks like, so that another run (or the next one, after a
 * crash) knows it from a file of the user's: a socket that nobody listens on, or a tiny read-only
 * file, last changed at a moment that no clock shows.
 *
 * A socket, since nothing blocks on opening one, and git and tar pass over it without a word.
 */
#ifndef PLAN_PLACEHOLDER_H
#define PLAN_PLACEHOLDER_H

#include <sys/stat.h>

#include "plan/placeholder_mark.h"

static inline int is_placeholder(const struct stat *st)
{
	if (!S_ISSOCK(st->st_mode) &&
	    !(S_ISREG(st->st_mode) && st->st_size <= PLACEHOLDER_BYTES_MAX))
		return 0;
	return st->st_nlink <= 1 && (st->st_mode & 0222) == 0 &&
	       st->st_mtim.tv_sec == PLACEHOLDER_SECONDS &&
	       st->st_mtim.tv_nsec == PLACEHOLDER_NANOSECONDS;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placeholder of a reserved name. Another run, or the next one after a crash, must tell it from
 * a user's file: it is a socket without a listener, or a tiny read-only file, and its modification
 * time is one that no clock shows.
 *
 * A socket, since nothing blocks on opening one, and git and tar pass over it without a word.
 */
#ifndef FORMAT_PLACEHOLDER_H
#define FORMAT_PLACEHOLDER_H

#include <sys/stat.h>

#include "format/placeholder_mark.h"

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

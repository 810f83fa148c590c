/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way to a directory that we write to ourselves, outside of any sandbox: an earlier run may
 * have left a link on it. Only links of the system are followed (root's, in the root directory or
 * one level below it, but not in /tmp), and those of /proc.
 */
#ifndef BASE_WAY_H
#define BASE_WAY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

struct cordon_error;

struct way {
	int fd;		     /* the directory that was reached, O_PATH */
	char rest[PATH_MAX]; /* what is left to be walked */
	unsigned links;
	char refused[PATH_MAX]; /* the link that is not followed, "" = none */
};

/* Walks the first @len bytes of @path. 0 with ret->fd, or -errno without. */
int way_open(const char *path, size_t len, struct way *ret) CHECK_RESULT;
/* Notes that @name, in the directory reached, is a link that is not followed. */
void way_refuse(struct way *way, const char *name);
/* @name is a link: is it one that may be followed? */
bool way_may_follow(int dir_fd, const char *name);
/* The error for @path (@what: "the log ", or ""): @error, or the link. */
int way_error(const struct way *way, const char *what, const char *path, int error,
	      struct cordon_error *err);

#endif

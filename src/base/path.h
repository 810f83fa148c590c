/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths as text.
 *
 * Nothing here looks at the file system, so nothing here removes "..": "a/../b" is not "b" if "a"
 * is a symbolic link. To know what a path leads to, open it and ask the kernel about the result.
 */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

/*
 * Writes @path without "." and empty components and without a trailing slash into ret[size]. A
 * relative path is put behind @base first (NULL: it stays relative); ".." stays, except directly
 * below "/", where the kernel ignores it as well. An empty result is ".".
 * Returns the length, -EINVAL for an empty path, -ENAMETOOLONG if it does not fit.
 */
int path_normalise(const char *base, const char *path, char *ret, size_t size) CHECK_RESULT;

/* Is @child the directory @parent or something below it? Both normalised and absolute, or both
 * normalised and relative to the same directory. False if that cannot be told from the text ("..").
 */
bool path_is_within(const char *parent, const char *child);

bool path_has_dotdot(const char *path);

/* Length of the directory part of @path: "/a/b" -> 2, "/a" -> 1 ("/"), "a" -> 0 (none). */
size_t path_dir_len(const char *path);

/* Takes the first name off the front of @rest: 1, 0 = there is none, or -ENAMETOOLONG. */
int path_take_name(char *rest, char name[NAME_MAX + 1]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a repository's index that make git enter directories. */
#ifndef GIT_ENTRIES_H
#define GIT_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/arena.h"

#define GIT_INDEX_MAX ((size_t)256 << 20)   /* bytes of one index */
#define GIT_INDEXES_MAX ((size_t)512 << 20) /* bytes of all that are read in one walk */
#define GIT_KEPT_MAX ((size_t)16 << 20)	    /* bytes of what one walk keeps of them */

/* How much a walk has read and kept. An index of version 4 can name paths that take a thousand
 * times its own size. */
struct git_reading {
	size_t bytes, kept;
};

/* -E2BIG beyond GIT_KEPT_MAX. */
int git_count_kept(struct git_reading *reading, size_t bytes);

struct git_entry {
	const char *path;
	bool is_sparse; /* a whole directory whose entries are not listed */
};

struct git_entries {
	struct git_entry *v;
	size_t n, cap;
	const char **dirs; /* that have files in them, "" = the top; some are there twice */
	size_t n_dirs, cap_dirs;
	struct stat index; /* of which file */
	bool is_split;
};

/* Reads the index of @git_fd; without one there are no entries. 0; -EINVAL for an index that no git
 * writes; -EFBIG or -E2BIG; or -errno. */
int git_entries_collect(struct arena *arena, int git_fd, struct git_reading *reading,
			struct git_entries *ret);

/* Whether a file is an index, or a part of one, as git writes it: `git restore .` writes to
 * whatever path it finds there. */
bool git_index_is_sound(const char *data, size_t len);

/* Calls @fn for each file (or symbolic link) that the index has. The same results, or @fn's. */
int git_entries_files(int git_fd, struct git_reading *reading,
		      int (*fn)(void *ctx, const char *path, size_t len), void *ctx);

#endif

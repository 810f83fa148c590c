/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a git index (versions 2, 3 and 4) that an adversary may have written.
 *
 * The reader must never see less than git would. So an index that can be read in more than one way,
 * or that no git writes, is refused as a whole, and the caller keeps git from seeing it, too.
 * Checksums are ignored: git does not check them while reading.
 */
#ifndef GIT_INDEX_H
#define GIT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GIT_INDEX_HASH_MAX 32
#define GIT_INDEX_PATH_MAX 4096

#define GIT_INDEX_TYPE 0170000u /* of a mode */
#define GIT_INDEX_LINK 0160000u
#define GIT_INDEX_SPARSE_DIR 0040000u

struct git_index_info {
	bool has_base; /* a split index: most entries are in a file named after this hash */
	unsigned char base[GIT_INDEX_HASH_MAX];
};

/* Calls @fn for each entry. @hash_len: 20 or 32. 0, -EINVAL for what is no such index, or what @fn
 * returned: a negative value ends the reading. @path is NUL-terminated and valid during the call;
 * it may be empty (split index), and it need not be clean. */
int git_index_read(const void *data, size_t size, unsigned hash_len,
		   int (*fn)(void *ctx, uint32_t mode, const char *path, size_t len), void *ctx,
		   struct git_index_info *ret);

/* Relative, without empty, ".", ".." and ".git" components, and not too long: what git lets into an
 * index. What it finds there it believes: `git restore .` writes to any other path as well. */
bool git_index_path_is_clean(const char *path, size_t len);

#endif

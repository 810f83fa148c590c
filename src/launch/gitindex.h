/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a git index (versions 2, 3 and 4) that an adversary may have written.
 *
 * The aim is not to be lenient but never to see less than git would: what has more than one
 * reading, or what no git writes, is refused as a whole, and the caller treats a refused index as
 * one that git must not see either. Checksums are not looked at, since git does not check them
 * while reading.
 */
#ifndef LAUNCH_GITINDEX_H
#define LAUNCH_GITINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GITINDEX_HASH_MAX 32
#define GITINDEX_PATH_MAX 4096

#define GITINDEX_TYPE 0170000u /* of a mode */
#define GITINDEX_LINK 0160000u
#define GITINDEX_SPARSE_DIR 0040000u

/* One entry. @path is NUL-terminated and valid during the call; it may be empty (split index), and
 * it need not be clean. A negative value ends the reading and is returned. */
typedef int gitindex_fn(void *ctx, uint32_t mode, const char *path, size_t len);

struct gitindex_info {
	bool has_base; /* most entries are in another file, named after this hash */
	unsigned char base[GITINDEX_HASH_MAX];
};

/* @hash_len: 20 or 32. 0, -EINVAL for what is no such index, or what @fn returned. */
int gitindex_read(const void *data, size_t size, unsigned hash_len, gitindex_fn *fn, void *ctx,
		  struct gitindex_info *ret);

/* Relative, without empty, "." and ".." components, and not too long. */
bool gitindex_path_is_clean(const char *path, size_t len);

#endif

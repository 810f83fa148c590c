/* SPDX-License-Identifier: Apache-2.0 */
/* Where a file has data: what is not a hole. */
#ifndef WORKSPACE_EXPORT_EXTENTS_H
#define WORKSPACE_EXPORT_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#define EXTENTS_MAX (1u << 20) /* of one file */

struct extent {
	uint64_t start, len;
};

struct extents {
	struct extent *v;
	size_t n, cap;
	uint64_t bytes; /* all of them together */
};

/* The extents of the first @size bytes of @fd; free them with extents_done(). One extent where the
 * file system knows no holes. The file is at its beginning afterwards. 0, -EFBIG beyond
 * EXTENTS_MAX, or another -errno. */
int extents_read(int fd, uint64_t size, struct extents *ret);
void extents_done(struct extents *extents);

#endif

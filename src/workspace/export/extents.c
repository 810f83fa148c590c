/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/export/extents.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int add(struct extents *e, uint64_t start, uint64_t end)
{
	if (e->n == e->cap) {
		size_t cap = e->cap ? e->cap * 2 : 16;
		struct extent *v;

		if (e->n == EXTENTS_MAX)
			return -EFBIG;
		v = reallocarray(e->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		e->v = v;
		e->cap = cap;
	}
	e->v[e->n++] = (struct extent){ start, end - start };
	e->bytes += end - start;
	return 0;
}

int extents_read(int fd, uint64_t size, struct extents *ret)
{
	uint64_t at = 0;
	int r = 0;

	*ret = (struct extents){ 0 };
	while (r == 0 && at < size) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* nothing but a hole up to the end */
		if (data < 0)
			data = (off_t)at; /* the file system has no holes */
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || (uint64_t)hole > size)
			hole = (off_t)size;
		if ((uint64_t)data >= size)
			break;
		r = add(ret, (uint64_t)data, (uint64_t)hole);
		at = (uint64_t)hole;
	}
	if (lseek(fd, 0, SEEK_SET) < 0 && r == 0)
		r = -errno;
	if (r < 0)
		extents_done(ret);
	return r;
}

void extents_done(struct extents *extents)
{
	free(extents->v);
	*extents = (struct extents){ 0 };
}

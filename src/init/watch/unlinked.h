/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of a workspace that has no name: files that were deleted and are still open or mapped, and
 * files that are only just being copied up from the base.
 */
#ifndef INIT_WATCH_UNLINKED_H
#define INIT_WATCH_UNLINKED_H

#include "init/init.h"

struct unlinked {
	uint64_t bytes, inodes; /* deleted files behind descriptors */
	/* As much may be in mappings besides. No bound if something cannot be looked at. */
	uint64_t room, room_inodes;
	uint64_t dirty; /* pages that running threads made dirty, beyond their write() calls */
};

#define UNLINKED_NO_BOUND ((uint64_t)1 << 60)

/* Looks at the whole tree. @in is a copy of init's state, @live the state itself, in which helpers
 * come and go. Not to be called twice at the same time. */
void unlinked_find(struct init *in, const struct init *live, struct unlinked *ret);

#endif

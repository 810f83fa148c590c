/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of a workspace that has no name: files that were deleted and are still open or mapped, and
 * files that are only just being copied up from the base.
 */
#ifndef INIT_WATCH_UNLINKED_H
#define INIT_WATCH_UNLINKED_H

#include "init/init.h"

struct held {
	uint64_t bytes, inodes; /* deleted files behind descriptors */
	/* As much may be hidden besides, in mappings. No bound, if something cannot be looked at.
	 */
	uint64_t room, room_inodes;
	uint64_t dirty; /* what running threads made dirty, but did not write by system calls */
};

#define HELD_NO_BOUND ((uint64_t)1 << 60)

/* Looks at the whole tree. @in is a copy of init's, @live itself: its helpers come and go. Not to
 * be called twice at the same time. */
void held_find(struct init *in, const struct init *live, struct held *ret);

#endif

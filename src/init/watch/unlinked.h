/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of a workspace that has no name: files that were deleted and are still open or mapped.
 */
#ifndef INIT_WATCH_UNLINKED_H
#define INIT_WATCH_UNLINKED_H

#include "init/init.h"

struct unlinked {
	uint64_t bytes, inodes; /* deleted files behind descriptors */
	/* Of files that are only mapped: what is mapped of them. */
	uint64_t mapped_bytes, mapped_inodes;
	int is_hidden; /* there may be more: some could not be seen, or not all of it */
};

/* Looks at the whole tree. @in is a copy of init's state, @live the state itself, in which helpers
 * come and go. Not to be called twice at the same time. */
void unlinked_find(struct init *in, const struct init *live, struct unlinked *ret);

#endif

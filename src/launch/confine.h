/* SPDX-License-Identifier: Apache-2.0 */
/* The layers that a process puts on by itself. */
#ifndef LAUNCH_CONFINE_H
#define LAUNCH_CONFINE_H

#include <stdint.h>

#include "format/plan.h"

/* Everything is looked up beforehand; only system calls remain. */
struct confinement {
	const struct plan_header *plan;
	int ruleset_fd;
	int drops_groups;      /* started by root */
	int groups_are_locked; /* a rootless container: the kernel refuses to change them */
	int must_drop;	       /* the process may empty its bounding set, so it has to */
	/* What went wrong; stage 0 = nothing. */
	int stage; /* enum cordon_stage */
	int error; /* errno */
};

/*
 * Puts all layers on the calling process, in an order that lets each succeed. The argument is a
 * struct confinement. Also runs in a child that shares our memory: no heap, no lock, no errno.
 * Returns 0, or 1 with stage and error set.
 */
int confine_apply(void *confinement);

#endif

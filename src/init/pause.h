/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping the whole tree and letting it go on, without the tree noticing if that can be helped.
 * There may be more than one reason at a time. Nothing inside can undo a pause, except a kernel
 * timer that sends SIGCONT.
 */
#ifndef INIT_PAUSE_H
#define INIT_PAUSE_H

#include "init/init.h"

enum pause_reason {
	PAUSE_CPU = 1,	  /* it has used more than its share */
	PAUSE_COVERS = 2, /* a name has lost its cover */
	PAUSE_ORDER = 4,  /* the supervisor wants it */
};

void tree_pause(struct init *in, enum pause_reason why);
/* It goes on if there is no other reason. Processes that it had stopped itself stay stopped. */
void tree_resume(struct init *in, enum pause_reason why);

/* One process: its state letter (0 = gone), its parent, and the CPU time of children it waited
 * for. */
char tree_stat(const struct init *in, int pid, uint64_t *ret_children_ns, int *ret_parent);

#endif

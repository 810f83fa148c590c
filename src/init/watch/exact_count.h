/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact count of memory, in a process that can be given up.
 *
 * Reading how a process shares its pages waits for a lock of that process, which the guest can hold
 * for as long as it likes, and takes long if there is much to read. Init has a clock to keep,
 * orders to obey and a supervisor to die with, so a helper process counts, in the same memory. One
 * that takes more than 400 ms is killed, and then the quick count decides.
 */
#ifndef INIT_WATCH_EXACT_COUNT_H
#define INIT_WATCH_EXACT_COUNT_H

#include "init/watch/memory.h"

enum exact_result {
	EXACT_DONE = 1,
	EXACT_LATE = 0,		/* not known in time */
	EXACT_INTERRUPTED = -1, /* init has something else to do */
};

enum exact_result exact_count(struct init *in, struct memory *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact count of memory, in a process that can be given up.
 *
 * Reading how a process shares its pages waits for a lock of that process, which the guest can hold
 * for as long as it likes, and takes long if there is much to read. Init has a clock to keep,
 * orders to obey and a supervisor to die with, so somebody else does it, in the same memory.
 */
#ifndef INIT_WATCH_EXACT_COUNT_H
#define INIT_WATCH_EXACT_COUNT_H

#include "init/watch/memory.h"

enum reader_result {
	READER_DONE = 1,
	READER_LATE = 0,	 /* it could not be told in time */
	READER_INTERRUPTED = -1, /* init has something else to do */
};

enum reader_result reader_count(struct init *in, struct memory *ret);

#endif

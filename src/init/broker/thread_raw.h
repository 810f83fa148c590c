/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of the broker's thread. They run concurrently with the main thread's, so in test
 * builds they must not count as steps of set-up that a test can make fail.
 */
#ifndef INIT_BROKER_THREAD_RAW_H
#define INIT_BROKER_THREAD_RAW_H

#include "bare/raw.h"

#define thread_call(nr, a, b, c, d, e)                                                             \
	raw_syscall(nr, RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), RAW_ARG(d), RAW_ARG(e), 0)
#define thread3(nr, a, b, c) thread_call(nr, a, b, c, 0, 0)
#define thread4(nr, a, b, c, d) thread_call(nr, a, b, c, d, 0)
#define thread5(nr, a, b, c, d, e) thread_call(nr, a, b, c, d, e)

#endif

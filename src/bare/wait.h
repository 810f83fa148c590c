/* SPDX-License-Identifier: Apache-2.0 */
/* Time, and waiting for descriptors, for code without libc. */
#ifndef BARE_WAIT_H
#define BARE_WAIT_H

#include <asm/unistd.h>
#include <stdint.h>

#include "bare/raw.h"

#define MS ((uint64_t)1000000) /* in nanoseconds */
#define SECOND (1000 * MS)

#define WAIT_IN 0x1
#define WAIT_PRI 0x2
#define WAIT_OUT 0x4
#define WAIT_SIGSET_BYTES 8

struct poll_entry { /* struct pollfd */
	int fd;
	short events, revents;
};

struct duration { /* struct timespec */
	long sec, nsec;
};

static inline struct duration duration_of(uint64_t ns)
{
	return (struct duration){ (long)(ns / SECOND), (long)(ns % SECOND) };
}

/* How many are ready, 0 = none in time, or -errno. Without @timeout it waits as long as it takes.
 */
static inline long poll_wait(struct poll_entry *entries, long n, const struct duration *timeout)
{
	return raw_syscall(__NR_ppoll, RAW_ARG(entries), n, RAW_ARG(timeout), 0, WAIT_SIGSET_BYTES,
			   0);
}

static inline void sleep_ns(uint64_t ns)
{
	const struct duration pause = duration_of(ns);

	raw_syscall(__NR_nanosleep, RAW_ARG(&pause), 0, 0, 0, 0, 0);
}

/* CLOCK_MONOTONIC */
static inline uint64_t now_ns(void)
{
	struct duration now = { 0, 0 };

	raw_syscall(__NR_clock_gettime, 1, RAW_ARG(&now), 0, 0, 0, 0);
	return (uint64_t)now.sec * SECOND + (uint64_t)now.nsec;
}

#endif

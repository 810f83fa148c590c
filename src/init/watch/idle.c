/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch/idle.h"

#include <asm/unistd_64.h>
#include <linux/time.h>

#include "bare/raw.h"
#include "init/tree.h"

static struct {
	uint64_t number;
	int is_sure; /* two lists in a row were the same */
	int n;
	int pids[TREE_MAX];
	uint64_t used_ns[TREE_MAX];
} rest;

uint64_t rest_clock(int pid)
{
	struct __kernel_timespec ts = { 0, 0 };
	long clock = (long)(~(unsigned long)pid << 3 | 2);

	if (raw_syscall(__NR_clock_gettime, (int)clock, RAW_ARG(&ts), 0, 0, 0, 0) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t rest_note(const int *pids, int n)
{
	int is_same = n == rest.n && n > 0 && n < TREE_MAX;

	for (int i = 0; i < n; i++) {
		uint64_t used_ns = rest_clock(pids[i]);

		if (pids[i] != rest.pids[i] || used_ns != rest.used_ns[i])
			is_same = 0;
		rest.pids[i] = pids[i];
		rest.used_ns[i] = used_ns;
	}
	rest.n = n;
	rest.is_sure = is_same;
	if (!is_same)
		rest.number++;
	return rest.number;
}

uint64_t rest_noted(void)
{
	return rest.number;
}

int rest_since(uint64_t number)
{
	if (!rest.is_sure || rest.number != number)
		return 0;
	for (int i = 0; i < rest.n; i++)
		if (rest_clock(rest.pids[i]) != rest.used_ns[i]) {
			rest.is_sure = 0;
			rest.number++;
			return 0;
		}
	return 1;
}

uint64_t rest_used_ns(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < rest.n; i++) {
		uint64_t used_ns = rest_clock(rest.pids[i]);

		sum += used_ns > rest.used_ns[i] ? used_ns - rest.used_ns[i] : 0;
	}
	return sum;
}

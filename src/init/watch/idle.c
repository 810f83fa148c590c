/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch/idle.h"

#include <asm/unistd.h>
#include <linux/time.h>

#include "bare/raw.h"
#include "init/tree.h"

static struct {
	uint64_t number;
	int is_sure; /* two lists in a row were the same */
	int n;
	struct {
		int pid;
		uint64_t used_ns;
	} seen[TREE_MAX];
} idle;

uint64_t idle_clock(int pid)
{
	struct __kernel_timespec ts = { 0, 0 };
	long clock = (long)(~(unsigned long)pid << 3 | 2);

	if (raw_syscall(__NR_clock_gettime, (int)clock, RAW_ARG(&ts), 0, 0, 0, 0) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t idle_note(const int *pids, int n)
{
	int is_same = n == idle.n && n > 0 && n < TREE_MAX;

	for (int i = 0; i < n; i++) {
		uint64_t used_ns = idle_clock(pids[i]);

		if (pids[i] != idle.seen[i].pid || used_ns != idle.seen[i].used_ns)
			is_same = 0;
		idle.seen[i].pid = pids[i];
		idle.seen[i].used_ns = used_ns;
	}
	idle.n = n;
	idle.is_sure = is_same;
	if (!is_same)
		idle.number++;
	return idle.number;
}

uint64_t idle_noted(void)
{
	return idle.number;
}

int idle_since(uint64_t number)
{
	if (!idle.is_sure || idle.number != number)
		return 0;
	for (int i = 0; i < idle.n; i++)
		if (idle_clock(idle.seen[i].pid) != idle.seen[i].used_ns) {
			idle.is_sure = 0;
			idle.number++;
			return 0;
		}
	return 1;
}

uint64_t idle_used_ns(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < idle.n; i++) {
		uint64_t used_ns = idle_clock(idle.seen[i].pid), before = idle.seen[i].used_ns;

		sum += used_ns > before ? used_ns - before : 0;
	}
	return sum;
}

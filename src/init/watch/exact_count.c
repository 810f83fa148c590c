/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch/exact_count.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/tree.h"

#define SLICE_NS (5 * MS)
#define PATIENCE_NS (400 * MS)
#define DYING_NS (20 * MS)

static struct {
	struct init *in;
	struct memory result;
	int is_done;
	int pid_fd; /* of one that was given up and is not dead yet; 0 = none */
} exact;

static int count(void *arg)
{
	(void)arg;
	memory_exact(exact.in, &exact.result);
	__atomic_store_n(&exact.is_done, 1, __ATOMIC_RELEASE);
	return 0;
}

static long wait_on(struct poll_entry *entries, int n, uint64_t ns)
{
	const struct duration timeout = duration_of(ns);

	return poll_wait(entries, n, &timeout);
}

static void bury(struct init *in, int pid_fd)
{
	close_fd(pid_fd);
	exact.pid_fd = in->exact_pid = 0;
}

/* No other count may use the same memory until it is gone. */
static int is_gone(struct init *in)
{
	struct poll_entry entry = { exact.pid_fd, WAIT_IN, 0 };

	if (exact.pid_fd == 0)
		return 1;
	if (wait_on(&entry, 1, 0) <= 0)
		return 0;
	bury(in, exact.pid_fd);
	return 1;
}

static enum exact_result give_up(struct init *in, int pid_fd, enum exact_result result)
{
	struct poll_entry entry = { pid_fd, WAIT_IN, 0 };

	raw_syscall(__NR_kill, in->exact_pid, SIGKILL_NR, 0, 0, 0, 0);
	exact.pid_fd = pid_fd;
	if (wait_on(&entry, 1, DYING_NS) > 0)
		bury(in, pid_fd);
	return result;
}

enum exact_result exact_count(struct init *in, struct memory *ret)
{
	static char stack[65536] __attribute__((aligned(16)));
	uint64_t began_ns = now_ns();
	struct poll_entry entries[3] = { { 0, WAIT_IN, 0 },
					 { CTL_FD, WAIT_IN, 0 },
					 { in->supervisor_fd, WAIT_IN, 0 } };
	int ended = 0;
	long pid;

	if (!is_gone(in))
		return EXACT_LATE;
	exact.in = in;
	exact.is_done = 0;
	pid = tree_make_helper(in, stack, sizeof(stack), &entries[0].fd, count, &in->exact_pid);
	/* Init never counts itself, even if no process can be made: the guest can provoke that. */
	if (pid < 0)
		return EXACT_LATE;
	for (;;) {
		uint64_t now;

		wait_on(entries, 3, SLICE_NS);
		if (entries[0].revents) {
			bury(in, entries[0].fd);
			if (!__atomic_load_n(&exact.is_done, __ATOMIC_ACQUIRE))
				return EXACT_LATE;
			*ret = exact.result;
			return EXACT_DONE;
		}
		/* The dead count as tasks: do not let them pile up. */
		tree_reap(in, &ended);
		now = now_ns();
		if (ended || entries[1].revents || entries[2].revents ||
		    now >= in->limits.deadline_ns || now >= in->kill_at_ns)
			return give_up(in, entries[0].fd, EXACT_INTERRUPTED);
		if (now - began_ns > PATIENCE_NS ||
		    (in->limits.memory_bytes && memory_at_least(in) > in->limits.memory_bytes))
			return give_up(in, entries[0].fd, EXACT_LATE);
	}
}

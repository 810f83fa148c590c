/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the broker that allows new tasks, for runs as uid 0 at level `landlock`: the kernel
 * does not hold RLIMIT_NPROC against that user, and there is no namespace to count in.
 *
 * Theory of operation. The filter hands fork, vfork and clone to us. While there is room the kernel
 * goes on with the call; it is all in registers, and which kind of task it makes was the filter's
 * to decide. We count the tree only when the room that the last count found is used up. A task that
 * was allowed to go on may not have made its child yet when we count: until it asks again, sleeps
 * or ends, or some time has passed, its child is counted as well.
 *
 * Once the tree is to end nothing is answered any more (serve.c). So the tree can only shrink, and
 * killing it comes to an end however fast its tasks replace one another.
 */
#include "init/init.h"

#include <linux/errno.h>

#include "bare/wait.h"
#include "init/broker/broker.h"
#include "init/broker/parts.h"
#include "init/procfs.h"
#include "init/tree.h"

#define ALLOWED_MAX 512
#define RECENT_NS (100 * MS) /* on a busy machine a task may wait so long for a CPU */
#define TRIES 20	     /* counts with a pause in between, before a new task is refused */
#define STAT_MAX 512

static struct {
	uint64_t room; /* left of what the last count found */
	struct {
		int tid; /* 0 = none */
		uint64_t at_ns;
	} allowed[ALLOWED_MAX]; /* a ring */
	unsigned next;
	uint64_t lost_ns;	/* when the last one was allowed that has left the ring */
	int pids[2 * TREE_MAX]; /* room for tree_count() */
} tasks;

/* It asks again, so it is done with what it was allowed before. */
static void forget(int tid)
{
	for (unsigned i = 0; i < ALLOWED_MAX; i++)
		if (tasks.allowed[i].tid == tid)
			tasks.allowed[i].tid = 0;
}

static void note(int tid, uint64_t now)
{
	unsigned i = tasks.next++ % ALLOWED_MAX;

	if (tasks.allowed[i].tid)
		tasks.lost_ns = tasks.allowed[i].at_ns;
	tasks.allowed[i].tid = tid;
	tasks.allowed[i].at_ns = now;
}

/* Is the task running, or in a wait that belongs to making another one? */
static int is_at_it(const struct broker *b, int tid)
{
	char text[STAT_MAX];
	long n = proc_read(b->in->proc_fd, tid, "stat", text, sizeof(text));

	/* Behind the name, which the guest chooses: it is the last that is in parentheses. */
	while (n > 0 && text[n - 1] != ')')
		n--;
	return n > 0 && (text[n + 1] == 'R' || text[n + 1] == 'D');
}

/* Tasks that may be about to appear. */
static uint64_t count_coming(const struct broker *b, uint64_t now)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < ALLOWED_MAX; i++) {
		if (!tasks.allowed[i].tid)
			continue;
		if (now - tasks.allowed[i].at_ns > RECENT_NS || !is_at_it(b, tasks.allowed[i].tid))
			tasks.allowed[i].tid = 0;
		else
			n++;
	}
	return now - tasks.lost_ns > RECENT_NS ? n : b->tasks_max;
}

/* Where the tree cannot be counted at all the run must end: *ret_error says why. */
static uint64_t find_room(const struct broker *b, long *ret_error)
{
	for (int i = 0; i < TRIES && !__atomic_load_n(&b->tasks_shut, __ATOMIC_SEQ_CST); i++) {
		uint64_t coming = count_coming(b, now_ns());
		long n = tree_count(b->in, tasks.pids);

		if (n >= 0 && (uint64_t)n + coming < b->tasks_max)
			return b->tasks_max - (uint64_t)n - coming;
		*ret_error = n < 0 && n != -EAGAIN ? n : 0;
		if (n >= 0 && (uint64_t)n >= b->tasks_max)
			return 0;
		sleep_ns(MS);
	}
	return 0;
}

long broker_new_task(struct broker *b, int tid)
{
	long error = 0;

	forget(tid);
	if (tasks.room == 0)
		tasks.room = find_room(b, &error);
	if (tasks.room == 0 && error) {
		__atomic_store_n(&b->tasks_error, error, __ATOMIC_SEQ_CST);
		broker_shut_tasks();
	} else if (tasks.room == 0) {
		__atomic_store_n(&b->tasks_refused, 1, __ATOMIC_SEQ_CST);
	}
	if (tasks.room == 0)
		return -EAGAIN;
	tasks.room--;
	note(tid, now_ns());
	return BROKER_GO_ON;
}

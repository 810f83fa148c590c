/* SPDX-License-Identifier: Apache-2.0 */
#include "init/pause.h"

#include <asm/unistd.h>

#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/procfs.h"
#include "init/tree.h"

#define TICK_NS (10 * MS) /* USER_HZ */
#define STOPPED_MAX 1024
#define PARENTS_MAX 256 /* in larger trees that takes too many looks ... */
#define MOMENT_NS 20000
#define PARENTS_NS (30 * MS) /* ... or too long */
#define STAT_MAX 512
#define STATUS_MAX 2048

static struct {
	unsigned reasons;
	int was_stopped[STOPPED_MAX]; /* by the tree itself */
	int n_was_stopped;
} paused;

static int contains(const int *list, int n, int pid)
{
	for (int i = 0; i < n; i++)
		if (list[i] == pid)
			return 1;
	return 0;
}

/* The name in front of the fields is the guest's and may contain anything; the last parenthesis
 * ends it. */
char tree_stat(const struct init *in, int pid, uint64_t *ret_children_ns, int *ret_parent)
{
	char text[STAT_MAX], *s, state;
	uint64_t field[15];
	long n = proc_read(in->proc_fd, pid, "stat", text, sizeof(text));

	*ret_children_ns = 0;
	*ret_parent = 0;
	for (s = text + (n > 0 ? n : 0); s > text && *s != ')'; s--)
		;
	if (s == text || s[1] != ' ')
		return 0;
	state = s[2];
	if (proc_numbers(s + 3, field, 14) != 14)
		return state;
	*ret_parent = (int)field[0];
	*ret_children_ns = (field[12] + field[13]) * TICK_NS;
	return state;
}

/*
 * Whether the tree itself has stopped a process: it stands, or it will as soon as it runs. Such a
 * signal must not be lost in ours, which is taken back by SIGCONT: someone may wait for the stop.
 */
static int is_stopped(const struct init *in, int pid, int *ret_parent)
{
	char text[STATUS_MAX];
	long n = proc_read(in->proc_fd, pid, "status", text, sizeof(text));
	const char *state = n > 0 ? proc_find(text, "State:") : NULL;

	*ret_parent = state ? (int)proc_field(text, "PPid:") : 0;
	if (!state)
		return 0;
	return *state == 'T' ||
	       ((proc_mask(text, "SigPnd:") | proc_mask(text, "ShdPnd:")) & SIGNAL_BIT(SIGSTOP_NR));
}

static void note_stopped(int pid)
{
	if (paused.n_was_stopped < STOPPED_MAX)
		paused.was_stopped[paused.n_was_stopped++] = pid;
}

/*
 * A parent that waits for its children may be told that one of them was stopped, unless it stops
 * first. So parents are stopped before the others, one after the other, as long as that is quick;
 * the kernel lists them in the order in which they were made. Processes made meanwhile are stopped
 * with the others.
 */
static void stop_parents(struct init *in, const int *pids, const int *parents, int n)
{
	uint64_t unused, give_up_ns = now_ns() + PARENTS_NS;
	int parent;

	for (int i = 0; i < n; i++) {
		if (!contains(parents, n, pids[i]))
			continue;
		tree_signal_one(in, SIGSTOP_NR, i, pids, n);
		while (now_ns() < give_up_ns) {
			char state = tree_stat(in, pids[i], &unused, &parent);

			if (state == 'T' || state == 't' || state == 'Z' || state == 0)
				break;
			sleep_ns(MOMENT_NS);
		}
	}
}

/* Parents, which stand by now, may have stopped a child after it was looked at. */
static void look_again(const struct init *in, const int *pids, const int *parents, int n)
{
	int parent;

	for (int i = 0; i < n; i++)
		if (!contains(parents, n, pids[i]) &&
		    !contains(paused.was_stopped, paused.n_was_stopped, pids[i]) &&
		    is_stopped(in, pids[i], &parent))
			note_stopped(pids[i]);
}

void tree_pause(struct init *in, enum pause_reason why)
{
	static int pids[TREE_MAX], parents[TREE_MAX];
	unsigned before = paused.reasons;
	int n;

	paused.reasons |= why;
	if (before)
		return;
	n = tree_list(in, pids);
	paused.n_was_stopped = 0;
	for (int i = 0; i < n; i++)
		if (is_stopped(in, pids[i], &parents[i]))
			note_stopped(pids[i]);
	if (n <= PARENTS_MAX) {
		stop_parents(in, pids, parents, n);
		look_again(in, pids, parents, n);
	}
	tree_signal(in, SIGSTOP_NR);
}

void tree_resume(struct init *in, enum pause_reason why)
{
	unsigned before = paused.reasons;

	paused.reasons &= ~(unsigned)why;
	if (!before || paused.reasons)
		return;
	tree_continue(in, paused.was_stopped, paused.n_was_stopped);
	/* Helpers of our own were stopped with it. */
	if (in->exact_pid)
		raw_syscall(__NR_kill, in->exact_pid, SIGCONT_NR, 0, 0, 0, 0);
	if (in->disk_pid)
		raw_syscall(__NR_kill, in->disk_pid, SIGCONT_NR, 0, 0, 0, 0);
}

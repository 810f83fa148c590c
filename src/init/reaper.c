/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1: waits, reaps, forwards signals, and ends with the supervisor.
 *
 * Nothing the guest does reaches this loop except the death of its processes: all signals are
 * blocked and have no handler, so a signal from inside is at most a wake-up. The result is told
 * before this process tears itself (and the namespaces) down, but only once the tree is gone.
 */
#include "init/init.h"

#include <asm/unistd_64.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/resource.h>
#include <linux/time.h>

#include "sys/raw.h"

#define WNOHANG 1
#define WALL 0x40000000
#define SIGKILL_NR 9
#define SIGCHLD_NR 17
#define POLL_IN 1
#define POLL_PRI 2
#define SFD_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define SIGNALFD_SIGINFO_BYTES 128
#define CHILDREN_TEXT_MAX 4096
#define CHILDREN_FILE "/proc/thread-self/children" /* CONFIG_PROC_CHILDREN */

struct poll_entry {
	int fd;
	short events, revents;
};

/* Reaps everything that is dead; 1 when no child is left, 0 when some live. */
static int reap(struct init *in, int *command_ended)
{
	for (;;) {
		int status = 0;
		long pid = raw4(__NR_wait4, -1, &status, WNOHANG | WALL, 0);

		if (pid == -ECHILD)
			return 1;
		if (pid <= 0)
			return 0;
		if (pid == in->payload_pid) {
			in->report.wait_status = status;
			*command_ended = 1;
		}
	}
}

static long open_children(void)
{
	return raw_syscall(__NR_openat, AT_FDCWD, (long)CHILDREN_FILE, O_RDONLY | O_CLOEXEC, 0, 0,
			   0);
}

long children_check(void)
{
	long fd = open_children();

	if (fd >= 0)
		raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
	return fd < 0 ? fd : 0;
}

/*
 * Level `landlock` has no pid namespace: every descendant is, or becomes when its parent dies, a
 * child of this subreaper. Killing all children until there are none ends the tree.
 */
static void kill_children(void)
{
	char text[CHILDREN_TEXT_MAX];
	long fd, n, pid = 0;

	fd = open_children();
	if (fd < 0)
		return;
	while ((n = raw3(__NR_read, fd, text, sizeof(text))) > 0)
		for (long i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 1)
				raw_syscall(__NR_kill, pid, SIGKILL_NR, 0, 0, 0, 0);
			pid = 0;
		}
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
}

static void kill_tree(struct init *in)
{
	const struct {
		long sec, nsec;
	} pause = { 0, 1000000 };
	int ended;

	if (in->plan->level == PLAN_LEVEL_NAMESPACES) {
		/* Everything but us, in one stroke of the kernel's. */
		raw_syscall(__NR_kill, -1, SIGKILL_NR, 0, 0, 0, 0);
		while (raw_syscall(__NR_wait4, -1, 0, WALL, 0, 0, 0) != -ECHILD)
			;
		return;
	}
	while (!reap(in, &ended)) {
		kill_children();
		raw_syscall(__NR_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	}
}

static void send_report(struct init *in)
{
	struct rusage usage;
	struct __kernel_timespec ts = { 0, 0 };

	memset(&usage, 0, sizeof(usage));
	raw_syscall(__NR_getrusage, RUSAGE_CHILDREN, (long)&usage, 0, 0, 0, 0);
	raw_syscall(__NR_clock_gettime, CLOCK_MONOTONIC, (long)&ts, 0, 0, 0, 0);
	in->report.type = WIRE_ENDED;
	in->report.ended_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	in->report.user_us =
		(uint64_t)usage.ru_utime.tv_sec * 1000000u + (uint64_t)usage.ru_utime.tv_usec;
	in->report.system_us =
		(uint64_t)usage.ru_stime.tv_sec * 1000000u + (uint64_t)usage.ru_stime.tv_usec;
	in->report.max_rss_kib = (uint64_t)usage.ru_maxrss;
	raw_syscall(__NR_write, CTL_FD, (long)&in->report, sizeof(in->report), 0, 0, 0);
}

static void __attribute__((noreturn)) leave(void)
{
	for (;;)
		raw_syscall(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

/* One order from the supervisor; 1 when the tree must end now. */
static int obey(struct init *in)
{
	struct wire_order order;
	int r = receive_order(&order);

	if (r < 0)
		return 1;
	if (r > 0 && order.type == WIRE_KILL)
		return 1;
	if (r > 0 && order.type == WIRE_SIGNAL)
		raw_syscall(__NR_kill, -in->payload_pid, order.arg, 0, 0, 0, 0);
	return 0;
}

void open_signals(struct init *in)
{
	const uint64_t mask = (uint64_t)1 << (SIGCHLD_NR - 1);
	long fd = raw4(__NR_signalfd4, -1, &mask, sizeof(mask), SFD_FLAGS);

	if (fd < 0)
		fail(in, STAGE_EXEC, 8, fd);
	in->signal_fd = (int)fd;
}

/*
 * From now on no mount changes by itself: nobody inside can mount, and nothing propagates here. But
 * whoever replaces or removes a covered name on the host (an editor, `git config`) takes its cover
 * away, here too, and that must not be used.
 */
void watch_mounts(struct init *in)
{
	long fd = raw4(__NR_openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		fail(in, STAGE_MOUNTS, 16, fd);
	in->mounts_fd = (int)fd;
}

static void __attribute__((noreturn)) end_uncovered(struct init *in)
{
	kill_tree(in);
	fail(in, STAGE_MOUNTS, 17, -EOWNERDEAD);
}

/* The supervisor wants it so, or is gone. */
static void __attribute__((noreturn)) end_early(struct init *in)
{
	kill_tree(in);
	broker_stop();
	if (in->scratch)
		sweep_scratch(in->scratch);
	leave();
}

void supervise(struct init *in)
{
	struct poll_entry poll[4] = { { CTL_FD, POLL_IN, 0 },
				      { in->supervisor_fd, POLL_IN, 0 },
				      { in->signal_fd, POLL_IN, 0 },
				      { in->mounts_fd, POLL_PRI, 0 } };
	char info[SIGNALFD_SIGINFO_BYTES];
	int command_ended = 0, none_left;

	for (;;) {
		none_left = reap(in, &command_ended);
		if (command_ended || none_left)
			break;
		raw_syscall(__NR_ppoll, (long)poll, 4, 0, 0, 8, 0);
		if (poll[3].revents)
			end_uncovered(in);
		if (poll[1].revents || (poll[0].revents && obey(in)))
			end_early(in);
		if (poll[2].revents)
			while (raw_syscall(__NR_read, poll[2].fd, (long)info, sizeof(info), 0, 0,
					   0) > 0)
				;
	}
	if (!none_left)
		kill_tree(in);
	broker_stop();
	/* Before the report: from then on a killed supervisor would leave it behind. */
	if (in->scratch)
		sweep_scratch(in->scratch);
	send_report(in);
	leave();
}

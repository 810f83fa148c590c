/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1: waits, reaps, forwards signals, and ends with the supervisor.
 *
 * Nothing the guest does reaches this loop except the death of its processes: all signals are
 * blocked and have no handler, so a signal from inside is at most a wake-up. The result is reported
 * once the tree is gone, before this process (and with it the namespaces) ends.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/resource.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/broker/broker.h"
#include "init/commands.h"
#include "init/pause.h"
#include "init/tree.h"
#include "init/watch/watch.h"

#define SFD_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define SIGNALFD_SIGINFO_BYTES 128
#define NEVER (~(uint64_t)0)
#define POLLED 8
#define LASTING_NS (100 * MS) /* shorter runs need not be thrifty */
#define STACK_IN_USE 1024     /* below a frame that calls nothing but the kernel */
#define STACK_GIVEN_BACK (128 << 10)

static void send_report(struct init *in, uint32_t type)
{
	struct rusage usage;

	memset(&usage, 0, sizeof(usage));
	raw_syscall(__NR_getrusage, RUSAGE_CHILDREN, (long)&usage, 0, 0, 0, 0);
	in->report.type = type;
	in->report.ended_ns = now_ns();
	in->report.user_us =
		(uint64_t)usage.ru_utime.tv_sec * 1000000u + (uint64_t)usage.ru_utime.tv_usec;
	in->report.system_us =
		(uint64_t)usage.ru_stime.tv_sec * 1000000u + (uint64_t)usage.ru_stime.tv_usec;
	/* Children that were never waited for are missing here, but some were seen while they
	 * lived.
	 */
	if (!cgroup_cpu_used(in, &in->report.user_us, &in->report.system_us) &&
	    cpu_observed_us() > in->report.user_us + in->report.system_us)
		in->report.user_us = cpu_observed_us() - in->report.system_us;
	/* The kernel does not miss a large process that lived only briefly; but its figure includes
	 * file pages, which do not count. */
	if ((uint64_t)usage.ru_maxrss * 1024 > in->report.memory_bytes + in->file_bytes)
		in->report.memory_bytes = (uint64_t)usage.ru_maxrss * 1024 - in->file_bytes;
	raw_syscall(__NR_write, CTL_FD, (long)&in->report, sizeof(in->report), 0, 0, 0);
}

static void __attribute__((noreturn)) leave(void)
{
	for (;;)
		raw_syscall(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

void open_signals(struct init *in)
{
	const uint64_t mask = (uint64_t)1 << (SIGCHLD_NR - 1);
	long fd = raw4(__NR_signalfd4, -1, &mask, sizeof(mask), SFD_FLAGS);

	if (fd < 0)
		fail(in, STAGE_EXEC, STEP_EXEC_SIGNALFD, fd);
	in->signal_fd = (int)fd;
}

/*
 * From now on no mount should change: nothing inside can mount, and nothing propagates here. But a
 * program on the host that replaces or removes a covered name (an editor, `git config`) removes the
 * cover here, too, and the guest must not profit from that.
 */
void monitor_mounts(struct init *in)
{
	long fd = raw4(__NR_openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_WATCH, fd);
	in->mounts_fd = (int)fd;
	covers_count(in);
	fd = tree_open(in);
	if (fd < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_PROC, fd);
}

/* @step: of the plan, whose name has no cover any more; 0 = not known yet. */
static void __attribute__((noreturn)) end_uncovered(struct init *in, uint32_t step)
{
	cgroup_release_cpu(in);
	tree_kill(in);
	in->report.uncovered = step ? step : covers_lost(in);
	fail(in, STAGE_MOUNTS, STEP_MOUNTS_UNCOVERED, -EOWNERDEAD);
}

/* The tree is stopped until the supervisor has had the name covered again; or it ends. */
static void lose_cover(struct init *in, uint32_t step)
{
	long swapped;

	covers_note(in);
	step = step ? step : covers_lost(in);
	if (!step) {
		/* Something that was put aside is removed, or got a name of ours with its cover. */
		swapped = covers_swapped(in);
		if (swapped == 0)
			return;
		/* One may have been lost just now. */
		step = swapped < 0 ? covers_lost(in) : (uint32_t)swapped;
	}
	if (!step || !covers_can_again(in, step))
		end_uncovered(in, step);
	tree_pause(in, PAUSE_COVERS);
	in->is_uncovered = 1;
	in->report.uncovered = step;
	send_report(in, CONTROL_UNCOVERED);
}

static void __attribute__((noreturn)) end_unwatched(struct init *in)
{
	cgroup_release_cpu(in);
	tree_kill(in);
	broker_stop();
	fail(in, STAGE_LIMITS, STEP_LIMITS_WATCH, in->watch_error);
}

/* The host may have replaced a name a moment before the end, and the command changed the new
 * object. */
static void tell_lost_covers(struct init *in)
{
	uint32_t step = in->plan->level == PLAN_LEVEL_NAMESPACES ? covers_left_bare(in, 0) : 0;

	for (; step; step = covers_left_bare(in, step)) {
		in->report.uncovered = step;
		send_report(in, CONTROL_BARE);
	}
	in->report.uncovered = 0;
}

/* Ends the tree, whatever it does, and tells about it. */
static void __attribute__((noreturn)) end_tree(struct init *in)
{
	if (!in->report.command_ended_ns)
		in->report.command_ended_ns = now_ns();
	cgroup_release_cpu(in);
	tree_kill(in);
	broker_stop();
	cgroup_check_memory(in);
	watch_end(in);
	tell_net_attempts(in);
	tell_lost_covers(in);
	tell_lost_files(in);
	/* Before the report: from then on a killed supervisor would leave it behind. */
	if (in->scratch)
		sweep_scratch(in->scratch);
	/* Nothing can change it any more; the supervisor keeps the lock as long as it needs. */
	close_fd(in->lock_fd);
	send_report(in, CONTROL_ENDED);
	leave();
}

/* The tree has until then to end by itself. */
static void begin_grace(struct init *in)
{
	uint64_t end = now_ns() + in->limits.grace_ns;

	watch_release(in);
	cgroup_release_cpu(in);
	if (end < in->kill_at_ns)
		in->kill_at_ns = end;
	in->limits.deadline_ns = NEVER;
}

/* The time is over: every process is asked to end, also those that do not run at the moment. */
static void end_in_time(struct init *in)
{
	in->report.limit = CONTROL_LIMIT_WALL;
	if (in->limits.grace_ns == 0 || in->is_uncovered)
		end_tree(in);
	begin_grace(in);
	tree_signal(in, SIGTERM_NR);
	tree_signal(in, SIGCONT_NR);
}

/* 1 when the tree must end now. */
static int carry_out(struct init *in, const struct control_order *order)
{
	/* A session has no command of its own: all that runs in it is meant. */
	if (is_session(in) && order->type == CONTROL_END && in->limits.grace_ns > 0) {
		in->report.on_order = 1;
		commands_resume(in);
		begin_grace(in);
		tree_signal(in, (int)order->arg);
		tree_signal(in, SIGCONT_NR);
		return 0;
	}
	if (is_session(in) && order->type == CONTROL_SIGNAL)
		return 0;
	switch (order->type) {
	case CONTROL_KILL:
		in->report.on_order = 1;
		return 1;
	case CONTROL_END:
		in->report.on_order = 1;
		if (in->limits.grace_ns == 0)
			return 1;
		begin_grace(in);
		raw_syscall(__NR_kill, -in->payload_pid, order->arg, 0, 0, 0, 0);
		raw_syscall(__NR_kill, -in->payload_pid, SIGCONT_NR, 0, 0, 0, 0);
		return 0;
	case CONTROL_SIGNAL:
		raw_syscall(__NR_kill, -in->payload_pid, order->arg, 0, 0, 0, 0);
		return 0;
	case CONTROL_UNCOVERABLE:
		end_uncovered(in, order->arg);
	default:
		return 0;
	}
}

/*
 * What was covered changed the mounts, too, and the host may have done something since. So the
 * names are looked at until nothing has changed any more.
 */
static int go_on(struct init *in)
{
	struct control_order late = in->late_order;
	long swapped;

	if (!in->is_uncovered)
		return 0;
	if (covers_changed(in)) {
		in->report.uncovered = covers_lost(in);
		send_report(in, CONTROL_UNCOVERED);
		return 0;
	}
	swapped = covers_swapped(in);
	if (swapped != 0) {
		in->report.uncovered = swapped < 0 ? covers_lost(in) : (uint32_t)swapped;
		if (!in->report.uncovered)
			end_uncovered(in, 0);
		send_report(in, CONTROL_UNCOVERED);
		return 0;
	}
	in->is_uncovered = 0;
	in->report.uncovered = 0;
	tree_resume(in, PAUSE_COVERS);
	commands_start_waiting(in);
	in->late_order.type = 0;
	return late.type ? carry_out(in, &late) : 0;
}

/* An order about a session's commands; 0 = it is another one. */
static int obey_session(struct init *in, const struct control_order *order, const int *fds, int n)
{
	switch (order->type) {
	case CONTROL_EXEC:
		command_take(in, order, fds, n);
		return 1;
	case CONTROL_EXEC_SIGNAL:
		command_signal(in, order);
		return 1;
	case CONTROL_EXEC_END:
		command_end(in, order);
		return 1;
	case CONTROL_PAUSE:
		commands_pause(in);
		return 1;
	case CONTROL_RESUME:
		commands_resume(in);
		return 1;
	case CONTROL_COUNT:
		commands_count(in);
		return 1;
	default:
		return 0;
	}
}

/* One order from the supervisor; 1 when the tree must end now. */
static int obey(struct init *in)
{
	struct control_order order;
	int fds[CONTROL_FDS_MAX], n_fds, r = receive_order(&order, fds, &n_fds);

	if (r <= 0)
		return r < 0;
	if (is_session(in) && obey_session(in, &order, fds, n_fds))
		return 0;
	for (int i = 0; i < n_fds; i++)
		close_fd(fds[i]);
	/* Also one that will come too late: it tells which stops the supervisor knows of. */
	in->report.n_continued += order.type == CONTROL_SIGNAL && order.arg == SIGCONT_NR;
	if (order.type == CONTROL_RENEWED) {
		covers_renewed(in, order.arg, order.count);
		return 0;
	}
	if (order.type == CONTROL_GO_ON)
		return go_on(in);
	if (order.type == CONTROL_BEGIN) {
		if (in->kill_at_ns == NEVER && order.limits.deadline_ns)
			in->limits.deadline_ns = order.limits.deadline_ns;
		return 0;
	}
	/* A signal would make it go on. To end comes before any other. */
	if (in->is_uncovered && (order.type == CONTROL_SIGNAL || order.type == CONTROL_END)) {
		if (in->late_order.type != CONTROL_END)
			in->late_order = order;
		return 0;
	}
	return carry_out(in, &order);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* For how long there is nothing to do by itself. */
static uint64_t idle_ns(const struct init *in, uint64_t watch_ns)
{
	uint64_t now = now_ns(), end = sooner(in->limits.deadline_ns, in->kill_at_ns);

	if (in->more_dead)
		return 0;
	if (is_session(in))
		end = sooner(end, commands_next());
	end = sooner(end > now ? end - now : 0, watch_ns);
	return in->is_uncovered ? end : sooner(end, covers_next(now));
}

/* As the supervisor does (cmd_run.c): a run may last for hours, and setting up needs more memory
 * than waiting does. */
static void __attribute__((noinline)) give_back(const struct init *in)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) - STACK_IN_USE;

	here &= ~(uintptr_t)(in->page_bytes - 1);
	/* It fails for the part that was never used, after doing the rest. */
	raw_syscall(__NR_madvise, (long)(here - STACK_GIVEN_BACK), STACK_GIVEN_BACK, MADV_DONTNEED,
		    0, 0, 0);
	setup_give_back();
}

static void check_times(struct init *in)
{
	uint64_t now = now_ns();

	if (!in->is_lasting && now - in->report.stamps_ns[STAGE_EXEC] >= LASTING_NS) {
		in->is_lasting = 1;
		give_back(in);
	}
	if (now >= in->kill_at_ns)
		end_tree(in);
	if (now >= in->limits.deadline_ns)
		end_in_time(in);
	if (is_session(in))
		commands_tick(in, now);
}

/* Waits for something to happen, or for the watch's next look, or for the end of the time. */
static void wait_for_event(struct init *in, struct poll_entry poll[POLLED], uint64_t watch_ns)
{
	char info[SIGNALFD_SIGINFO_BYTES];
	const struct duration timeout = duration_of(idle_ns(in, watch_ns));
	uint32_t lost;

	for (int i = 0; i < POLLED; i++)
		poll[i].revents = 0;
	poll_wait(poll, POLLED, &timeout);
	lost = in->is_uncovered ? 0 : covers_check(in, poll[7].revents);
	if (poll[3].revents || lost)
		lose_cover(in, lost);
	if (poll[1].revents || (poll[0].revents && obey(in)))
		end_tree(in);
	if (poll[2].revents)
		while (raw_syscall(__NR_read, poll[2].fd, (long)info, sizeof(info), 0, 0, 0) > 0)
			;
	if (poll[4].revents)
		cgroup_check_memory(in);
	if (poll[5].revents)
		serve_gateway(in);
	poll[3].fd = in->is_uncovered ? -1 : in->mounts_fd;
	poll[7].fd = in->is_uncovered ? -1 : in->moves_fd;
	poll[5].fd = in->proxy_fd < 0 ? in->gateway_fd : -1;
	if (poll[6].revents && !watch_net_attempts(in))
		poll[6].fd = -1;
	check_times(in);
}

void supervise(struct init *in)
{
	struct poll_entry poll[POLLED] = { { CTL_FD, WAIT_IN, 0 },
					   { in->supervisor_fd, WAIT_IN, 0 },
					   { in->signal_fd, WAIT_IN, 0 },
					   { in->mounts_fd, WAIT_PRI, 0 },
					   { in->cgroup_fds[0], WAIT_PRI, 0 },
					   /* at level landlock it only listens */
					   { in->proxy_fd < 0 ? in->gateway_fd : -1, WAIT_IN, 0 },
					   { in->attempts_fd, WAIT_IN, 0 },
					   { in->moves_fd, WAIT_IN, 0 } };
	int command_ended = 0, none_left;

	if (in->limits.deadline_ns == 0)
		in->limits.deadline_ns = NEVER;
	in->kill_at_ns = NEVER;
	watch_start(in);
	for (;;) {
		uint64_t next;

		none_left = tree_reap(in, &command_ended);
		if (is_session(in)) {
			in->is_empty = none_left;
			commands_tell(in);
			none_left = in->is_empty && in->kill_at_ns != NEVER;
		}
		/* The watch reaps, too, while it waits for something. */
		command_ended |= in->has_status;
		if (command_ended && !in->report.command_ended_ns) {
			in->report.command_ended_ns = now_ns();
			if (in->keep_orphans && !none_left && in->kill_at_ns == NEVER) {
				tell_net_attempts(in);
				send_report(in, CONTROL_ORPHANED);
			}
		}
		if (none_left || (command_ended && (!in->keep_orphans || in->kill_at_ns != NEVER)))
			end_tree(in);
		if (in->was_stopped)
			send_report(in, CONTROL_STOPPED);
		in->was_stopped = 0;
		/* Where nothing runs there is nothing to watch. */
		next = in->is_uncovered || in->is_empty ? NEVER : watch_tick(in);
		if (in->watch_error)
			end_unwatched(in);
		if (in->report.limit != CONTROL_LIMIT_NONE &&
		    in->report.limit != CONTROL_LIMIT_WALL)
			end_tree(in);
		wait_for_event(in, poll, next);
	}
}

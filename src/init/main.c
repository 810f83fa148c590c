/* SPDX-License-Identifier: Apache-2.0 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/time.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/watch/watch.h"

#ifdef CORDON_FAULT_INJECTION
long raw_fault_countdown, raw_fault_errno;
#endif

#define SIGNALS 64

size_t str_len(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

const char *str_at(const struct init *in, uint32_t off)
{
	return (const char *)in->plan + off;
}

void stamp(struct init *in, int stage)
{
	in->report.stamps_ns[stage] = now_ns();
}

void fail(struct init *in, int stage, unsigned op, long negative_errno)
{
	in->report.type = CONTROL_FAILED;
	in->report.stage = (uint32_t)stage;
	in->report.op = op;
	in->report.sys_errno = (int32_t)-negative_errno;
	if (in->scratch)
		sweep_scratch(in->scratch);
	/* Not raw_call: an injected fault must not suppress its own report. */
	raw_syscall(__NR_write, CTL_FD, (long)&in->report, sizeof(in->report), 0, 0, 0);
	for (;;)
		raw_syscall(__NR_exit_group, 1, 0, 0, 0, 0, 0);
}

/* The kernel's out-of-memory killer shall choose the sandbox before anything else. */
static long prefer_as_victim(void)
{
	long r, fd = raw4(__NR_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC,
			  0);

	if (fd < 0)
		return fd;
	r = raw3(__NR_write, fd, "1000", 4);
	close_fd(fd);
	return r;
}

static void block_signals(struct init *in)
{
	const uint64_t all = ~(uint64_t)0;
	long r = raw4(__NR_rt_sigprocmask, SIG_BLOCK_NR, &all, 0, KERNEL_SIGSET_BYTES);

	if (r < 0)
		fail(in, STAGE_START, STEP_START_SIGNALS, r);
}

/*
 * Should: have every signal blocked and no disposition of the caller left, so that nothing the
 * guest or the caller's terminal sends can end or steer init; be unreadable for its own user.
 * Mustn't: need anything from the plan (this part also runs in a parked init).
 */
static void prepare_process(struct init *in)
{
	const struct {
		uintptr_t handler, flags, restorer;
		uint64_t mask;
	} def = { 0, 0, 0, 0 };
	long r;

	block_signals(in);
	for (int sig = 1; sig <= SIGNALS; sig++)
		/* Only KILL and STOP can fail. */
		raw_syscall(__NR_rt_sigaction, sig, (long)&def, 0, KERNEL_SIGSET_BYTES, 0, 0);
	r = prefer_as_victim();
	if (r < 0)
		fail(in, STAGE_START, STEP_START_OOM_SCORE, r);
	r = raw2(__NR_prctl, PR_SET_DUMPABLE, 0);
	if (r < 0)
		fail(in, STAGE_START, STEP_START_DUMPABLE, r);
}

/*
 * The user and pid namespaces came with the clone; the rest is made here, while the supervisor
 * goes on with its plan. All of them belong to the new user namespace.
 */
static void enter_namespaces(struct init *in)
{
	long r;

	start_net(in);
	r = raw1(__NR_unshare, CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP);
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_UNSHARE, r);
}

static void __attribute__((noreturn)) keep_namespace(void)
{
	char byte;

	/* Ends when the supervisor closes the socket, in whatever way. */
	raw_syscall(__NR_read, CTL_FD, (long)&byte, 1, 0, 0, 0);
	for (;;)
		raw_syscall(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

/* It starts nothing and nothing comes to it from the guest, so it needs no more than to survive. */
static void __attribute__((noreturn)) be_janitor(struct init *in)
{
	raw_syscall(__NR_setsid, 0, 0, 0, 0, 0, 0);
	block_signals(in);
	receive_plan(in);
	fail(in, STAGE_START, STEP_START_ORDER, -EBADMSG);
}

/* Takes the plan. If it has only the common steps, carries them out and waits for the full plan. */
static void take_plan(struct init *in, char role)
{
	int namespaces = role == INIT_ROLE_NAMESPACES;

	while (receive_plan(in)) {
		stage_userns(in);
		stage_common(in);
		stage_net(in);
	}
	stamp(in, STAGE_START);
	if ((in->plan->level == PLAN_LEVEL_NAMESPACES) != namespaces)
		fail(in, STAGE_START, STEP_START_LEVEL, -EINVAL);
	/* It was moved into the run's own group since: that is the root that the command sees. */
	if (in->common_done && in->cgroup_fds[0] >= 0) {
		long r = raw1(__NR_unshare, CLONE_NEWCGROUP);

		if (r < 0)
			fail(in, STAGE_USERNS, STEP_USERNS_UNSHARE, r);
	}
}

/* The kernel's size of a page, from the vector behind arguments and environment. */
static uint64_t page_bytes(const long *stack)
{
	const long *at = stack + 1 + stack[0] + 1;

	while (*at)
		at++;
	for (at++; at[0] != AT_NULL; at += 2)
		if (at[0] == AT_PAGESZ)
			return (uint64_t)at[1];
	return ARCH_PAGE_MAX;
}

/* @stack: argc, then the argument vector, as the kernel lays it out. */
__attribute__((noreturn, used)) void init_main(const long *stack);
void init_main(const long *stack)
{
	static struct init in; /* too large for the stack; this program has one of them */
	long argc = stack[0];
	char role = argc >= 2 ? *(const char *)stack[2] : 0;
	int namespaces = role == INIT_ROLE_NAMESPACES;

	in.ruleset_fd = in.root_fd = in.host_fd = in.supervisor_fd = in.mounts_fd = in.proc_fd = -1;
	in.moves_fd = in.channel_fd = -1;
	in.attempts_fd = in.gateway_fd = in.proxy_fd = in.lock_fd = in.upper_fd = in.quotas_fd = -1;
	in.image_fd = -1;
	in.cgroup_fds[0] = in.cgroup_fds[1] = in.cgroup_fds[2] = -1;
	in.page_bytes = page_bytes(stack);
	in.own_pid = (int)raw_syscall(__NR_getpid, 0, 0, 0, 0, 0, 0);
	raw_syscall(__NR_prctl, PR_SET_NAME, (long)"cordon-init", 0, 0, 0, 0);
	/* Only the library makes its namespaces, and without them nothing would end its helpers. */
	if (namespaces && in.own_pid != 1)
		fail(&in, STAGE_START, STEP_START_LEVEL, -EINVAL);
	if (role == INIT_ROLE_JANITOR)
		be_janitor(&in);
	if (role == INIT_ROLE_LANDLOCK && argc == 3)
		in.scratch = (const char *)stack[3];
	if (argc == 4)
		map_self(&in, (const char *)stack[3], (const char *)stack[4]);
	/* A signal to the caller's process group must not kill init: without a pid namespace
	 * nothing else would end the tree. */
	if (role == INIT_ROLE_LANDLOCK)
		raw_syscall(__NR_setsid, 0, 0, 0, 0, 0, 0);
	prepare_process(&in);
	if (role == INIT_ROLE_KEEPER)
		keep_namespace();
	if (namespaces)
		enter_namespaces(&in);
	/* Here rather than later: the supervisor is still planning. */
	limit_caps(&in, namespaces);
	if (namespaces && ((const char *)stack[2])[1] == INIT_PLAN_AT_ONCE)
		make_way_for_net(&in);
	take_plan(&in, role);
	if (namespaces && !in.common_done)
		stage_userns(&in);
	stamp(&in, STAGE_USERNS);
	if (!in.common_done)
		stage_common(&in);
	stage_mounts(&in);
	/* Without a user namespace the grants must be opened before the privilege to do so goes. */
	if (!namespaces)
		stage_userns(&in);
	if (namespaces)
		monitor_mounts(&in);
	stamp(&in, STAGE_MOUNTS);
	if (namespaces) {
		stage_net(&in);
		open_gateway(&in);
		open_net_attempts(&in);
	}
	stamp(&in, STAGE_NET);
	if (namespaces)
		set_quotas(&in);
	stage_caps(&in);
	stamp(&in, STAGE_CAPS);
	open_signals(&in);
	watch_prepare(&in);
	if (in.must_wait)
		receive_go(&in);
	start_payload(&in);
	supervise(&in);
}

/* The second name is for a program that contains this one (arch/own_init_*.s). */
ARCH_START(".globl cordon_init_start\ncordon_init_start:\n", "init_main");

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the command: a child that shares our memory until exec, and enters the last layers.
 *
 * To serve files nothing is executed: a forked copy of this process, with memory of its own, enters
 * the same layers, and we go on watching.
 *
 * Should: give it its own session, the three pipes (or its terminal), the channel if there is one
 * and nothing else open, the caller's umask, its limits, Landlock, the filter, in this order, and
 * only then execute it.
 * Mustn't: execute anything if one of these failed.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "bare/clone.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/broker/broker.h"
#include "init/commands.h"
#include "init/files/files.h"
#include "init/watch/watch.h"
#include "plan/command_read.h"
#include "seccomp/seccomp.h"

#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self 446
#endif

#define ARGS_MAX 65540 /* COMMAND_STRINGS_MAX and the ends of three lists fit */
#define MOVED_FD 16
#define FIRST_FD 3 /* after the standard streams */
#define RLIMIT_NOFILE_NR 7

/* What nothing needs any more once the command runs: whole pages, which can be given back. */
static struct {
	char stack[16384] __attribute__((aligned(ARCH_PAGE_MAX)));
	const char *pointers[ARGS_MAX]; /* argv, envp and, of a session's command, its paths */
} setup __attribute__((aligned(ARCH_PAGE_MAX)));

char *setup_stack(size_t *ret_size)
{
	*ret_size = sizeof(setup.stack);
	return setup.stack;
}

void setup_give_back(void)
{
	/* Without it nothing is lost but memory. */
	raw_syscall(__NR_madvise, RAW_ARG(&setup), sizeof(setup), MADV_DONTNEED, 0, 0, 0);
}

struct payload {
	struct init *in;
	const char **argv, **envp;
	int image_fd; /* -1 = exec_path is executed */
	int tell_fd;  /* the server's pipe to us, -1 = it shares our memory and can write here */
	int is_server;
	int stage;
	unsigned op;
	long error;
};

/* What the server's process reports when it has entered its layers or failed to. */
struct server_report {
	int stage;
	unsigned op;
	long error;
	uint64_t stamps_ns[sizeof(((struct control_report *)0)->stamps_ns) / sizeof(uint64_t)];
};

static int give_up(struct payload *p, int stage, unsigned op, long error)
{
	p->stage = stage;
	p->op = op;
	p->error = error;
	return 1;
}

static long set_stdio(const struct init *in)
{
	for (int i = 0; i < 3; i++) {
		long r = raw3(__NR_dup3, in->stdio[i], i, 0);

		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * @is_last: the limit of descriptors, else the others. Set before the last descriptor is sent it
 * would also limit what all processes of the user have in flight (ETOOMANYREFS).
 */
static long set_limits(const struct plan_header *plan, int is_last)
{
	for (uint32_t i = 0; i < plan->n_rlimits; i++) {
		const uint64_t limit[2] = { plan->rlimits[i].soft, plan->rlimits[i].hard };
		uint32_t resource = plan->rlimits[i].resource;
		long r = 0;

		if ((resource == RLIMIT_NOFILE_NR) == is_last)
			r = raw4(__NR_prlimit64, 0, resource, limit, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Closes everything but the standard streams and, from the first descriptor on: the channel, which
 * stays open; what is needed up to exec, which closes it: the socket to the broker, where there is
 * one, and a server's pipe to us or the file to execute. Returns the socket, or 0 if there is none.
 */
static long close_others(struct payload *p)
{
	enum {
		CHANNEL,
		BROKER,
		OTHER,
		MANY
	};
	int *other = p->tell_fd >= 0 ? &p->tell_fd : &p->image_fd;
	int from[MANY] = { p->in->channel_fd, broker_socket(), *other };
	int first = FIRST_FD, socket_fd = 0;
	long r;

	/* Out of each other's way. */
	for (int i = 0; i < MANY; i++) {
		if (from[i] < 0 || from[i] >= FIRST_FD + MANY)
			continue;
		r = raw3(__NR_fcntl, from[i], F_DUPFD_CLOEXEC, FIRST_FD + MANY);
		if (r < 0)
			return r;
		from[i] = (int)r;
	}
	for (int i = 0; i < MANY; i++) {
		if (from[i] < 0)
			continue;
		r = raw3(__NR_dup3, from[i], first, i == CHANNEL ? 0 : O_CLOEXEC);
		if (r < 0)
			return r;
		if (i == BROKER)
			socket_fd = first;
		if (i == OTHER)
			*other = first;
		first++;
	}
	r = raw3(__NR_close_range, first, ~0u, 0);
	return r < 0 ? r : socket_fd;
}

static long install(const struct seccomp_filter *filter, unsigned long flags)
{
	const struct sock_fprog program = {
		.len = filter->len,
		.filter = (struct sock_filter *)(uintptr_t)filter->insns,
	};

	return raw3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/*
 * Returns the listener, or 0 if there is none. Without one (a filter around us refuses it or has
 * one already) some calls of the guest fail and nothing becomes possible: the filter is the same.
 * But a run with a network needs it, and is not started.
 */
static long install_filter(uint32_t variant, int wants_listener)
{
	static const unsigned long flags[] = {
		/* Signals other than KILL do not interrupt a request (since 5.19). */
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		SECCOMP_FILTER_FLAG_NEW_LISTENER, 0
	};
	const struct seccomp_filter *filter = seccomp_filter_get(variant);
	int n_tries = 3;
	long r = -EINVAL;

	if (!filter)
		return r;
	if (seccomp_variant_has_net(variant))
		n_tries = wants_listener ? 2 : 0;
	for (int i = wants_listener ? 0 : 2; i < n_tries; i++) {
		r = install(filter, flags[i]);
		if (r != -EINVAL && r != -EPERM && r != -EBUSY)
			break;
	}
	return r;
}

/* The last layer. From here on only calls that the filter allows outright can be made. */
static long put_on_filter(struct init *in, long socket_fd)
{
	long r = in->n_watched ? install(&seccomp_no_reserve, 0) : 0;

	if (r >= 0 && in->limits.memory_bytes)
		r = install(&seccomp_no_landlock, 0);
	if (r >= 0 && in->plan->outer_uid == 0)
		r = install(&seccomp_no_shared_memory, 0);
	if (r >= 0 && in->image_fd >= 0)
		r = install(&seccomp_no_attributes, 0);
	if (r < 0)
		return r;
	r = install_filter(in->plan->filter, socket_fd > 0);

	return r > 0 ? broker_send_fd((int)socket_fd, (int)r) : r;
}

/* 0, or 1 if a layer could not be entered and nothing may be executed. */
static int enter_layers(struct payload *p)
{
	struct init *in = p->in;
	const uint64_t no_signals = 0;
	long r, socket_fd;

	/* A job of its own; with a terminal in a session that has been made for it. */
	r = in->plan->flags & PLAN_TERMINAL ? raw2(__NR_setpgid, 0, 0) : raw0(__NR_setsid);
	if (r < 0)
		return give_up(p, STAGE_EXEC, STEP_EXEC_SESSION, r);
	r = raw2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL_NR);
	if (r < 0)
		return give_up(p, STAGE_EXEC, STEP_EXEC_PDEATHSIG, r);
	if (in->plan->flags & PLAN_TERMINAL)
		r = take_terminal(in);
	if (r < 0)
		return give_up(p, STAGE_EXEC, STEP_EXEC_TERMINAL, r);
	r = set_stdio(in); /* the control socket makes way */
	if (r < 0)
		return give_up(p, STAGE_EXEC, STEP_EXEC_STDIO, r);
	raw_syscall(__NR_umask, in->caller_umask, 0, 0, 0, 0, 0); /* of this process alone */
	r = set_limits(in->plan, 0);
	if (r < 0)
		return give_up(p, STAGE_LIMITS, STEP_LIMITS_RLIMITS, r);
	stamp(in, STAGE_LIMITS);
	r = raw4(__NR_rt_sigprocmask, SIG_SETMASK_NR, &no_signals, 0, KERNEL_SIGSET_BYTES);
	if (r < 0)
		return give_up(p, STAGE_EXEC, STEP_EXEC_SIGNALS, r);
	r = in->ruleset_fd < 0 ? 0 : raw2(__NR_landlock_restrict_self, in->ruleset_fd, 0);
	if (r < 0)
		return give_up(p, STAGE_LANDLOCK, STEP_LANDLOCK_RESTRICT, r);
	stamp(in, STAGE_LANDLOCK);
	/* After the last use of any other descriptor, whatever there may be. */
	socket_fd = close_others(p);
	if (socket_fd < 0)
		return give_up(p, STAGE_EXEC, STEP_EXEC_CLOSE, socket_fd);
	r = put_on_filter(in, socket_fd);
	if (r < 0 && seccomp_variant_has_net(in->plan->filter))
		return give_up(p, STAGE_NET, STEP_NET_LISTENER, r);
	if (r < 0)
		return give_up(p, STAGE_SECCOMP, STEP_SECCOMP_FILTER, r);
	stamp(in, STAGE_SECCOMP);
	/* The server has no exec, which would close it. */
	if (socket_fd > 0 && (p->tell_fd >= 0 || p->is_server))
		close_fd(socket_fd);
	r = set_limits(in->plan, 1);
	return r < 0 ? give_up(p, STAGE_LIMITS, STEP_LIMITS_RLIMITS, r) : 0;
}

static long execute_image(const struct payload *p)
{
	return raw5(__NR_execveat, p->image_fd, "", p->argv, p->envp, AT_EMPTY_PATH);
}

static int child_main(void *arg)
{
	struct payload *p = arg;
	long r;

	if (enter_layers(p))
		return 1;
	if (p->image_fd >= 0)
		r = execute_image(p);
	else
		r = raw3(__NR_execve, str_at(p->in, p->in->plan->exec_path), p->argv, p->envp);
	return give_up(p, STAGE_EXEC, STEP_EXEC_EXECVE, r);
}

/*
 * As visible as a command, which becomes so by exec: the watch looks at its descriptors (a tree
 * that cannot be looked at is charged with other programs' memory), and the broker checks who asks.
 * Nothing in this memory is secret to its user, and no guest is there to look.
 */
static void be_visible(void)
{
	raw_syscall(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0, 0);
}

static void __attribute__((noreturn)) server_main(struct payload *p)
{
	struct server_report report = { 0 };
	int failed;

	be_visible();
	/* Out of the way of descriptors that need a fixed number. */
	p->tell_fd = (int)raw3(__NR_fcntl, p->tell_fd, F_DUPFD_CLOEXEC, FIRST_FD + 2);
	failed = p->tell_fd < 0 || enter_layers(p);
	report.stage = p->stage;
	report.op = p->op;
	report.error = p->error;
	memcpy(report.stamps_ns, p->in->report.stamps_ns, sizeof(report.stamps_ns));
#ifdef CORDON_FAULT_INJECTION
	raw_fault_countdown = 0;
#endif
	if (raw_syscall(__NR_write, p->tell_fd, RAW_ARG(&report), sizeof(report), 0, 0, 0) !=
		    (long)sizeof(report) ||
	    failed)
		for (;;)
			raw_syscall(__NR_exit_group, 1, 0, 0, 0, 0, 0);
	close_fd(p->tell_fd);
	serve_files();
}

/* The pid, or -errno; p->error as child_main() would have left it. */
static long start_server(struct payload *p)
{
	struct init *in = p->in;
	struct server_report report;
	int pipe[2];
	long pid, n, r = raw2(__NR_pipe2, pipe, O_CLOEXEC);

	if (r < 0)
		return r;
	p->tell_fd = pipe[1];
	pid = raw_syscall(__NR_clone, SIGCHLD_NR, 0, 0, 0, 0, 0);
	if (pid == 0)
		server_main(p);
	close_fd(pipe[1]);
	if (pid > 0) {
		do
			n = raw_syscall(__NR_read, pipe[0], RAW_ARG(&report), sizeof(report), 0, 0,
					0);
		while (n == -EINTR);
		if (n == (long)sizeof(report)) {
			p->stage = report.stage;
			p->op = report.op;
			p->error = report.error;
			memcpy(in->report.stamps_ns, report.stamps_ns, sizeof(report.stamps_ns));
		} else {
			/* killed on its way */
			give_up(p, STAGE_EXEC, STEP_EXEC_SERVE, -ECHILD);
		}
	}
	close_fd(pipe[0]);
	return pid;
}

/* Turns an array of string offsets of @block into pointers. */
static void fill_pointers(const void *block, uint32_t off, uint32_t n, const char **ret)
{
	const uint32_t *offsets = (const void *)((const char *)block + off);

	for (uint32_t i = 0; i < n; i++)
		ret[i] = (const char *)block + offsets[i];
	ret[n] = 0;
}

/* Descriptors that came over the socket may have any number: out of the way of fixed ones. */
static long move_away(int *fd)
{
	long r = raw3(__NR_fcntl, *fd, F_DUPFD_CLOEXEC, MOVED_FD);

	*fd = (int)r;
	return r;
}

static long take_fds(struct init *in, const int *fds, int n_fds)
{
	long r = 0;

	for (int i = 0; r >= 0 && i < 3; i++) {
		in->stdio[i] = fds[i];
		r = move_away(&in->stdio[i]);
	}
	if (r >= 0 && n_fds > 3) {
		in->channel_fd = fds[3];
		r = move_away(&in->channel_fd);
	}
	return r < 0 ? r : broker_move(MOVED_FD);
}

/* The first path at which something is; as execvp() does it. */
static long execute_first(const struct payload *p, const char *const *paths)
{
	long r = -ENOENT, found = 0;

	for (; *paths; paths++) {
		r = raw3(__NR_execve, *paths, p->argv, p->envp);
		if (r == -EACCES)
			found = r;
		else if (r != -ENOENT && r != -ENOTDIR)
			return r;
	}
	return found ? found : r;
}

/* Nothing of init's memory that could tell a guest about others may stay: it will look. */
static void serve_as_command(struct payload *p)
{
	const struct plan_header *plan = p->in->plan;

	commands_close();
	raw_syscall(__NR_munmap, RAW_ARG(plan), plan->size, 0, 0, 0, 0);
	be_visible();
	serve_files();
}

static void __attribute__((noreturn)) command_main(struct payload *p,
						   const struct command_header *block,
						   const int *fds, int n_fds, uint32_t flags,
						   struct command_outcome *outcome)
{
	const char **paths = p->envp + block->n_envp + 1;
	long r;

	fill_pointers(block, block->argv_off, block->n_argv, p->argv);
	fill_pointers(block, block->envp_off, block->n_envp, p->envp);
	fill_pointers(block, block->paths_off, block->n_paths, paths);
	r = take_fds(p->in, fds, n_fds);
	if (r >= 0 && p->image_fd >= 0)
		r = move_away(&p->image_fd);
	if (r < 0)
		give_up(p, STAGE_EXEC, STEP_EXEC_STDIO, r);
	else
		enter_layers(p);
	if (!p->error && block->cwd) {
		r = raw1(__NR_chdir, (const char *)block + block->cwd);
		if (r < 0)
			give_up(p, STAGE_MOUNTS, STEP_MOUNTS_CWD, r);
	}
	if (!p->error) {
		outcome->entered_ns = now_ns();
		if (flags & CONTROL_EXEC_FILES)
			serve_as_command(p);
		r = p->image_fd >= 0 ? execute_image(p) : execute_first(p, paths);
		give_up(p, STAGE_EXEC, STEP_EXEC_EXECVE, r);
	}
	outcome->stage = p->stage;
	outcome->op = p->op;
	outcome->error = p->error;
	outcome->is_failed = 1;
	for (;;)
		raw_syscall(__NR_exit_group, 1, 0, 0, 0, 0, 0);
}

/*
 * A further command of a session. The process has memory of its own, unlike that of a run: while it
 * shared ours, we would have to wait until it executes something, and a guest can stop it before.
 */
long start_command(struct init *in, const struct command_header *block, const int *fds, int n_fds,
		   uint32_t flags, struct command_outcome *outcome)
{
	struct payload p = { .in = in,
			     .argv = setup.pointers,
			     .envp = setup.pointers + block->n_argv + 1,
			     .image_fd = flags & CONTROL_EXEC_IMAGE ? in->image_fd : -1,
			     .tell_fd = -1,
			     .is_server = !!(flags & CONTROL_EXEC_FILES) };
	long pid = raw_syscall(__NR_clone, SIGCHLD_NR, 0, 0, 0, 0, 0);

	if (pid == 0)
		command_main(&p, block, fds, n_fds, flags, outcome);
	return pid;
}

/* Nothing is started yet. What the layers of commands are made of stays. */
static void start_session(struct init *in)
{
	long r = broker_prepare(in);

	if (r < 0)
		fail(in, STAGE_SECCOMP, STEP_SECCOMP_BROKER, r);
	r = cgroup_begin(in);
	if (r < 0)
		fail(in, STAGE_LIMITS, STEP_LIMITS_CPU_SHARE, r);
	commands_open(in);
	for (int i = 0; i < 3; i++)
		close_fd(in->stdio[i]);
	in->is_empty = 1;
	stamp(in, STAGE_EXEC);
#ifdef CORDON_FAULT_INJECTION
	raw_fault_countdown = 0; /* of the set-up, which is over */
#endif
}

void start_payload(struct init *in)
{
	const struct plan_header *plan = in->plan;
	struct payload p = {
		.in = in, .argv = setup.pointers, .image_fd = in->image_fd, .tell_fd = -1
	};
	long pid, r;

	if (is_session(in)) {
		start_session(in);
		return;
	}
	if ((uint64_t)plan->n_argv + plan->n_envp + 2 > ARGS_MAX)
		fail(in, STAGE_EXEC, STEP_EXEC_ARGUMENTS, -E2BIG);
	p.envp = setup.pointers + plan->n_argv + 1;
	fill_pointers(plan, plan->argv_off, plan->n_argv, p.argv);
	fill_pointers(plan, plan->envp_off, plan->n_envp, p.envp);
	open_terminal(in);
	r = broker_prepare(in);
	if (r < 0)
		fail(in, STAGE_SECCOMP, STEP_SECCOMP_BROKER, r);
	/* The set-up was ours and does not count against the command's share. */
	r = cgroup_begin(in);
	if (r < 0)
		fail(in, STAGE_LIMITS, STEP_LIMITS_CPU_SHARE, r);
#ifdef CORDON_FAULT_INJECTION
	if (raw_fault_countdown > 0 && --raw_fault_countdown == 0)
		fail(in, STAGE_EXEC, STEP_EXEC_CLONE, -raw_fault_errno);
#endif
	pid = plan->flags & PLAN_FILES
		      ? start_server(&p)
		      : vfork_call(SIGCHLD_NR, setup.stack, sizeof(setup.stack), 0, child_main, &p);
	if (pid < 0)
		fail(in, STAGE_EXEC, STEP_EXEC_CLONE, pid);
	if (p.error)
		fail(in, p.stage, p.op, p.error);
	in->payload_pid = (int)pid;
	stamp(in, STAGE_EXEC);
#ifdef CORDON_FAULT_INJECTION
	raw_fault_countdown = 0; /* of the set-up, which is over */
#endif
	broker_release();
	release_terminal(in);
	/* Keep a terminal open: once nothing has it open inside, it is hung up for good. */
	for (int i = 0; i < 3; i++)
		if (!(plan->flags & PLAN_TERMINAL) || in->stdio[i] != in->stdio[0])
			close_fd(in->stdio[i]);
	close_fd(in->channel_fd);
	close_fd(in->ruleset_fd);
	close_fd(in->image_fd);
}

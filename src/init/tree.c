/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the run. With a pid namespace they are what its /proc shows, and the kernel
 * signals all of them in one stroke. Without one, at level `landlock`, every descendant is, or
 * becomes when its parent dies, a child of this subreaper: the tree is what can be reached from it.
 */
#include "init/tree.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#include "bare/clone.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/commands.h"
#include "init/procfs.h"

#define WNOHANG 1
#define WUNTRACED 2
#define WALL 0x40000000
#define TEXT_MAX 4096
#define REAP_MAX 256
#define PAUSE_NS 1000000
#define TURNS_COUNTED 8 /* in which the dead are collected one by one */
#define CHILDREN_FEW 32
#define TURNS_BUSY 2000 /* after which there is no hurry */
#define THREADS_MAX 4096
#define LIST_FACTOR 1000003u

#ifndef __NR_pidfd_send_signal
#define __NR_pidfd_send_signal 424
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif

static long open_children(struct init *in, const char *path)
{
	return raw_syscall(__NR_openat, in->proc_fd, RAW_ARG(path), O_RDONLY | O_CLOEXEC, 0, 0, 0);
}

void tree_note_error(struct init *in, long r)
{
	if (r < 0 && r != -ENOENT && r != -ESRCH)
		in->proc_error = r;
}

/* Init's, also in the process of watch/exact_count.h, whose own are others. Needs
 * CONFIG_PROC_CHILDREN. */
static const char *own_children(const struct init *in, char ret[PROC_PATH_MAX])
{
	return proc_path_in(in->own_pid, "task", in->own_pid, "children", ret);
}

long tree_open(struct init *in)
{
	char path[PROC_PATH_MAX];
	long fd = raw4(__NR_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	in->proc_fd = (int)fd;
	if (in->plan->level == PLAN_LEVEL_NAMESPACES)
		return 0;
	fd = open_children(in, own_children(in, path));
	close_fd(fd);
	return fd < 0 ? fd : 0;
}

/*
 * Takes each child that one task's list names: into @pids after the first @n, of which there are
 * more then; or, without @pids, by killing it. Then the result differs if another list was read.
 */
static int take_children(struct init *in, const char *path, int *pids, int n)
{
	char text[TEXT_MAX];
	long fd = open_children(in, path), got;
	int pid = 0;

	tree_note_error(in, fd);
	if (fd < 0)
		return n;
	while ((got = raw_syscall(__NR_read, fd, RAW_ARG(text), sizeof(text), 0, 0, 0)) > 0)
		for (long i = 0; i < got; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 1 && !pids) {
				raw_syscall(__NR_kill, pid, SIGKILL_NR, 0, 0, 0, 0);
				n = (int)((unsigned)n * LIST_FACTOR + (unsigned)pid);
			}
			if (pid > 1 && pids && n < TREE_MAX)
				pids[n++] = pid;
			pid = 0;
		}
	tree_note_error(in, got);
	close_fd(fd);
	return n;
}

/* Children belong to the thread that made them: each one has a list of its own. */
static int add_children_of(struct init *in, int parent, int *pids, int n)
{
	int threads[THREADS_MAX];
	long n_threads = proc_entries(in->proc_fd, parent, "task", threads, THREADS_MAX);

	tree_note_error(in, n_threads);
	for (long i = 0; i < n_threads; i++) {
		char path[PROC_PATH_MAX];

		proc_path_in(parent, "task", threads[i], "children", path);
		n = take_children(in, path, pids, n);
	}
	return n;
}

/* There is always a process while we look, so an empty list means that the read failed. Only in a
 * session the last one may have ended since. */
static int was_found(struct init *in, int n, long error)
{
	if (n > 0 || (is_session(in) && error >= 0))
		in->proc_seen = 1;
	else
		in->proc_error = error < 0 ? error : -ESRCH;
	return n;
}

/* A helper process of init's own. */
static int is_ours(const struct init *in, int pid)
{
	return pid == in->exact_pid || pid == in->disk_pid;
}

/* It may run before clone() returns to us. Meanwhile the broker sends nothing to anyone. */
long tree_make_helper(struct init *in, void *stack, size_t stack_size, int *ret_pidfd,
		      int (*fn)(void *), int *ret_pid)
{
	long pid;

	__atomic_store_n(&in->is_making, 1, __ATOMIC_SEQ_CST);
	pid = clone_call(VFORK_CLONE_PIDFD, stack, stack_size, ret_pidfd, fn, 0);
	if (pid > 0) {
		__atomic_store_n(ret_pid, (int)pid, __ATOMIC_SEQ_CST);
		in->n_helpers++;
	}
	__atomic_store_n(&in->is_making, 0, __ATOMIC_SEQ_CST);
	return pid;
}

int tree_list(struct init *in, int ret[TREE_MAX])
{
	char path[PROC_PATH_MAX];
	int n = 0;

	if (in->plan->level == PLAN_LEVEL_NAMESPACES) {
		long got;

		raw_syscall(__NR_lseek, in->proc_fd, 0, 0, 0, 0, 0);
		got = proc_entries(in->proc_fd, 0, ".", ret, TREE_MAX);
		for (long i = 0; i < got; i++)
			if (ret[i] > 1 && !is_ours(in, ret[i]))
				ret[n++] = ret[i];
		return was_found(in, n, got);
	}
	n = take_children(in, own_children(in, path), ret, 0);
	for (int i = 0; i < n; i++) {
		if (is_ours(in, ret[i]))
			ret[i--] = ret[--n];
		else
			n = add_children_of(in, ret[i], ret, n);
	}
	return was_found(in, n, 0);
}

int tree_has_more_children(struct init *in, uint64_t max)
{
	char path[PROC_PATH_MAX], text[TEXT_MAX];
	long got = 1, fd = open_children(in, own_children(in, path));
	uint64_t n = 0;

	tree_note_error(in, fd);
	/* Not to the end: reading a long list takes its square. */
	while (fd >= 0 && n <= max && got > 0) {
		got = raw_syscall(__NR_read, fd, RAW_ARG(text), sizeof(text), 0, 0, 0);
		for (long i = 0; i < got; i++)
			n += text[i] == ' ';
	}
	close_fd(fd);
	return n > max;
}

static int contains(const int *list, int n, int pid)
{
	for (int i = 0; i < n; i++)
		if (list[i] == pid)
			return 1;
	return 0;
}

/*
 * The pid may belong to another process by now. A pidfd fixes which one it is; then its parent
 * tells whether it is in the tree: only those have a parent there.
 */
static void signal_one(struct init *in, int pid, int signal, const int *pids, int n)
{
	char text[TEXT_MAX];
	long fd = raw_syscall(__NR_pidfd_open, pid, 0, 0, 0, 0, 0);

	if (fd < 0)
		return;
	if (proc_read(in->proc_fd, pid, "status", text, sizeof(text)) > 0) {
		int parent = (int)proc_field(text, "PPid:");

		if (parent == in->own_pid || contains(pids, n, parent))
			raw_syscall(__NR_pidfd_send_signal, fd, signal, 0, 0, 0, 0);
	}
	close_fd(fd);
}

void tree_signal_one(struct init *in, int signal, int i, const int *pids, int n)
{
	/* In our own pid namespace there are no other processes. */
	if (in->plan->level == PLAN_LEVEL_NAMESPACES)
		raw_syscall(__NR_kill, pids[i], signal, 0, 0, 0, 0);
	else
		signal_one(in, pids[i], signal, pids, n);
}

void tree_signal(struct init *in, int signal)
{
	static int pids[TREE_MAX];
	int n;

	if (in->plan->level == PLAN_LEVEL_NAMESPACES) {
		/* The kernel signals every process but us at once. */
		raw_syscall(__NR_kill, -1, signal, 0, 0, 0, 0);
		return;
	}
	n = tree_list(in, pids);
	for (int i = 0; i < n; i++)
		tree_signal_one(in, signal, i, pids, n);
}

void tree_continue(struct init *in, const int *except, int n_except)
{
	static int pids[TREE_MAX];
	int n = tree_list(in, pids);

	for (int i = n; i-- > 0;)
		if (!contains(except, n_except, pids[i]))
			tree_signal_one(in, SIGCONT_NR, i, pids, n);
	/* Not limited by TREE_MAX: none is forgotten. */
	if (n == TREE_MAX && n_except == 0)
		tree_signal(in, SIGCONT_NR);
}

/* By the terminal, or by itself in the same way. (SIGSTOP is what we send, among others.) */
static int is_job_stop(int status)
{
	int signal = status >> 8 & 0xff;

	return signal == SIGTSTP_NR || signal == SIGTTIN_NR || signal == SIGTTOU_NR;
}

int tree_reap(struct init *in, int *command_ended)
{
	const int flags = WNOHANG | WALL | (in->plan->flags & PLAN_TERMINAL ? WUNTRACED : 0);

	/* Limited: the tree can make processes that die as fast as we reap them. */
	for (int i = 0; i < REAP_MAX; i++) {
		int status = 0;
		struct rusage usage;
		long pid = raw4(__NR_wait4, -1, &status, flags, &usage);

		in->more_dead = pid > 0;
		if (pid == -ECHILD)
			return 1;
		if (pid <= 0)
			return 0;
		if ((status & 0xff) == 0x7f) {
			in->was_stopped |= pid == in->payload_pid && is_job_stop(status);
			continue;
		}
		if (is_session(in))
			command_reaped((int)pid, status, &usage);
		if (pid == in->payload_pid) {
			in->report.wait_status = status;
			in->has_status = 1;
			*command_ended = 1;
		}
	}
	return 0;
}

/* The kernel signals every process but us at once. */
static void kill_namespace(struct init *in)
{
	raw_syscall(__NR_kill, -1, SIGKILL_NR, 0, 0, 0, 0);
	for (;;) {
		int status = 0;
		long pid = raw_syscall(__NR_wait4, -1, RAW_ARG(&status), WALL, 0, 0, 0);

		if (pid == -ECHILD)
			return;
		if (pid == in->payload_pid)
			in->report.wait_status = status;
	}
}

/* The kernel shall reap what dies from now on. What it used is not counted. */
static void stop_reaping(struct init *in)
{
	const struct {
		uintptr_t handler, flags, restorer;
		uint64_t mask;
	} ignore = { 1, 0, 0, 0 };
	int ended;

	raw_syscall(__NR_rt_sigaction, SIGCHLD_NR, RAW_ARG(&ignore), 0, KERNEL_SIGSET_BYTES, 0, 0);
	do
		if (tree_reap(in, &ended))
			return;
	while (in->more_dead);
}

/*
 * Killing all children until there are none ends the tree. A process that forks and exits again and
 * again has to be hit in between: each child is killed as soon as it is read, including the
 * youngest, which the kernel lists last.
 *
 * If a few turns are not enough, the dead are left as they are while there are new ones among them:
 * they count as tasks, so the tree soon has as many as it may have and makes no more. After the end
 * it makes limits.procs of them at most. The kernel does not count uid 0's: there nothing dead may
 * stay, which would hide the living (reading a list takes the square of its length) and fill the
 * machine's table.
 */
void tree_kill(struct init *in)
{
	int is_root = in->plan->outer_uid == 0, ended, before = 0;
	char path[PROC_PATH_MAX];

	if (!in->has_status)
		in->report.wait_status = SIGKILL_NR; /* what it will die of */
	if (in->plan->level == PLAN_LEVEL_NAMESPACES) {
		kill_namespace(in);
		return;
	}
	/* All of its process group at once. Until it is reaped the number is no one else's. */
	if (!in->has_status && in->payload_pid > 1)
		raw_syscall(__NR_kill, -in->payload_pid, SIGKILL_NR, 0, 0, 0, 0);
	if (is_root && tree_has_more_children(in, CHILDREN_FEW))
		stop_reaping(in);
	for (int turn = 0;; turn++) {
		int now, is_late = turn >= TURNS_COUNTED;

		if (turn == TURNS_COUNTED && is_root)
			stop_reaping(in);
		now = take_children(in, own_children(in, path), NULL, 0);
		if (is_root || !is_late || now == before)
			do
				if (tree_reap(in, &ended))
					return;
			while (is_late && !is_root && in->more_dead);
		before = now;
		/* Some calls cannot be interrupted: a process in one dies when it returns. */
		if ((!is_late && !is_root) || turn > TURNS_BUSY)
			sleep_ns(PAUSE_NS);
	}
}

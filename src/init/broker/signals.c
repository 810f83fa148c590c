/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals at level `landlock` on kernels whose Landlock does not keep them inside (before ABI 6).
 *
 * Theory of operation. Without a pid namespace the guest can name every process of the machine, and
 * may signal all that have its user. So the filter hands the calls to us. We find out which process
 * is meant, pin it by a pidfd, check that it is a descendant of init, and send the signal
 * ourselves.
 *
 * Should: do for processes of the run what the kernel would have done.
 * Mustn't: send anything to a process outside, or to init and its helpers; let the kernel go on
 * with a call, except if the process that is meant is the caller's own. Then nothing can go wrong:
 * it waits for our answer, so its number is not another's, and the target is no pointer, so that
 * nothing can be exchanged. (That is not so for the number of another thread alone: it may end and
 * the number be someone else's by then.) Programs that signal themselves (abort(), Go's scheduler)
 * see no difference. A file that sends signals can have no other owner than the process that sets
 * it.
 *
 * Others do see some: the sender is init (si_pid), a signal for a thread of another process is for
 * that process, and one for a group or for all goes to one process after the other.
 *
 * Who is a descendant. A process's parent is read, then the parent's, up to init, and each is read
 * once more after the next: a parent that was the same before and after has lived in between, so
 * its number was its own when the next one was read. A process of the run whose parent dies becomes
 * init's child; one outside never becomes a descendant.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#include "bare/fd.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "init/broker/parts.h"
#include "init/broker/thread_raw.h"
#include "init/procfs.h"
#include "init/tree.h"

#ifndef __NR_pidfd_send_signal
#define __NR_pidfd_send_signal 424
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif

#define STATUS_MAX 2048
#define FDINFO_MAX 512
#define ANCESTORS_MAX 4096 /* deeper trees are refused */
#define MAKING_PAUSE_NS 100000
#define MAKING_TRIES 1000

/* A field of /proc/PID/status; -errno if there is no such process. */
static long status_field(const struct broker *b, int pid, const char *key)
{
	char text[STATUS_MAX];
	long n = proc_read(b->proc_fd, pid, "status", text, sizeof(text));

	if (n <= 0)
		return n < 0 ? n : -ESRCH;
	return (long)proc_field(text, key);
}

/* A helper of init's own. One that is just being made has no known number yet. */
static int is_helper(const struct broker *b, int pid)
{
	for (int i = 0; __atomic_load_n(&b->in->is_making, __ATOMIC_SEQ_CST); i++) {
		if (i == MAKING_TRIES)
			return 1;
		sleep_ns(MAKING_PAUSE_NS);
	}
	return pid == __atomic_load_n(&b->in->exact_pid, __ATOMIC_RELAXED) ||
	       pid == __atomic_load_n(&b->in->disk_pid, __ATOMIC_RELAXED);
}

static int is_inside(const struct broker *b, int pid)
{
	long parent = status_field(b, pid, "PPid:"), next;

	if (pid == b->in->own_pid || is_helper(b, pid))
		return 0;
	for (int i = 0; i < ANCESTORS_MAX && parent > 1; i++) {
		if (parent == b->in->own_pid)
			return 1;
		next = status_field(b, (int)parent, "PPid:");
		if (status_field(b, pid, "PPid:") != parent)
			return 0; /* it has just lost its parent; the guest may try again */
		pid = (int)parent;
		parent = next;
	}
	return 0;
}

/* The pidfd comes first: whatever happens to the number afterwards, it is the one that is checked,
 * or it is dead. */
static long signal_process(const struct broker *b, int pid, int signal, const void *info)
{
	int fd = (int)thread3(__NR_pidfd_open, pid, 0, 0);
	long r;

	if (fd < 0)
		return fd == -EINVAL ? -ESRCH : fd;
	r = is_inside(b, pid) ? thread4(__NR_pidfd_send_signal, fd, signal, info, 0) : -EPERM;
	drop_fd(&fd);
	return r;
}

/* Like the kernel: success if it reached one of them. */
static long signal_many(const struct broker *b, const struct broker_signal *call, int caller)
{
	/* What tree_list() needs; it must not write to the main thread's. */
	static struct init view;
	static int pids[TREE_MAX];
	long r, result = -ESRCH;
	int n, group = call->target;

	if (call->to == BROKER_TO_GROUP && group == 0)
		group = (int)status_field(b, caller, "NSpgid:");
	if (call->to == BROKER_TO_GROUP && group <= 0)
		return -ESRCH;
	view.plan = b->in->plan;
	view.own_pid = b->in->own_pid;
	view.proc_fd = b->proc_fd;
	n = tree_list(&view, pids);
	for (int i = 0; i < n; i++) {
		if (call->to == BROKER_TO_ALL && pids[i] == caller)
			continue;
		if (call->to == BROKER_TO_GROUP &&
		    status_field(b, pids[i], "NSpgid:") != (long)group)
			continue;
		r = signal_process(b, pids[i], call->signal, 0);
		if (result != 0)
			result = r == -ESRCH ? result : r;
	}
	/* None of ours: whether there is such a group is no secret. */
	if (result == -ESRCH && call->to == BROKER_TO_GROUP && group > 1 &&
	    thread3(__NR_kill, -group, 0, 0) != -ESRCH)
		result = -EPERM;
	return result;
}

/* The process that a thread's number belongs to, or -errno. */
static long process_of(const struct broker *b, int number)
{
	long pid = status_field(b, number, "Tgid:");

	return pid > 0 ? pid : -ESRCH;
}

/* The process of a pidfd that the guest has, or -errno. */
static long process_of_pidfd(int task_fd, int fd)
{
	char path[32], text[FDINFO_MAX];
	int info_fd;
	long n;

	if (fd < 0)
		return -EBADF;
	text_number(path, sizeof(path), "fdinfo/", (uint32_t)fd);
	info_fd = (int)thread4(__NR_openat, task_fd, path, O_RDONLY | O_CLOEXEC, 0);
	if (info_fd < 0)
		return -EBADF;
	n = thread3(__NR_read, info_fd, text, sizeof(text) - 1);
	drop_fd(&info_fd);
	if (n <= 0)
		return -EBADF;
	text[n] = 0;
	n = (long)proc_field(text, "Pid:");
	/* Also for "-1": the process is gone. */
	return n > 0 ? n : -EBADF;
}

static long copy_info(int task_fd, uint64_t address, char ret[BROKER_INFO_BYTES])
{
	int mem_fd = (int)thread4(__NR_openat, task_fd, "mem", O_RDONLY | O_CLOEXEC, 0);
	long n;

	if (mem_fd < 0)
		return -EPERM;
	n = thread4(__NR_pread64, mem_fd, ret, BROKER_INFO_BYTES, address);
	drop_fd(&mem_fd);
	return n == BROKER_INFO_BYTES ? 0 : -EFAULT;
}

long broker_send_signal(const struct broker *b, const struct seccomp_notif *notif, int task_fd,
			const struct broker_signal *call)
{
	_Alignas(8) char info[BROKER_INFO_BYTES];
	long r, process, caller = process_of(b, (int)notif->pid);

	if (caller < 0)
		return -EPERM;
	if (call->to == BROKER_AS_OWNER)
		return call->target == 0 || call->target == caller ? BROKER_GO_ON : -EPERM;
	if (call->to == BROKER_TO_GROUP || call->to == BROKER_TO_ALL)
		return signal_many(b, call, (int)caller);
	process = call->to == BROKER_TO_PIDFD ? process_of_pidfd(task_fd, call->target)
					      : process_of(b, call->target);
	if (process < 0)
		return process;
	if (call->process && process != call->process)
		return -ESRCH;
	/* A pidfd can be exchanged for another while we answer. */
	if (process == caller && call->to != BROKER_TO_PIDFD) {
		if (call->process || call->target == caller || call->target == (int)notif->pid)
			return BROKER_GO_ON;
		if (call->to == BROKER_TO_THREAD)
			return thread3(__NR_tgkill, caller, call->target, call->signal);
	}
	if (call->info) {
		r = copy_info(task_fd, call->info, info);
		if (r < 0)
			return r;
		if (call->to != BROKER_TO_PIDFD)
			*(int32_t *)(void *)info = call->signal; /* si_signo, as the kernel does */
	}
	return signal_process(b, (int)process, call->signal, call->info ? info : 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tracer that changes a call's arguments after the call was made: the filter must judge what the
 * kernel will carry out, not what the program asked for first.
 *
 *	retrace        rows: `argument-0` a refused personality in place of a harmless one,
 *`argument-1` a refused request in place of a harmless one, `number` another call altogether
 */
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include "probe.h"

#define READ_IMPLIES_EXEC 0x400000
#define TIOCSTI_REQUEST 0x5412
#define HARMLESS_REQUEST 0x5411

struct change {
	long nr, a, b;	      /* what is asked for */
	int which;	      /* -1: the number */
	unsigned long better; /* what the tracer puts there */
};

static int change_call(pid_t pid, const struct change *c)
{
#ifdef __aarch64__
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof(regs) };
	int nr = (int)c->better;
	struct iovec nr_iov = { &nr, sizeof(nr) };

	if (c->which < 0)
		return (int)ptrace(PTRACE_SETREGSET, pid, 0x404 /* NT_ARM_SYSTEM_CALL */, &nr_iov);
	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov) < 0)
		return -1;
	regs.regs[c->which] = c->better;
	return (int)ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &iov);
#else
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return -1;
	if (c->which < 0)
		regs.orig_rax = c->better;
	else if (c->which == 0)
		regs.rdi = c->better;
	else
		regs.rsi = c->better;
	return (int)ptrace(PTRACE_SETREGS, pid, NULL, &regs);
#endif
}

/* The traced process makes the call between two stops and says in its status how it ended. */
static int traced(const struct change *c)
{
	long r;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(errno);
	raise(SIGSTOP);
	r = syscall(c->nr, c->a, c->b, 0L);
	_exit(r < 0 ? errno : 0);
}

static long attempt(void *arg)
{
	const struct change *c = arg;
	pid_t pid = fork();
	int status;

	if (pid == 0)
		traced(c);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFSTOPPED(status)) {
		/* To the entry of the call, change it, and on to the end. */
		if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) < 0 ||
		    waitpid(pid, &status, 0) != pid || change_call(pid, c) < 0 ||
		    ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid)
			return -1;
	}
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return errno ? -1 : 0;
}

int main(void)
{
	struct change changes[] = {
		{ SYS_personality, 0xffffffff, 0, 0, READ_IMPLIES_EXEC },
		{ SYS_ioctl, -1, HARMLESS_REQUEST, 1, TIOCSTI_REQUEST },
		{ SYS_getpid, 0, 0, -1, SYS_unshare },
	};

	row_child("argument-0", attempt, &changes[0]);
	row_child("argument-1", attempt, &changes[1]);
	row_child("number", attempt, &changes[2]);
	return 0;
}

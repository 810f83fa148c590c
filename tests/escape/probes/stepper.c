/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a supervisor at every system call: stepper STRIDE FIRST SUPERVISOR ARG... MARK
 *
 * The supervisor and all that it starts are traced up to the exec of the command. In one round one
 * of them, told by the order in which they appear, is stopped where it enters its Nth system call;
 * the supervisor is killed at that moment, and the others are let go. N and the process go through
 * all there are, beginning at FIRST by STRIDE. Prints what it found as `name number` lines, and how
 * many calls each process made. Run in the write grant of SUPERVISOR.
 */
#include "reckon.h"

#define PROCS_MAX 64
#define HANG_SECONDS 30
#define MISSES 6
#define OPTIONS                                                                                    \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |  \
	 PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

struct proc {
	pid_t pid;
	unsigned calls;
};

static struct proc procs[PROCS_MAX];
static unsigned n_procs;
static unsigned longest[PROCS_MAX]; /* calls seen of each, over all rounds */

static struct proc *find_proc(pid_t pid)
{
	for (unsigned i = 0; i < n_procs; i++)
		if (procs[i].pid == pid)
			return &procs[i];
	if (n_procs == PROCS_MAX)
		exit(3);
	procs[n_procs] = (struct proc){ pid, 0 };
	return &procs[n_procs++];
}

static void on_alarm(int sig)
{
	(void)sig;
	list_children("hangs");
	_exit(4);
}

static pid_t start_traced(char **argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		exec_quietly(argv);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0, OPTIONS) < 0)
		exit(3);
	n_procs = 0;
	find_proc(pid);
	ptrace(PTRACE_SYSCALL, pid, 0, 0);
	return pid;
}

static int enters_call(pid_t pid)
{
	struct __ptrace_syscall_info info;

	return ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

static int is_guest(pid_t pid, pid_t supervisor)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return pid != supervisor && has_cmdline(text, tally.mark);
}

/* One stop of a tracee. 1 when it is the wanted one, which is then left as it is. */
static int on_stop(pid_t pid, int status, pid_t supervisor, unsigned want, unsigned call)
{
	struct proc *proc = find_proc(pid);
	unsigned index = (unsigned)(proc - procs);
	int sig = WSTOPSIG(status), event = status >> 16;

	if (event == PTRACE_EVENT_EXEC && is_guest(pid, supervisor)) {
		ptrace(PTRACE_DETACH, pid, 0, 0);
		return 0;
	}
	if (sig == (SIGTRAP | 0x80) && enters_call(pid)) {
		if (++proc->calls > longest[index])
			longest[index] = proc->calls;
		if (index == want && proc->calls == call)
			return 1;
	}
	if (sig == (SIGTRAP | 0x80) || event || sig == SIGSTOP || sig == SIGTRAP)
		sig = 0;
	ptrace(PTRACE_SYSCALL, pid, 0, sig);
	return 0;
}

/* 1 when the moment came; 0 when the run was over before. */
static int step_round(char **argv, unsigned want, unsigned call)
{
	time_t since = time(NULL);
	pid_t supervisor, pid = 0;
	int status = 0, reached = 0;

	alarm(HANG_SECONDS);
	supervisor = start_traced(argv);
	while (!reached) {
		pid = waitpid(-1, &status, __WALL);
		if (pid < 0)
			exit(3);
		if (WIFSTOPPED(status))
			reached = on_stop(pid, status, supervisor, want, call);
		else if (pid == supervisor)
			break;
	}
	if (reached) {
		kill(supervisor, SIGKILL);
		waitpid(supervisor, NULL, __WALL);
		if (pid != supervisor)
			ptrace(PTRACE_DETACH, pid, 0, 0);
	}
	reckon(now_us(), since);
	alarm(0);
	return reached;
}

/* All moments of one process; how many there were. The count differs a little from run to run. */
static unsigned sweep(char **argv, unsigned want, unsigned stride, unsigned first)
{
	unsigned reached = 0;

	for (unsigned call = first, missed = 0; missed < MISSES; call += stride) {
		if (step_round(argv, want, call)) {
			missed = 0;
			reached++;
		} else {
			missed++;
		}
	}
	return reached;
}

int main(int argc, char **argv)
{
	unsigned stride, first, kills = 0, most = 1;

	if (argc < 5)
		return 2;
	stride = (unsigned)atoi(argv[1]);
	first = (unsigned)atoi(argv[2]);
	if (!stride || !first)
		return 2;
	signal(SIGALRM, on_alarm);
	reckon_init(argv + 3);
	for (unsigned want = 0; want < most; want++) {
		unsigned reached = sweep(argv + 3, want, stride, first);

		kills += reached;
		most = n_procs > most ? n_procs : most;
		printf("process_%u %u of %u\n", want, reached, longest[want]);
	}
	reckon_print();
	printf("kills %u\n", kills);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching another process: procs PID, the secret in its command line on standard input
 *
 * PID is a process of the same user outside. Nothing here ends a process: signals are SIGURG,
 * which is ignored by default, so that a hole does not take the machine down with it.
 */
#include <dirent.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "probe.h"

static pid_t target;

static long slurp(const char *name)
{
	char path[64], buf[4096];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", target, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (read(fd, buf, strcmp(name, "mem") ? sizeof(buf) : 0) < 0)
		return -1;
	close(fd);
	return 0;
}

static long put(const char *name, const char *text)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", target, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	return write(fd, text, strlen(text));
}

static long follow(const char *name)
{
	char path[64], buf[256];

	snprintf(path, sizeof(path), "/proc/%d/%s", target, name);
	return readlink(path, buf, sizeof(buf));
}

static long list_fds(void)
{
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", target);
	dir = opendir(path);
	if (!dir)
		return -1;
	closedir(dir);
	return 0;
}

static long seize(void *arg)
{
	(void)arg;
	return ptrace(PTRACE_SEIZE, target, NULL, NULL);
}

static long read_memory(void)
{
	char buf[1];
	struct iovec local = { buf, 1 }, remote = { (void *)0x1000, 1 };

	/* EFAULT means that the kernel let us look and found nothing mapped there. */
	if (process_vm_readv(target, &local, 1, &remote, 1, 0) < 0 && errno != EFAULT)
		return -1;
	return 0;
}

static long steal_fd(void)
{
	long pidfd = syscall(SYS_pidfd_open, target, 0);

	if (pidfd < 0)
		return -1;
	return syscall(SYS_pidfd_getfd, pidfd, 0, 0);
}

static long signal_pidfd(void)
{
	long pidfd = syscall(SYS_pidfd_open, target, 0);

	if (pidfd < 0)
		return -1;
	return syscall(SYS_pidfd_send_signal, pidfd, SIGURG, NULL, 0);
}

static long enter(void)
{
	long pidfd = syscall(SYS_pidfd_open, target, 0);

	if (pidfd < 0)
		return -1;
	return syscall(SYS_setns, pidfd, 0x10000000 /* CLONE_NEWUSER */);
}

static long limit(void)
{
	struct rlimit lim;

	if (prlimit(target, RLIMIT_NOFILE, NULL, &lim) < 0)
		return -1;
	lim.rlim_cur = 77;
	return prlimit(target, RLIMIT_NOFILE, &lim, NULL);
}

static long limit_read(void)
{
	struct rlimit lim;

	return prlimit(target, RLIMIT_CORE, NULL, &lim);
}

static long affinity(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return sched_setaffinity(target, sizeof(set), &set);
}

static long scheduler(void)
{
	struct sched_param param = { 0 };

	return sched_setscheduler(target, SCHED_BATCH, &param);
}

static long own_sigio(void)
{
	int pipefd[2], fd;

	if (pipe(pipefd) < 0)
		return -1;
	fd = pipefd[0];
	if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETOWN, target) < 0 ||
	    fcntl(fd, F_SETFL, O_ASYNC) < 0)
		return -1;
	/* Whether the signal is delivered only the target's log can tell. */
	return write(pipefd[1], "x", 1);
}

static void rows_signals(void)
{
	siginfo_t info = { .si_signo = SIGURG, .si_code = SI_QUEUE };

	row("kill-0", kill(target, 0));
	row("kill", kill(target, SIGURG));
	row("tgkill", syscall(SYS_tgkill, target, target, SIGURG));
	row("tkill", syscall(SYS_tkill, target, SIGURG));
	row("sigqueue", syscall(SYS_rt_sigqueueinfo, target, SIGURG, &info));
	row("pidfd-signal", signal_pidfd());
	row("sigio", own_sigio());
}

static void rows_memory(void)
{
	row_child("ptrace", seize, NULL);
	row("vm-readv", read_memory());
	row("pidfd-getfd", steal_fd());
	row("kcmp", syscall(SYS_kcmp, getpid(), target, KCMP_FILES, 0, 0));
	row("setns-pidfd", enter());
	row("robust-list", syscall(SYS_get_robust_list, target, &(void *){ NULL }, &(size_t){ 0 }));
}

static void rows_knobs(void)
{
	row("prlimit-read", limit_read());
	row("prlimit", limit());
	row("affinity", affinity());
	row("scheduler", scheduler());
	row("nice", setpriority(PRIO_PROCESS, (id_t)target, 19));
	row("ioprio", syscall(SYS_ioprio_set, 1, target, 3 << 13));
	row("getsid", getsid(target));
	row("getpgid", getpgid(target));
}

static void rows_proc(void)
{
	row("proc-environ", slurp("environ"));
	row("proc-cmdline", slurp("cmdline"));
	row("proc-status", slurp("status"));
	row("proc-maps", slurp("maps"));
	row("proc-mem", slurp("mem"));
	row("proc-mountinfo", slurp("mountinfo"));
	row("proc-fd", list_fds());
	row("proc-root", follow("root"));
	row("proc-cwd", follow("cwd"));
	row("proc-oom", put("oom_score_adj", "999"));
	row("proc-comm", put("comm", "planted"));
}

/* Looks for the secret in the command line of every process there is. */
static void find_secret(const char *secret)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int found = 0, numeric = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], buf[4096];
		ssize_t len;
		int fd;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		numeric++;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		len = read(fd, buf, sizeof(buf));
		if (len > 0 && memmem(buf, (size_t)len, secret, strlen(secret)))
			found++;
		close(fd);
	}
	printf("secret-in-cmdlines %s\n", found ? "allowed" : "denied none");
	printf("foreign-processes %s\n", numeric > 4 ? "allowed" : "denied few");
}

int main(int argc, char **argv)
{
	char secret[128] = "";

	if (argc != 2 || !fgets(secret, sizeof(secret), stdin))
		return 2;
	secret[strcspn(secret, "\n")] = 0;
	target = atoi(argv[1]);
	rows_proc();
	rows_memory();
	rows_knobs();
	rows_signals();
	find_secret(secret);
	return 0;
}

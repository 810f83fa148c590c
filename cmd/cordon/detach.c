/* SPDX-License-Identifier: Apache-2.0 */
#include "detach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

int detach_leave_terminal(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (dup2(fd, i) < 0)
			return -1;
	if (fd > 2)
		close(fd);
	return 0;
}

/* Not every C library has it. */
static void close_from_to(unsigned first, unsigned last)
{
	(void)syscall(SYS_close_range, first, last, 0);
}

void detach_close(int keep, int keep_too)
{
	int first = keep < keep_too ? keep : keep_too, last = keep < keep_too ? keep_too : keep;
	unsigned from = 3;

	if (first >= 3) {
		if (first > 3)
			close_from_to(3, (unsigned)first - 1);
		from = (unsigned)first + 1;
	}
	if (last > first && last > (int)from)
		close_from_to(from, (unsigned)last - 1);
	close_from_to((unsigned)(last >= 3 ? last : 2) + 1, ~0u);
}

int detach_signals(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigaction(SIGHUP, &ignore, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* There is one thread and little memory, and the copy goes on with this very program. */
static pid_t copy_process(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

int detach(int (*stay)(void *arg, int fd), void *arg, int *ret_fd, struct cordon_error *err)
{
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot create a pipe");
	pid = copy_process();
	if (pid < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot start the supervisor");
	if (pid == 0) {
		close(fds[0]);
		(void)setsid();
		pid = copy_process();
		if (pid != 0)
			_exit(pid < 0);
		_exit(stay(arg, fds[1]));
	}
	close(fds[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*ret_fd = fds[0];
	return 0;
}

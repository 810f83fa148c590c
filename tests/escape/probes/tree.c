/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree that tries to outlive its run: tree SECONDS [exit]
 *
 * Processes in sessions of their own, double-forked, stopped, ignoring signals, forking on; with
 * `exit` the first one ends at once and leaves the others behind. Each writes a heartbeat into
 * the current directory if it may. Bounded by SECONDS in any case.
 */
#include <sys/prctl.h>
#include <time.h>

#include "probe.h"

static unsigned seconds;

static void beat(const char *name)
{
	unsigned i;

	for (i = 0; i < seconds * 50; i++) {
		int fd = open("heartbeat", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

		if (fd >= 0) {
			if (write(fd, name, 1) < 0)
				_exit(1);
			close(fd);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	_exit(0);
}

static void ignore_all(void)
{
	int sig;

	for (sig = 1; sig < 65; sig++)
		signal(sig, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

static void daemonise(const char *name, int stop)
{
	if (fork())
		return;
	setsid();
	if (fork())
		_exit(0);
	setsid();
	ignore_all();
	prctl(PR_SET_PDEATHSIG, 0);
	if (stop)
		raise(SIGSTOP);
	beat(name);
}

/* A chain that always has a fresh pid, to slip through a killer that lists and then kills. */
static void runner(void)
{
	unsigned i;

	if (fork())
		return;
	setsid();
	for (i = 0; i < seconds * 2000; i++) {
		if (fork())
			_exit(0);
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	seconds = (unsigned)atoi(argv[1]);
	daemonise("a", 0);
	daemonise("b", 0);
	daemonise("s", 1);
	runner();
	if (argc > 2) {
		nanosleep(&(struct timespec){ .tv_nsec = 60000000 }, NULL);
		return 0;
	}
	if (!fork())
		beat("c");
	ignore_all();
	beat("m");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that betrays its survival: clinger [-x] MARK
 *
 * Every process of it carries MARK in its arguments, holds a shared lock on the file `alive` of the
 * current directory and leaves a beat in `heartbeat` every millisecond. Some are daemons in
 * sessions of their own, one is stopped, one always has a new pid; none heeds a signal. `ran` says
 * that the command began. With -x the first process ends soon and the others stay. Bounded to some
 * seconds in any case.
 */
#include <sys/file.h>
#include <sys/prctl.h>
#include <time.h>

#include "probe.h"

#define SECONDS 10
#define BEATS_PER_SECOND 1000

static void nap(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void hold(void)
{
	int fd = open("alive", O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || flock(fd, LOCK_SH) < 0)
		_exit(3);
}

static void beat(char who)
{
	int fd = open("heartbeat", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	for (int i = 0; fd >= 0 && i < SECONDS * BEATS_PER_SECOND; i++) {
		if (write(fd, &who, 1) < 0)
			_exit(1);
		nap(1000000000 / BEATS_PER_SECOND);
	}
	_exit(0);
}

static void ignore_all(void)
{
	for (int sig = 1; sig < 65; sig++)
		signal(sig, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

static void daemonise(char who, int stop)
{
	if (fork())
		return;
	setsid();
	if (fork())
		_exit(0);
	setsid();
	prctl(PR_SET_PDEATHSIG, 0);
	hold();
	if (stop)
		raise(SIGSTOP);
	beat(who);
}

/* Each link of the chain lives for half a millisecond: it slips through one who lists, then kills.
 */
static void run_away(void)
{
	if (fork())
		return;
	setsid();
	hold();
	for (int i = 0; i < SECONDS * 2000; i++) {
		if (fork())
			_exit(0);
		nap(500000);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	close(open("ran", O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	ignore_all();
	hold();
	daemonise('a', 0);
	daemonise('s', 1);
	run_away();
	if (!strcmp(argv[1], "-x")) {
		nap(2000000);
		return 0;
	}
	beat('m');
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does not want to end: linger HOW SECONDS
 *
 * Prints `ready` when it is in place and `over` when it still exists after SECONDS.
 */
#include <time.h>

#include "../../escape/probes/probe.h"

static unsigned seconds;

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(1);
}

static void stay(void)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
	say("over\n");
	_exit(0);
}

static void flushed(int sig)
{
	(void)sig;
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	say("flushed\n");
	_exit(7);
}

static void noted(int sig)
{
	(void)sig;
	say("noted\n");
}

static void ignore_all(void)
{
	int sig;

	for (sig = 1; sig < 65; sig++)
		signal(sig, SIG_IGN);
}

static void daemonise(void (*then)(int), int stop)
{
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		setsid();
		if (then)
			signal(SIGTERM, then);
		else
			ignore_all();
		say("ready\n");
		if (stop)
			raise(SIGSTOP);
		stay();
	}
}

int main(int argc, char **argv)
{
	const char *how = argc == 3 ? argv[1] : "";

	if (argc != 3)
		return 2;
	seconds = (unsigned)atoi(argv[2]);
	if (!strcmp(how, "flush")) {
		signal(SIGTERM, flushed);
	} else if (!strcmp(how, "note")) {
		signal(SIGTERM, noted);
	} else if (!strcmp(how, "ignore")) {
		ignore_all();
	} else if (!strcmp(how, "stopped")) {
		ignore_all();
		setpgid(0, 0); /* our parent goes on */
		if (!fork())
			stay();
		say("ready\n");
		kill(0, SIGSTOP);
	} else if (!strcmp(how, "session")) {
		ignore_all();
		daemonise(NULL, 0);
		stay();
	} else if (!strcmp(how, "double")) {
		/* The first process waits; the one that flushes has left its parent and group. */
		daemonise(flushed, 0);
		ignore_all();
		stay();
	} else if (!strcmp(how, "hidden")) {
		daemonise(NULL, 1);
		ignore_all();
		stay();
	} else if (!strcmp(how, "vfork")) {
		ignore_all();
		say("ready\n");
		if (!vfork())
			stay();
		stay();
	} else {
		return 2;
	}
	say("ready\n");
	stay();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses CPU time: burn HOW MS [cpu]
 *
 * Every burner ends by itself when MS of wall time have passed; with `cpu`, `one`, `grand` and
 * `many` when MS of CPU time were burned, however long a busy machine takes for that. Prints `done`
 * at the end.
 */
#include <sys/resource.h>
#include <time.h>

#include "../../escape/probes/probe.h"

static long deadline_ms, cpu_ms;

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void spin_until(long end)
{
	volatile unsigned long sum = 0;

	while (now_ms() < end) {
		unsigned i;

		for (i = 0; i < 20000; i++)
			sum += i;
	}
}

static long own_cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void spin(void)
{
	if (!cpu_ms)
		spin_until(deadline_ms);
	while (own_cpu_ms() < cpu_ms)
		spin_until(now_ms() + 1);
}

static void children(unsigned count)
{
	while (count--) {
		if (!fork()) {
			spin();
			_exit(0);
		}
	}
}

static void wait_all(void)
{
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

static void four(void)
{
	children(4);
	wait_all();
}

static void session(void)
{
	if (!fork()) {
		setsid();
		if (!fork()) {
			setsid();
			spin();
			_exit(0);
		}
		wait_all();
		_exit(0);
	}
	wait_all();
}

/* Its own end is over before a sampler has seen much of it; the next one goes on. */
static void forking(void)
{
	while (now_ms() < deadline_ms) {
		pid_t pid = fork();

		if (!pid) {
			spin_until(now_ms() + 3);
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
}

/* The same amount in a hundred portions, each of a process that is gone when the next one starts.
 */
static void many(void)
{
	unsigned i;

	cpu_ms /= 100;
	for (i = 0; i < 100; i++) {
		if (!fork()) {
			spin();
			_exit(0);
		}
		wait_all();
	}
}

/* The burners are not waited for: their time is added to no parent's account. */
static void unwaited(void)
{
	signal(SIGCHLD, SIG_IGN);
	while (now_ms() < deadline_ms) {
		if (!fork()) {
			spin_until(now_ms() + 20);
			_exit(0);
		}
		wait_all();
	}
}

/* Children that stay, and rest when the other half works. */
static void taking_turns(void)
{
	pid_t pid = fork();
	long turn = 0;

	for (; now_ms() < deadline_ms; turn++) {
		long end = now_ms() + 50;

		if ((turn & 1) == (pid != 0))
			spin_until(end);
		else
			nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	}
	if (!pid)
		_exit(0);
	wait_all();
}

/* The burner is a grandchild that is waited for by its parent only. */
static void grandchild(void)
{
	if (!fork()) {
		if (!fork()) {
			spin();
			_exit(0);
		}
		wait_all();
		_exit(0);
	}
	wait_all();
}

static void awake(int sig)
{
	(void)sig;
}

/* The kernel's timers continue a process, stopped or not. A stop discards the signals that are
 * pending, and their timers with them: hence many, and half of them rare enough that some are not
 * pending when the process has waited long for a CPU. */
static void timers(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT };
	unsigned i;

	signal(SIGCONT, awake);
	for (i = 0; i < 100; i++) {
		long every = i < 50 ? 1000000 + i * 50000 : i * 10000000;
		struct itimerspec often = { { 0, every }, { 0, every } };
		timer_t timer;

		if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
		    timer_settime(timer, 0, &often, NULL) < 0)
			exit(3);
	}
	spin();
}

/* Six processes that do nothing but let each other go on. */
static void continuing(void)
{
	unsigned i;

	for (i = 0; i < 6; i++) {
		if (!fork()) {
			while (now_ms() < deadline_ms)
				kill(-getpgrp(), SIGCONT);
			_exit(0);
		}
	}
	spin();
	wait_all();
}

/* Stops a child of its own and watches whether anybody else lets it go on. */
static void stopper(void)
{
	pid_t pid = fork();
	int status, resumed = 0;

	if (!pid) {
		for (;;)
			spin_until(now_ms() + 1000);
	}
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	while (now_ms() < deadline_ms) {
		char path[64], text[512];
		ssize_t len;
		int fd;

		spin_until(now_ms() + 5);
		if (waitpid(pid, &status, WNOHANG | WCONTINUED) == pid)
			resumed++;
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
		text[len > 0 ? len : 0] = 0;
		if (fd >= 0)
			close(fd);
		if (len > 0 && strstr(text, ") ") && strstr(text, ") ")[2] != 'T')
			resumed++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	printf("resumed %d\n", resumed);
}

/* Watches a child that burns: whether anybody sees it stopped. */
static void watcher(void)
{
	int status, stopped = 0;
	pid_t pid = fork();

	if (!pid) {
		spin();
		_exit(0);
	}
	while (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status))
		stopped++;
	printf("stopped %d\n", stopped);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*burn)(void);
	} ways[] = {
		{ "one", spin },	 { "four", four },	   { "session", session },
		{ "forking", forking },	 { "unwaited", unwaited }, { "turns", taking_turns },
		{ "grand", grandchild }, { "many", many },	   { "stopper", stopper },
		{ "watcher", watcher },	 { "timers", timers },	   { "continuing", continuing },
	};
	unsigned i;

	if (argc < 3)
		return 2;
	if (argc > 3)
		cpu_ms = atol(argv[2]);
	deadline_ms = now_ms() + atol(argv[2]);
	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (strcmp(ways[i].name, argv[1]))
			continue;
		ways[i].burn();
		puts("done");
		return 0;
	}
	return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that are gone before they can be hit: chain CHAINS SECONDS PAUSE_US [exit]
 *
 * Each task of a chain makes the next one, which shares its memory (a fork where that is refused),
 * and ends; all end after SECONDS. With `exit` the first process ends at once, otherwise it waits
 * for the time to pass. A chain stops by itself where the whole machine has too many tasks.
 */
#include <sched.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "probe.h"

#define STACK_BYTES 8192
#define RING 256 /* stacks of one chain: the task that had the next one is long gone */
#define MACHINE_MAX 12000

static char *stacks;
static time_t end;
static useconds_t pause_us;

static int is_over(void)
{
	struct timespec now;
	struct sysinfo machine;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec >= end || sysinfo(&machine) < 0 || machine.procs > MACHINE_MAX;
}

static int run_link(void *arg)
{
	uintptr_t at = (uintptr_t)arg;
	long pid = 0;

	while (pid <= 0 && !is_over()) {
		at = at / RING * RING + (at + 1) % RING;
		if (pause_us)
			usleep(pause_us);
		pid = clone(run_link, stacks + (at + 1) * STACK_BYTES, CLONE_VM | SIGCHLD,
			    (void *)at);
		if (pid < 0 && errno == EPERM)
			pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* 0: we are the next one */
	}
	syscall(SYS_exit, 0); /* not the C library's, whose state all of them share */
	return 0;
}

int main(int argc, char **argv)
{
	uintptr_t n = argc > 3 ? (uintptr_t)atoi(argv[1]) : 0;
	struct timespec now;

	if (n == 0)
		return 2;
	signal(SIGTERM, SIG_IGN);
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + atoi(argv[2]);
	pause_us = (useconds_t)atoi(argv[3]);
	stacks = aligned_alloc(STACK_BYTES, (n * RING + 1) * STACK_BYTES);
	if (!stacks)
		return 2;
	for (uintptr_t i = 0; i < n; i++)
		if (fork() == 0)
			run_link((void *)(i * RING));
	while (argc == 4 && !is_over())
		usleep(10000);
	return 0;
}

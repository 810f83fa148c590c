/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the locks of its own address spaces: grip SECONDS
 *
 * Each holder changes the protection of many pages over and over, at the lowest priority there is,
 * while others keep every CPU busy. A reader of its smaps then waits for a process that hardly ever
 * gets to run. Says `ready`; prints `over` and ends by itself after SECONDS.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../../escape/probes/probe.h"

#define HOLDERS 4
#define SPAN ((size_t)1 << 30)
#define BUSY_PER_CPU 4
#define BUSY_MAX 64
#define POPULATE_READ 22 /* MADV_POPULATE_READ */

static void hold(int ready_fd, unsigned seconds)
{
	char *mem = mmap(NULL, SPAN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct sched_param none = { 0 };

	alarm(seconds);
	if (mem == MAP_FAILED || madvise(mem, SPAN, MADV_NOHUGEPAGE) < 0 ||
	    madvise(mem, SPAN, POPULATE_READ) < 0)
		_exit(3);
	if (sched_setscheduler(0, SCHED_IDLE, &none) < 0)
		setpriority(PRIO_PROCESS, 0, 19);
	if (write(ready_fd, "x", 1) != 1)
		_exit(3);
	for (;;) {
		mprotect(mem, SPAN, PROT_READ | PROT_WRITE);
		mprotect(mem, SPAN, PROT_READ);
	}
}

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 1, i;
	long busy = sysconf(_SC_NPROCESSORS_ONLN) * BUSY_PER_CPU;
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		return 3;
	for (i = 0; i < HOLDERS; i++)
		if (!fork())
			hold(ready[1], seconds);
	close(ready[1]);
	for (i = 0; i < HOLDERS; i++)
		if (read(ready[0], &byte, 1) != 1)
			return 3;
	for (i = 0; i < (busy < BUSY_MAX ? busy : BUSY_MAX); i++) {
		if (!fork()) {
			alarm(seconds);
			for (;;)
				;
		}
	}
	puts("ready");
	fflush(stdout);
	sleep(seconds);
	puts("over");
	return 0;
}

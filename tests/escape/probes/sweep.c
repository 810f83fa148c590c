/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call number with arguments that make no sense: sweep [FIRST LAST]
 *
 * Prints `NUMBER verdict`: what the kernel, or the filter in front of it, answered. Calls that take
 * no argument and do something at once are left out.
 */
#include "probe.h"

static const int left_out[] = {
	SYS_rt_sigreturn, SYS_exit,    SYS_exit_group,	SYS_sync,
	SYS_setsid,	  SYS_vhangup, SYS_sched_yield,
#ifdef SYS_fork
	SYS_pause,	  SYS_fork,    SYS_vfork,
#endif
};

static int is_left_out(long nr)
{
	size_t i;

	for (i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (left_out[i] == nr)
			return 1;
	return 0;
}

static long attempt(void *arg)
{
	long nr = *(long *)arg;

	return syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
}

int main(int argc, char **argv)
{
	long first = argc > 2 ? strtol(argv[1], NULL, 0) : 0;
	long last = argc > 2 ? strtol(argv[2], NULL, 0) : 600;
	char name[32];
	long nr;

	for (nr = first; nr <= last; nr++) {
		if (is_left_out(nr))
			continue;
		snprintf(name, sizeof(name), "%ld", nr);
		row_child(name, attempt, &nr);
	}
	return 0;
}

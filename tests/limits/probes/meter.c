/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the machine's free memory falls: meter PERIOD_US
 *
 * Prints `ready`, then samples until its standard input ends and prints, in KiB, the fall of
 * MemAvailable and the rise of Shmem since the first sample, then the number of samples and the
 * longest gap between two of them in microseconds.
 */
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "../../escape/probes/probe.h"

static long field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? atol(at + strlen(name)) : 0;
}

static long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000L + ts.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	struct sched_param first = { .sched_priority = 1 };
	long base = 0, lowest = 0, shmem = 0, highest = 0, samples = 0, gap = 0, last = 0;
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char text[8192];
	int fd;

	if (argc != 2)
		return 2;
	/* Root only; the writers on all processors would otherwise keep the meter waiting. */
	(void)sched_setscheduler(0, SCHED_FIFO, &first);
	fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	while (fd >= 0) {
		ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
		long now = now_us(), available;
		struct timespec period = { .tv_nsec = atol(argv[1]) * 1000 };

		if (len <= 0)
			return 1;
		text[len] = 0;
		available = field(text, "MemAvailable:");
		if (!samples++) {
			base = lowest = available;
			shmem = highest = field(text, "Shmem:");
			puts("ready");
			fflush(stdout);
		} else if (now - last > gap) {
			gap = now - last;
		}
		last = now;
		if (available < lowest)
			lowest = available;
		if (field(text, "Shmem:") > highest)
			highest = field(text, "Shmem:");
		if (poll(&in, 1, 0) > 0)
			break;
		nanosleep(&period, NULL);
	}
	printf("%ld %ld %ld %ld\n", base - lowest, highest - shmem, samples, gap);
	return 0;
}

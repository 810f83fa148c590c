/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races against init, which changes metadata in our place: metarace OWN FOREIGN DIRECTORY
 * MILLISECONDS
 *
 * OWN is a file that may be changed, FOREIGN (no longer than OWN) one that may not. A second thread
 * writes the one path and the other into the buffer that is handed to the kernel; later it
 * exchanges DIRECTORY/a, a directory, with DIRECTORY/b, a link to where FOREIGN lies. Only the
 * test's look at FOREIGN counts. Prints how many changes went through.
 */
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#include "probe.h"

static atomic_int stop;
static char buffer[PATH_MAX];
static const char *own, *foreign;
static char first[PATH_MAX], second[PATH_MAX];

static void *flip(void *arg)
{
	size_t n_own = strlen(own) + 1, n_foreign = strlen(foreign) + 1;

	(void)arg;
	while (!stop) {
		memcpy(buffer, foreign, n_foreign);
		memcpy(buffer, own, n_own);
	}
	return NULL;
}

static void *swap(void *arg)
{
	(void)arg;
	while (!stop)
		syscall(SYS_renameat2, AT_FDCWD, first, AT_FDCWD, second, 2 /* EXCHANGE */);
	return NULL;
}

static long change(const char *path)
{
	const struct timespec times[2] = { { .tv_sec = 7 }, { .tv_sec = 7 } };
	long done = 0;

	done += chmod(path, 0777) == 0;
	done += fchmodat(AT_FDCWD, path, 0777, 0) == 0;
	done += syscall(452, AT_FDCWD, path, 0777, 0) == 0;
	done += utimensat(AT_FDCWD, path, times, 0) == 0;
	done += chown(path, getuid(), getgid()) == 0;
	return done;
}

static void race(const char *name, void *(*other)(void *), const char *path, long ms)
{
	struct timespec now, start;
	pthread_t thread;
	long done = 0, tries = 0;

	stop = 0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (pthread_create(&thread, NULL, other, NULL))
		return;
	do {
		done += change(path);
		tries++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
	stop = 1;
	pthread_join(thread, NULL);
	printf("%s %ld of %ld\n", name, done, 5 * tries);
}

int main(int argc, char **argv)
{
	char through[PATH_MAX + 32];
	const char *leaf;
	long ms;

	if (argc != 5)
		return 2;
	own = argv[1];
	foreign = argv[2];
	ms = strtol(argv[4], NULL, 10);
	leaf = strrchr(foreign, '/');
	snprintf(first, sizeof(first), "%s/a", argv[3]);
	snprintf(second, sizeof(second), "%s/b", argv[3]);
	snprintf(through, sizeof(through), "%s%s", first, leaf);
	memcpy(buffer, own, strlen(own) + 1);
	printf("plain %ld of 5\n", change(own));
	race("path", flip, buffer, ms);
	race("directory", swap, through, ms);
	return 0;
}

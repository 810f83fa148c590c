/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts memory in unusual places: stash KIND MIB [HOLD_MS]
 *
 * None of it is mapped by any process. Like eat.c: holds what it has for HOLD_MS (default 1500) and
 * prints `ate N MiB`.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <time.h>

#include "../../escape/probes/probe.h"

#define MIB ((size_t)1 << 20)
#define SEMAPHORE_BYTES 64
#define SET_SEMAPHORES 16000
#define SETS_MAX 4096
#define CONNECTIONS_MAX 450 /* two descriptors each */

static int sets[SETS_MAX];
static unsigned n_sets;

/* Outside of a namespace of their own, semaphores outlive the program. */
static void tidy(void)
{
	while (n_sets)
		semctl(sets[--n_sets], 0, IPC_RMID);
}

static void fail(const char *what)
{
	fprintf(stderr, "stash: %s: %s\n", what, errno_name(errno));
	tidy();
	_exit(3);
}

static void stash_semaphores(size_t size)
{
	size_t at;

	for (at = 0; at < size && n_sets < SETS_MAX; at += SET_SEMAPHORES * SEMAPHORE_BYTES) {
		int id = semget(IPC_PRIVATE, SET_SEMAPHORES, IPC_CREAT | 0600);

		if (id < 0)
			fail("semget");
		sets[n_sets++] = id;
	}
}

static int listener(struct sockaddr_in *ret)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(any);

	if (fd < 0 || bind(fd, (void *)&any, len) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (void *)&any, &len) < 0)
		fail("listen");
	*ret = any;
	return fd;
}

/* What one end has sent and the other does not read; the kernel makes such queues longer. */
static void stash_tcp(size_t size)
{
	static char block[65536];
	struct sockaddr_in where;
	int server = listener(&where), i;
	size_t at = 0;

	for (i = 0; i < CONNECTIONS_MAX && at < size; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ssize_t n;

		if (fd < 0 || connect(fd, (void *)&where, sizeof(where)) < 0 ||
		    accept4(server, NULL, NULL, SOCK_CLOEXEC) < 0)
			fail("connect");
		while ((n = send(fd, block, sizeof(block), MSG_DONTWAIT)) > 0)
			at += (size_t)n;
	}
	if (at < size)
		fail("send");
}

static size_t thread_size;

/* Only this thread's table has the file, and /proc/PID/fd is the first thread's. */
static void *hold_file(void *arg)
{
	static char block[256 * 1024];
	size_t at;
	int fd;

	/* Closes nothing. unshare() is not to be had in a sandbox. */
	if (close_range(~0u - 1, ~0u, CLOSE_RANGE_UNSHARE) < 0)
		fail("close_range");
	fd = memfd_create("stash", MFD_CLOEXEC | 8 /* MFD_NOEXEC_SEAL */);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("stash", MFD_CLOEXEC);
	if (fd < 0)
		fail("memfd_create");
	for (at = 0; at < thread_size; at += sizeof(block))
		if (write(fd, block, sizeof(block)) != sizeof(block))
			fail("write");
	pthread_barrier_wait(arg);
	pause();
	return NULL;
}

static void stash_thread(size_t size)
{
	static pthread_barrier_t full;
	pthread_t thread;

	thread_size = size;
	pthread_barrier_init(&full, NULL, 2);
	if (pthread_create(&thread, NULL, hold_file, &full))
		fail("pthread_create");
	pthread_barrier_wait(&full);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*stash)(size_t);
	} kinds[] = {
		{ "semaphores", stash_semaphores },
		{ "tcp", stash_tcp },
		{ "thread", stash_thread },
	};
	unsigned i, hold_ms = argc > 3 ? (unsigned)atoi(argv[3]) : 1500;

	if (argc < 3)
		return 2;
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kinds[i].name, argv[1]))
			continue;
		kinds[i].stash((size_t)atol(argv[2]) * MIB);
		nanosleep(&(struct timespec){ hold_ms / 1000, hold_ms % 1000 * 1000000L }, NULL);
		tidy();
		printf("ate %s MiB\n", argv[2]);
		fflush(stdout);
		_exit(0);
	}
	return 2;
}

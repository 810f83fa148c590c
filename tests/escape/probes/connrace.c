/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races against init, which connects in our place: connrace TARGET_PORT OTHER_PORT MILLISECONDS
 *
 * A second thread keeps changing what connect() is handed: the family between AF_UNIX and AF_INET,
 * the port between OTHER_PORT (which may be reached) and TARGET_PORT (which may not), and the
 * socket behind the descriptor. Only the log of the listener on TARGET_PORT counts. Prints how
 * many calls succeeded.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "probe.h"

static atomic_int stop;
static struct sockaddr_in address;
static in_port_t target, other;
static int place, spare; /* descriptors */

static void *flip_family(void *arg)
{
	volatile sa_family_t *family = &address.sin_family;

	(void)arg;
	while (!stop) {
		*family = AF_UNIX;
		*family = AF_INET;
		*family = AF_UNSPEC;
		*family = AF_INET;
	}
	return NULL;
}

static void *flip_port(void *arg)
{
	volatile in_port_t *port = &address.sin_port;

	(void)arg;
	while (!stop) {
		*port = other;
		*port = target;
	}
	return NULL;
}

static void *flip_socket(void *arg)
{
	(void)arg;
	while (!stop) {
		dup2(spare, place);
		close(place);
		dup2(1, place);
	}
	return NULL;
}

static long passed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static void race(const char *name, void *(*flip)(void *), int domain, long ms)
{
	struct timespec start;
	pthread_t thread;
	long done = 0, tries = 0;

	address = (struct sockaddr_in){ .sin_family = AF_INET,
					.sin_port = flip == flip_socket ? other : target,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	stop = 0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (pthread_create(&thread, NULL, flip, NULL))
		exit(2);
	while (passed_ms(&start) < ms) {
		int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			break; /* no such sockets here */
		if (flip == flip_socket)
			dup2(fd, place);
		done += connect(flip == flip_socket ? place : fd, (struct sockaddr *)&address,
				sizeof(address)) == 0;
		tries++;
		close(fd);
	}
	stop = 1;
	pthread_join(thread, NULL);
	printf("%s %ld of %ld\n", name, done, tries);
}

int main(int argc, char **argv)
{
	long ms;

	if (argc != 4)
		return 2;
	target = htons((in_port_t)atoi(argv[1]));
	other = htons((in_port_t)atoi(argv[2]));
	ms = atol(argv[3]);
	spare = socket(AF_INET, SOCK_STREAM, 0);
	place = dup(spare);
	if (spare < 0 || place < 0)
		return 2;
	race("family", flip_family, AF_INET, ms);
	race("family-of-unix", flip_family, AF_UNIX, ms);
	race("port", flip_port, AF_INET, ms);
	race("socket", flip_socket, AF_INET, ms);
	return 0;
}

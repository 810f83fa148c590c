/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One poll loop over the socket, its clients and the inits that were given away.
 *
 * A client sends one request and gets one answer; the library decides whether he gets an init
 * (src/launch/offer.c). Nothing here waits for a client: who sends nothing for a while is dropped,
 * and there are only so many at a time. What is missing is made when nobody has come for a moment,
 * so that it is not in the way of the run that has just been given one.
 */
#include "pool_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/macros.h"

#define CLIENTS_MAX 64
#define REQUEST_MS 1000
#define QUIET_MS 10    /* nobody came for so long: time to make what is missing */
#define LOOK_MS 30000  /* for inits that have become too old, and changes of the host's files */
#define FIRST_CLIENT 3 /* among what is polled */

struct client {
	int fd;
	int64_t since_ms;
};

static struct client clients[CLIENTS_MAX];
static unsigned n_clients;

int64_t pool_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int pool_publish(const struct pool_server *s, int64_t started_ms)
{
	struct cordon_pool_stats stats;
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	int r;

	cordon_pool_stats(s->pool, &stats);
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_int(&w, "pid", getpid());
	json_uint(&w, "size", s->size);
	json_uint(&w, "parked", stats.parked);
	json_uint(&w, "warm", stats.warm);
	json_uint(&w, "refused", stats.cold);
	json_uint(&w, "made", stats.made);
	json_int(&w, "idle_ms", s->idle_ms);
	json_int(&w, "started_ms", started_ms); /* of the clock that does not stand still */
	json_close_object(&w);
	r = sb.failed ? -ENOMEM : pool_tell(&s->place, s->proof, sb.data);
	strbuf_done(&sb);
	return r;
}

static void drop(unsigned i)
{
	close(clients[i].fd);
	clients[i] = clients[--n_clients];
}

/* If there are too many, the one that has waited longest goes: it had its time. */
static void accept_all(const struct pool_server *s)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		unsigned oldest = 0;

		if (fd < 0)
			return;
		for (unsigned j = 1; j < n_clients; j++)
			if (clients[j].since_ms < clients[oldest].since_ms)
				oldest = j;
		if (n_clients == CLIENTS_MAX)
			drop(oldest);
		clients[n_clients++] = (struct client){ fd, pool_now_ms() };
	}
}

static void drop_silent(void)
{
	int64_t now = pool_now_ms();

	for (unsigned i = n_clients; i > 0; i--)
		if (now - clients[i - 1].since_ms > REQUEST_MS)
			drop(i - 1);
}

/* 1 = somebody got an init */
static int answer(const struct pool_server *s, const struct pollfd *fds, unsigned n)
{
	int given = 0;

	for (unsigned i = n; i > 0; i--) {
		if (!fds[FIRST_CLIENT + i - 1].revents)
			continue;
		if (cordon_pool_offer(s->pool, clients[i - 1].fd, NULL) == 1)
			given = 1;
		drop(i - 1);
	}
	return given;
}

static int must_end(const struct pool_server *s)
{
	struct signalfd_siginfo info;

	return read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

/* How long to wait. */
static int patience(const struct pool_server *s, int is_missing, int64_t active_ms)
{
	int64_t wait = is_missing ? QUIET_MS : LOOK_MS, left;

	if (n_clients && wait > REQUEST_MS)
		wait = REQUEST_MS;
	left = active_ms + s->idle_ms - pool_now_ms();
	if (s->idle_ms && left < wait)
		wait = left < 0 ? 0 : left;
	return (int)wait;
}

static int none_is_parked(const struct pool_server *s)
{
	struct cordon_pool_stats stats;

	cordon_pool_stats(s->pool, &stats);
	return stats.parked == 0;
}

void pool_serve(struct pool_server *s)
{
	int64_t started_ms = pool_now_ms(), active_ms = started_ms;
	int is_missing = 0;

	for (;;) {
		struct pollfd fds[CLIENTS_MAX + FIRST_CLIENT] = {
			{ .fd = s->signal_fd, .events = POLLIN },
			{ .fd = s->listen_fd, .events = POLLIN },
			{ .fd = cordon_pool_fd(s->pool), .events = POLLIN },
		};
		unsigned n = n_clients;
		int r;

		for (unsigned i = 0; i < n; i++)
			fds[FIRST_CLIENT + i] = (struct pollfd){ clients[i].fd, POLLIN, 0 };
		r = poll(fds, FIRST_CLIENT + n, patience(s, is_missing, active_ms));
		if (r < 0 && errno != EINTR)
			break;
		if (fds[0].revents && must_end(s))
			break;
		if (r > 0 && answer(s, fds, n)) {
			active_ms = pool_now_ms();
			is_missing = 1;
			/* Who got it may ask at once. */
			(void)pool_publish(s, started_ms);
		}
		if (r > 0 && fds[1].revents)
			accept_all(s);
		drop_silent();
		if (r == 0 || fds[2].revents || none_is_parked(s)) {
			/* It fails on a machine that is full for the moment. */
			(void)cordon_pool_refill(s->pool, NULL);
			(void)pool_publish(s, started_ms);
			is_missing = 0;
		}
		if (s->idle_ms && pool_now_ms() - active_ms >= s->idle_ms)
			break;
	}
	/* From here on another one can be started. */
	close(s->listen_fd);
	pool_unclaim(&s->place);
	while (n_clients)
		drop(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling: one address after the other, the next one when an attempt fails or has had its head
 * start. The first that is connected wins.
 */
#include "gateway/conn.h"

#include <linux/errno.h>

#define HEAD_START_NS (250 * MS)
#define DIAL_NS (20 * SECOND)

void dial_stop(struct gateway *g, struct conn *c)
{
	for (int i = 0; i < DIAL_AT_ONCE; i++)
		source_close(g, &c->dial.attempts[i]);
}

/* @fd is connected: the others are given up. */
static void connected(struct gateway *g, struct conn *c, int fd, const struct net_addr *addr)
{
	c->dialled = *addr;
	c->is_dialled = true;
	dial_stop(g, c);
	conn_connected(g, c, fd);
}

static int free_attempt(const struct conn *c)
{
	for (int i = 0; i < DIAL_AT_ONCE; i++) {
		if (c->dial.attempts[i].fd < 0)
			return i;
	}
	return -1;
}

static bool has_attempts(const struct conn *c)
{
	for (int i = 0; i < DIAL_AT_ONCE; i++) {
		if (c->dial.attempts[i].fd >= 0)
			return true;
	}
	return false;
}

static void attempt_ready(struct gateway *g, struct source *w, uint32_t events);

/* Begins with the next address; false if there is none left, or no room. */
static bool begin_next(struct gateway *g, struct conn *c)
{
	struct dial *d = &c->dial;
	int slot = free_attempt(c);

	while (slot >= 0 && d->next < d->n_addrs) {
		const struct net_addr *addr = &d->addrs[d->next++];
		int fd = (int)sock_open(addr->is_v6, true);
		long r = fd < 0 ? fd : sock_connect(fd, addr, c->port);

		if (r == 0) {
			connected(g, c, fd, addr);
			return true;
		}
		if (r == -EINPROGRESS)
			r = source_open(g, &d->attempts[slot], fd, EVENT_OUT | EVENT_EDGE,
					attempt_ready, c);
		if (r == 0) {
			d->attempted[slot] = *addr;
			d->next_ns = g->now_ns + HEAD_START_NS;
			wake_at(g, d->next_ns);
			return true;
		}
		drop_fd(&fd);
	}
	return false;
}

static void attempt_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct conn *c = w->owner;
	long slot = w - c->dial.attempts, r = sock_error(w->fd);

	(void)events;
	if (r == 0) {
		struct net_addr addr = c->dial.attempted[slot];

		connected(g, c, source_release(g, w), &addr);
		return;
	}
	source_close(g, w);
	if (!begin_next(g, c) && !has_attempts(c))
		conn_unreachable(g, c, "unreachable");
}

void dial_start(struct gateway *g, struct conn *c)
{
	conn_deadline(g, c, DIAL_NS);
	if (!begin_next(g, c))
		conn_unreachable(g, c, "unreachable");
}

void dial_expire(struct gateway *g, struct conn *c)
{
	if (c->dial.next >= c->dial.n_addrs || free_attempt(c) < 0)
		return;
	if (c->dial.next_ns <= g->now_ns)
		begin_next(g, c);
	else
		wake_at(g, c->dial.next_ns);
}

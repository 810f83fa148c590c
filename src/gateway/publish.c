/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of the sandbox that the host can reach. The host's side is a socket that the supervisor
 * opened; the other must belong to the sandbox's net namespace, so init makes one for each
 * connection and hands it over. Both of the sandbox's loopback addresses are tried.
 */
#include "gateway/publish.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "gateway/conn.h"
#include "gateway/message.h"

#define WAITING_MAX 512 /* a power of two */
#define WAIT_NS (10 * SECOND)

static struct {
	struct source source;
	uint16_t port;
} listeners[GATEWAY_PUBLISH_MAX];

/* What waits for a socket, by the number of the request; NULL = nothing, or no longer. */
static void *waiting[WAITING_MAX];
static uint32_t next_id;

static const struct net_addr loopback[2] = {
	{ 0, { 127, 0, 0, 1 } },
	{ 1, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 } },
};

bool publish_want(struct gateway *g, void *who, enum gateway_protocol protocol)
{
	const struct gateway_want want = { protocol, g->has_v6, next_id };

	if (waiting[next_id % WAITING_MAX] || message_send_want(g->init_fd, &want) < 0)
		return false;
	waiting[next_id++ % WAITING_MAX] = who;
	return true;
}

void publish_forget(const struct conn *c)
{
	publish_forget_any(c);
}

void publish_forget_any(const void *who)
{
	for (unsigned i = 0; i < WAITING_MAX; i++) {
		if (waiting[i] == who)
			waiting[i] = NULL;
	}
}

long publish_connect(struct gateway *g, int fd, bool is_v6, uint16_t port)
{
	return sock_connect_as(fd, g->has_v6, &loopback[is_v6], port);
}

static void attempt_ready(struct gateway *g, struct source *w, uint32_t events);

/* Towards the address of the other family than the last one, if there is one. */
static void connect_inside(struct gateway *g, struct conn *c, int fd)
{
	long r = -ECONNREFUSED;

	while (c->dial.next < (g->has_v6 ? 2u : 1u)) {
		c->dialled = loopback[c->dial.next];
		r = publish_connect(g, fd, c->dial.next++ == 1, c->port);
		if (r == 0) {
			conn_connected(g, c, fd);
			return;
		}
		if (r == -EINPROGRESS && source_open(g, &c->dial.attempts[0], fd,
						     EVENT_OUT | EVENT_EDGE, attempt_ready, c) == 0)
			return;
	}
	drop_fd(&fd);
	conn_unreachable(g, c, "unreachable");
}

static void attempt_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct conn *c = w->owner;
	long r = sock_error(w->fd);
	int fd = source_release(g, w);

	(void)events;
	if (r == 0)
		conn_connected(g, c, fd);
	else
		connect_inside(g, c, fd);
}

void publish_from_init(struct gateway *g, uint32_t id, int fd)
{
	void *who = waiting[id % WAITING_MAX];
	struct conn *c;

	waiting[id % WAITING_MAX] = NULL;
	if (!who || publish_udp_take(g, who, fd)) {
		if (!who)
			drop_fd(&fd);
		return;
	}
	c = who;
	c->was_asked = false;
	c->is_dialled = true;
	c->state = CONN_DIAL;
	c->dial.n_addrs = 0; /* nothing for the dialler to begin by itself */
	if (fd < 0)
		conn_unreachable(g, c, "unreachable");
	else
		connect_inside(g, c, fd);
}

static void accept_one(struct gateway *g, int fd, uint16_t port)
{
	struct conn *c = conn_new(g, fd, true);

	if (!c)
		return;
	c->state = CONN_RESOLVE;
	c->kind = CONN_PLAIN;
	c->port = port;
	c->addr = loopback[0];
	conn_deadline(g, c, WAIT_NS);
	if (bytes_left(g) == 0) {
		conn_refuse(g, c, GATEWAY_R_BYTES, NULL);
		return;
	}
	c->was_asked = publish_want(g, c, GATEWAY_TCP);
	if (!c->was_asked)
		conn_unreachable(g, c, "unreachable");
}

static void listener_ready(struct gateway *g, struct source *w, uint32_t events)
{
	(void)events;
	conn_accept(g, w, accept_one);
}

long publish_open(struct gateway *g)
{
	const struct gateway_config *c = g->config;
	long r = 0;

	for (uint32_t i = 0; i < c->n_publish && r >= 0; i++) {
		listeners[i].port = c->publish[i].port;
		if (c->publish[i].protocol == GATEWAY_UDP)
			r = publish_udp_open(g, g->publish_fds[i], c->publish[i].port);
		else
			r = source_open(g, &listeners[i].source, g->publish_fds[i], EVENT_IN,
					listener_ready, &listeners[i].port);
	}
	return r;
}

void publish_expire(struct gateway *g)
{
	publish_udp_expire(g);
}

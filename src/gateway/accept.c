/* SPDX-License-Identifier: Apache-2.0 */
/* New connections: how many there may be, and how they begin. Theory: conn.h. */
#include "gateway/conn.h"

#define ACCEPTS_PER_TURN 32
#define RATE_PER_SECOND 2000
#define RATE_BURST 2000

static struct {
	struct source source;
	uint16_t port;
} listeners[NET_PORTS_MAX];
static unsigned n_listeners;

/* Of the sandbox, and of the host at published ports. */
static struct rate {
	uint64_t tokens, last_ns;
} rates[2];

static struct conn *find_free(struct gateway *g, bool is_published)
{
	if (n_conns >= g->max_connections)
		return NULL;
	if (is_published && n_published >= (g->max_connections + 1) / 2)
		return NULL;
	for (uint32_t i = 0; i < GATEWAY_CONNECTIONS_MAX; i++) {
		if (conns[i].state == CONN_FREE)
			return &conns[i];
	}
	return NULL;
}

static bool rate_allows(struct gateway *g, struct rate *rate)
{
	uint64_t earned = (g->now_ns - rate->last_ns) / (SECOND / RATE_PER_SECOND);

	if (earned > 0) {
		rate->tokens = rate->tokens + earned < RATE_BURST ? rate->tokens + earned
								  : RATE_BURST;
		rate->last_ns = g->now_ns;
	}
	if (rate->tokens == 0)
		return false;
	rate->tokens--;
	return true;
}

static void turn_away(struct gateway *g, int fd, enum gateway_reason reason)
{
	struct net_addr addr;
	struct name *name;
	uint16_t port = 0;
	char text[NET_ADDR_TEXT_MAX];

	if (sock_local(fd, &addr, &port) < 0)
		memset(&addr, 0, sizeof(addr));
	name = name_of(&addr);
	deny(g, reason, name ? name->text : net_addr_format(&addr, text), port, NULL);
	sock_reset_on_close(fd);
	drop_fd(&fd);
}

struct conn *conn_new(struct gateway *g, int fd, bool is_published)
{
	struct conn *c = find_free(g, is_published);

	if (!c || !rate_allows(g, &rates[is_published])) {
		turn_away(g, fd, c ? GATEWAY_R_RATE : GATEWAY_R_CONNECTIONS);
		return NULL;
	}
	memset(c, 0, sizeof(*c));
	c->server.fd = c->client.fd = -1;
	for (int i = 0; i < DIAL_AT_ONCE; i++)
		c->dial.attempts[i].fd = -1;
	c->up = c->down = (struct flow)FLOW_INIT;
	c->started_ns = g->now_ns;
	sock_no_delay(fd);
	if (source_open(g, &c->client, fd, EVENT_ALL, conn_client_ready, c) < 0) {
		drop_fd(&fd);
		return NULL;
	}
	c->is_published = is_published;
	n_conns++;
	n_published += is_published;
	g->account->n_connections++;
	return c;
}

static enum conn_kind kind_of(uint16_t port)
{
	return port == 443 ? CONN_TLS : port == 80 ? CONN_HTTP : CONN_PLAIN;
}

static void accept_one(struct gateway *g, int fd, uint16_t port)
{
	struct conn *c = conn_new(g, fd, false);
	uint16_t ignored;

	if (!c)
		return;
	c->state = CONN_CHECK;
	c->port = port;
	c->kind = kind_of(port);
	if (sock_local(fd, &c->addr, &ignored) < 0) {
		conn_reset(g, c);
		return;
	}
	c->name = name_of(&c->addr);
	conn_deadline(g, c, HEAD_NS);
	if (admit_target(g, c))
		conn_advance(g, c);
}

void conn_accept(struct gateway *g, struct source *w,
		 void (*take)(struct gateway *, int fd, uint16_t port))
{
	uint16_t port = *(const uint16_t *)w->owner;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		long fd = sock_accept(g, w->fd);

		if (fd < 0)
			return;
		take(g, (int)fd, port);
	}
}

static void listener_ready(struct gateway *g, struct source *w, uint32_t events)
{
	(void)events;
	conn_accept(g, w, accept_one);
}

long conn_listen(struct gateway *g, int fd, uint16_t port)
{
	unsigned i = n_listeners++;

	listeners[i].port = port;
	return source_open(g, &listeners[i].source, fd, EVENT_IN, listener_ready,
			   &listeners[i].port);
}

void conn_take(struct gateway *g, int fd)
{
	struct conn *c = conn_new(g, fd, false);

	if (!c)
		return;
	c->state = CONN_ASK;
	c->proxy = PROXY_UNKNOWN;
	conn_deadline(g, c, HEAD_NS);
	conn_advance(g, c);
}

void conn_accept_last(struct gateway *g)
{
	for (unsigned i = 0; i < n_listeners; i++) {
		struct source *w = &listeners[i].source;

		if (w->fd >= 0)
			listener_ready(g, w, 0);
		source_close(g, w);
	}
}

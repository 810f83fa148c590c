/* SPDX-License-Identifier: Apache-2.0 */
/* Connections: moving on and ending. Theory: conn.h. */
#include "gateway/conn.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"

#define SHUT_WR_NR 1
#define RESOLVE_NS (30 * SECOND)
#define IDLE_NS (3600 * SECOND)
#define HALF_NS (300 * SECOND) /* one side has finished, the other is silent */
#define LINGER_NS (2 * SECOND)

char scratch[HTTP_HEAD_MAX + 1024];
char scratch_out[HTTP_HEAD_MAX + 1024];

struct conn conns[GATEWAY_CONNECTIONS_MAX];
uint32_t n_conns, n_published;
static bool is_busy;

bool conn_is_busy(void)
{
	return is_busy;
}

const char *conn_host(const struct conn *c, char *ret)
{
	return c->name ? c->name->text : net_addr_format(&c->addr, ret);
}

void conn_deadline(struct gateway *g, struct conn *c, uint64_t ns)
{
	c->deadline_ns = g->now_ns + ns;
	wake_at(g, c->deadline_ns);
}

long conn_peek(struct conn *c, void *data, size_t len)
{
	return raw_syscall(__NR_recvfrom, c->client.fd, (long)data, (long)len,
			   MESSAGE_PEEK | MESSAGE_DONTWAIT, 0, 0);
}

void conn_consume(struct conn *c, size_t len)
{
	while (len > 0) {
		long n = sock_recv(c->client.fd, scratch_out,
				   len < sizeof(scratch_out) ? len : sizeof(scratch_out));

		if (n <= 0)
			return; /* it was there a moment ago; the next look tells */
		len -= (size_t)n;
	}
}

static void log_end(struct gateway *g, const struct conn *c)
{
	const struct log_entry entry = {
		.name = c->name ? c->name->text : NULL,
		.addr = c->is_dialled		  ? &c->dialled
			: c->name || c->port == 0 ? NULL
						  : &c->addr,
		.port = c->port,
		.verdict = c->verdict	     ? c->verdict
			   : !c->is_dialled  ? "abandoned"
			   : c->is_published ? "published"
					     : "allowed",
		.bytes_in = c->is_published ? c->up.moved : c->down.moved,
		.bytes_out = c->is_published ? c->down.moved : c->up.moved,
		.duration_ns = g->now_ns - c->started_ns,
	};

	log_connection(g, &entry);
}

static void resolved(struct gateway *g, void *arg, struct name *name);

void conn_close(struct gateway *g, struct conn *c)
{
	if (c->state == CONN_FREE)
		return;
	if (c->was_asked && c->is_published)
		publish_forget(c);
	else if (c->was_asked)
		resolve_cancel(resolved, c);
	dial_stop(g, c);
	log_end(g, c);
	flow_close(&c->up);
	flow_close(&c->down);
	source_close(g, &c->client);
	source_close(g, &c->server);
	c->state = CONN_FREE;
	n_conns--;
	n_published -= c->is_published;
}

void conn_reset(struct gateway *g, struct conn *c)
{
	if (c->client.fd >= 0)
		sock_reset_on_close(c->client.fd);
	if (c->server.fd >= 0)
		sock_reset_on_close(c->server.fd);
	conn_close(g, c);
}

/* Closing with unread bytes would send a RST, which may overtake our answer. */
void conn_linger(struct gateway *g, struct conn *c)
{
	dial_stop(g, c);
	flow_close(&c->up);
	flow_close(&c->down);
	source_close(g, &c->server);
	raw_syscall(__NR_shutdown, c->client.fd, SHUT_WR_NR, 0, 0, 0, 0);
	c->state = CONN_LINGER;
	conn_deadline(g, c, LINGER_NS);
}

static void throw_away(struct gateway *g, struct conn *c)
{
	for (int i = 0; i < 16; i++) {
		long n = sock_recv(c->client.fd, scratch, sizeof(scratch));

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			conn_close(g, c);
			return;
		}
	}
	conn_reset(g, c); /* it does not listen anyway */
}

void conn_refuse(struct gateway *g, struct conn *c, enum gateway_reason reason, const char *other)
{
	/* Fatal alert: access_denied */
	static const char alert[7] = { 21, 3, 3, 0, 2, 2, 49 };
	char text[NET_NAME_MAX + 1];

	/* Before the client is told: it must be recorded by the time the run ends. */
	deny(g, reason, conn_host(c, text), c->port, other);
	c->verdict = "refused";
	if (c->proxy != PROXY_NONE && !c->is_answered) {
		proxy_answer(c, false, true, conn_host(c, text));
	} else if (c->kind == CONN_HTTP && reason == GATEWAY_R_HTTP) {
		http_answer(c,
			    other == http_too_long ? "431 Request Header Fields Too Large"
						   : "400 Bad Request",
			    "not a clear request: ", other);
	} else if (c->kind == CONN_HTTP) {
		http_answer(c, "403 Forbidden", other ? other : conn_host(c, text),
			    " is not allowed in this sandbox (--net-allow)");
	} else if (c->kind == CONN_TLS && reason != GATEWAY_R_NOT_TLS) {
		sock_send(c->client.fd, alert, sizeof(alert));
	} else {
		conn_reset(g, c);
		return;
	}
	conn_linger(g, c);
}

void conn_unreachable(struct gateway *g, struct conn *c, const char *verdict)
{
	char text[NET_NAME_MAX + 1];

	c->verdict = verdict;
	if (c->proxy != PROXY_NONE && !c->is_answered) {
		proxy_answer(c, false, false, conn_host(c, text));
		conn_linger(g, c);
	} else if (c->kind == CONN_HTTP) {
		http_answer(c, "502 Bad Gateway", conn_host(c, text), " cannot be reached");
		conn_linger(g, c);
	} else {
		conn_reset(g, c);
	}
}

static void relay(struct gateway *g, struct conn *c)
{
	enum flow_state up, down = FLOW_WAITS;

	/* What the server says decides about what its client may. */
	if (c->kind == CONN_TLS)
		down = tls_pump_down(g, c);
	up = c->kind == CONN_HTTP  ? http_pump(g, c)
	     : c->kind == CONN_TLS ? tls_pump_up(g, c)
				   : flow_pump(g, &c->up);
	/* Refused or lingering by now: the slot may serve another connection. */
	if (c->state != CONN_RELAY)
		return;
	if (c->kind != CONN_TLS)
		down = flow_pump(g, &c->down);
	if (up == FLOW_TOO_MUCH || down == FLOW_TOO_MUCH) {
		char text[NET_NAME_MAX + 1];

		deny(g, GATEWAY_R_BYTES, conn_host(c, text), c->port, NULL);
		c->verdict = "refused";
		conn_reset(g, c);
	} else if (up == FLOW_BROKEN || down == FLOW_BROKEN) {
		conn_reset(g, c);
	} else if (up == FLOW_DONE && down == FLOW_DONE) {
		conn_close(g, c);
	} else if (c->kind == CONN_HTTP && down == FLOW_DONE) {
		conn_linger(g, c); /* the server is gone: no further requests */
	} else {
		c->has_more = up == FLOW_MORE || down == FLOW_MORE;
		is_busy |= c->has_more;
		/* Half a head has its time from its first byte on. */
		if (!c->has_partial)
			conn_deadline(g, c,
				      up == FLOW_DONE || down == FLOW_DONE ? HALF_NS : IDLE_NS);
	}
}

static void start_relay(struct gateway *g, struct conn *c)
{
	c->up = (struct flow)FLOW_INIT;
	c->down = (struct flow)FLOW_INIT;
	c->up.from = c->down.to = c->client.fd;
	c->up.to = c->down.from = c->server.fd;
	c->up.left = c->kind == CONN_HTTP ? 0 : c->kind == CONN_TLS ? c->hello_len : FLOW_ALL;
	c->down.left = c->kind == CONN_TLS ? 0 : FLOW_ALL;
	c->up.is_urgent = c->down.is_urgent = c->is_urgent;
	c->down.is_in = !c->is_published;
	c->up.is_in = c->is_published;
	c->state = CONN_RELAY;
	relay(g, c);
}

static void resolved(struct gateway *g, void *arg, struct name *name)
{
	struct conn *c = arg;

	(void)name;
	c->was_asked = false;
	if (admit_addresses(g, c)) {
		c->state = CONN_DIAL;
		dial_start(g, c);
	}
}

/* The target is known and allowed, and what has to be checked before dialling was. */
static void find_target(struct gateway *g, struct conn *c)
{
	c->state = CONN_RESOLVE;
	conn_deadline(g, c, RESOLVE_NS);
	if (c->name) {
		c->was_asked = true;
		resolve(g, c->name, resolved, c);
	} else {
		resolved(g, c, NULL);
	}
}

/* c->server is connected. */
static void check_connected(struct gateway *g, struct conn *c)
{
	if (c->proxy != PROXY_NONE && !c->is_answered) {
		c->is_answered = true;
		proxy_answer(c, true, false, NULL);
		conn_deadline(g, c, HEAD_NS);
	}
	if (c->kind == CONN_TLS && !c->is_checked && !admit_hello(g, c))
		return;
	if (c->kind == CONN_HTTP && !c->is_checked && !http_check_first(g, c))
		return;
	start_relay(g, c);
}

static void check_before_dialling(struct gateway *g, struct conn *c)
{
	if (c->kind == CONN_TLS && !admit_hello(g, c))
		return;
	if (c->kind == CONN_HTTP && !http_check_first(g, c))
		return;
	find_target(g, c);
}

void conn_advance(struct gateway *g, struct conn *c)
{
	switch (c->state) {
	case CONN_ASK:
		if (proxy_ask(g, c))
			find_target(g, c);
		break;
	case CONN_CHECK:
		if (c->server.fd >= 0)
			check_connected(g, c);
		else
			check_before_dialling(g, c);
		break;
	case CONN_RELAY:
		relay(g, c);
		break;
	case CONN_LINGER:
		throw_away(g, c);
		break;
	case CONN_RESOLVE:
	case CONN_DIAL:
	case CONN_FREE:
		break;
	}
}

static void note_urgent(struct conn *c, uint32_t events)
{
	if (events & EVENT_PRI)
		c->is_urgent = c->up.is_urgent = c->down.is_urgent = true;
}

static void server_ready(struct gateway *g, struct source *w, uint32_t events)
{
	note_urgent(w->owner, events);
	conn_advance(g, w->owner);
}

void conn_connected(struct gateway *g, struct conn *c, int fd)
{
	sock_no_delay(fd);
	if (source_open(g, &c->server, fd, EVENT_ALL, server_ready, c) < 0) {
		drop_fd(&fd);
		conn_unreachable(g, c, "unreachable");
		return;
	}
	c->state = CONN_CHECK;
	conn_advance(g, c);
}

/* The client gave up while its target was looked for. */
static bool has_given_up(const struct conn *c, uint32_t events)
{
	return (c->state == CONN_RESOLVE || c->state == CONN_DIAL) &&
	       (events & (EVENT_HUP | EVENT_ERR)) != 0;
}

void conn_client_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct conn *c = w->owner;

	note_urgent(c, events);
	if (has_given_up(c, events)) {
		c->verdict = "abandoned";
		conn_reset(g, c);
		return;
	}
	conn_advance(g, c);
	/* All it sent was looked at: an incomplete head or hello stays incomplete. */
	if ((events & (EVENT_RDHUP | EVENT_HUP | EVENT_ERR)) != 0 &&
	    (c->state == CONN_ASK || c->state == CONN_CHECK ||
	     (c->state == CONN_RELAY && c->has_partial))) {
		if (c->state != CONN_RELAY)
			c->verdict = "abandoned";
		conn_reset(g, c);
	}
}

void conn_expire(struct gateway *g)
{
	for (uint32_t i = 0; i < GATEWAY_CONNECTIONS_MAX; i++) {
		struct conn *c = &conns[i];

		if (c->state == CONN_DIAL)
			dial_expire(g, c);
		if (c->state == CONN_FREE)
			continue;
		if (c->deadline_ns <= g->now_ns) {
			if (!c->verdict)
				c->verdict = "timeout";
			conn_reset(g, c);
			continue;
		}
		wake_at(g, c->deadline_ns);
	}
}

void conn_pump_again(struct gateway *g)
{
	if (!is_busy)
		return;
	is_busy = false;
	for (uint32_t i = 0; i < GATEWAY_CONNECTIONS_MAX; i++) {
		if (conns[i].state == CONN_RELAY && conns[i].has_more)
			relay(g, &conns[i]);
	}
}

/* Has the guest sent anything that was not received yet? */
static bool has_unsent(const struct conn *c)
{
	return c->state != CONN_FREE && c->state != CONN_LINGER && !c->is_published &&
	       !c->up.is_shut;
}

bool conn_are_unsent(void)
{
	for (uint32_t i = 0; i < GATEWAY_CONNECTIONS_MAX; i++) {
		if (has_unsent(&conns[i]))
			return true;
	}
	return false;
}

/* The other side must not take what was cut off for complete. */
void conn_end_all(struct gateway *g)
{
	for (uint32_t i = 0; i < GATEWAY_CONNECTIONS_MAX; i++) {
		if (has_unsent(&conns[i]))
			conn_reset(g, &conns[i]);
		else
			conn_close(g, &conns[i]);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published UDP ports. Each sender outside is a session with a socket of its own inside, so that
 * answers find their way back; a session that is silent for a minute is forgotten. While its socket
 * is being made, the first datagram waits; others are lost, as datagrams may be.
 */
#include "gateway/publish.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"

#define SESSIONS_MAX 64
#define PORTS_MAX GATEWAY_PUBLISH_MAX
#define PENDING_MAX 2048
#define DATAGRAM_MAX 65536
#define DATAGRAMS_PER_TURN 64
#define IDLE_NS (60 * SECOND)

static struct port {
	struct source source;
	uint16_t port;
} ports[PORTS_MAX];
static unsigned n_ports;

static struct session {
	bool is_used;
	struct port *port;
	union sock_addr peer;
	int peer_len;
	struct source inside; /* fd -1: its socket is on the way */
	bool is_v6;	      /* which loopback address it is connected to */
	uint64_t deadline_ns;
	uint32_t n_pending;
	uint8_t pending[PENDING_MAX];
} sessions[SESSIONS_MAX];

static uint8_t datagram[DATAGRAM_MAX];

static void touch(struct gateway *g, struct session *s)
{
	s->deadline_ns = g->now_ns + IDLE_NS;
	wake_at(g, s->deadline_ns);
}

static void close_session(struct gateway *g, struct session *s)
{
	publish_forget_any(s);
	source_close(g, &s->inside);
	s->is_used = false;
}

/* A datagram beyond the limit is dropped and recorded. */
static bool may_pass(struct gateway *g, const struct session *s, size_t len)
{
	if (len <= bytes_left(g))
		return true;
	deny(g, GATEWAY_R_BYTES, "127.0.0.1", s->port->port, NULL);
	return false;
}

/* Refused: nothing listens there. Try the other loopback address. */
static void send_inside(struct gateway *g, struct session *s, const void *data, size_t len)
{
	long n;

	if (!may_pass(g, s, len)) {
		close_session(g, s);
		return;
	}
	n = sock_send(s->inside.fd, data, len);

	if (n == -ECONNREFUSED && g->has_v6) {
		s->is_v6 = !s->is_v6;
		publish_connect(g, s->inside.fd, s->is_v6, s->port->port);
		n = sock_send(s->inside.fd, data, len);
	}
	if (n > 0)
		count_bytes(g, true, (uint64_t)n);
}

/* What was refused, to the other address; it counts again, since both may have taken it. */
static void send_pending(struct gateway *g, struct session *s)
{
	uint32_t len = s->n_pending;
	long n;

	s->n_pending = 0;
	if (len == 0 || !may_pass(g, s, len))
		return;
	n = sock_send(s->inside.fd, s->pending, len);
	if (n > 0)
		count_bytes(g, true, (uint64_t)n);
}

static void inside_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct session *s = w->owner;

	(void)events;
	for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
		long n = sock_recv(w->fd, datagram, sizeof(datagram));

		if (n == -ECONNREFUSED && g->has_v6) {
			/* The error of an earlier datagram: the next one goes to the other address.
			 */
			s->is_v6 = !s->is_v6;
			publish_connect(g, w->fd, s->is_v6, s->port->port);
			send_pending(g, s);
			return;
		}
		if (n < 0)
			return;
		s->n_pending = 0;
		touch(g, s);
		if (!may_pass(g, s, (size_t)n)) {
			close_session(g, s);
			return;
		}
		raw_syscall(__NR_sendto, s->port->source.fd, (long)datagram, n,
			    MESSAGE_DONTWAIT | MESSAGE_NOSIGNAL, (long)&s->peer, s->peer_len);
		count_bytes(g, false, (uint64_t)n);
	}
}

bool publish_udp_take(struct gateway *g, void *who, int fd)
{
	struct session *s = who;

	if ((uintptr_t)who < (uintptr_t)sessions ||
	    (uintptr_t)who >= (uintptr_t)(sessions + SESSIONS_MAX))
		return false;
	s->is_v6 = false;
	if (fd < 0 || publish_connect(g, fd, false, s->port->port) < 0 ||
	    source_open(g, &s->inside, fd, EVENT_IN, inside_ready, s) < 0) {
		drop_fd(&fd);
		close_session(g, s);
		return true;
	}
	/* It is kept until the first answer: a refusal comes later. */
	send_inside(g, s, s->pending, s->n_pending);
	return true;
}

static struct session *find_session(const struct port *port, const union sock_addr *peer, int len)
{
	for (int i = 0; i < SESSIONS_MAX; i++) {
		struct session *s = &sessions[i];

		if (s->is_used && s->port == port && s->peer_len == len &&
		    memcmp(&s->peer, peer, (size_t)len) == 0)
			return s;
	}
	return NULL;
}

/* A free one, or the one that has been silent for longest. */
static struct session *new_session(struct gateway *g)
{
	struct session *oldest = &sessions[0];

	for (int i = 0; i < SESSIONS_MAX; i++) {
		if (!sessions[i].is_used)
			return &sessions[i];
		if (sessions[i].deadline_ns < oldest->deadline_ns)
			oldest = &sessions[i];
	}
	close_session(g, oldest);
	return oldest;
}

static void begin_session(struct gateway *g, struct port *port, const union sock_addr *peer,
			  int len, size_t n)
{
	struct session *s = new_session(g);

	if (n > PENDING_MAX)
		n = 0; /* lost; the next one finds the socket */
	memset(s, 0, offsetof(struct session, pending));
	s->inside.fd = -1;
	s->port = port;
	s->peer = *peer;
	s->peer_len = len;
	s->n_pending = (uint32_t)n;
	memcpy(s->pending, datagram, n);
	s->is_used = publish_want(g, s, GATEWAY_UDP);
	touch(g, s);
}

static void port_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct port *port = w->owner;

	(void)events;
	for (int i = 0; i < DATAGRAMS_PER_TURN; i++) {
		union sock_addr peer;
		struct session *s;
		int len = sizeof(peer);
		long n;

		memset(&peer, 0, sizeof(peer));
		n = raw_syscall(__NR_recvfrom, w->fd, (long)datagram, sizeof(datagram),
				MESSAGE_DONTWAIT, (long)&peer, (long)&len);
		if (n < 0)
			return;
		s = find_session(port, &peer, len);
		if (!s) {
			begin_session(g, port, &peer, len, (size_t)n);
		} else if (s->inside.fd >= 0) {
			touch(g, s);
			send_inside(g, s, datagram, (size_t)n);
		}
	}
}

long publish_udp_open(struct gateway *g, int fd, uint16_t port)
{
	struct port *p = &ports[n_ports++];

	p->port = port;
	return source_open(g, &p->source, fd, EVENT_IN, port_ready, p);
}

void publish_udp_expire(struct gateway *g)
{
	for (int i = 0; i < SESSIONS_MAX; i++) {
		if (!sessions[i].is_used)
			continue;
		if (sessions[i].deadline_ns <= g->now_ns)
			close_session(g, &sessions[i]);
		else
			wake_at(g, sessions[i].deadline_ns);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions over TCP: a length of two bytes before each message, any number of them on one
 * connection. Answers go out as they come, in any order. A peer that does not take them is hung up
 * on, so nothing is ever kept to be sent.
 */
#include "gateway/question.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"

#define PEERS_MAX 8
#define IDLE_NS (10 * SECOND)
#define READS_PER_TURN 4
#define ACCEPTS_PER_TURN 4
#define SO_SNDBUF_NR 7
#define UNREAD_MAX 65536 /* answers that were not taken */

struct tcp_peer {
	struct source source;
	int mute_fd; /* instead of source.fd, once the peer has sent all; -1 = none */
	bool is_open;
	uint32_t n_waiting; /* questions without answer */
	uint64_t until_ns;  /* it may be idle */
	size_t len;
	uint8_t data[2 + DNS_MESSAGE_MAX];
};

static struct source listener;
static struct tcp_peer peers[PEERS_MAX];
static unsigned n_open;

static void hang_up(struct gateway *g, struct tcp_peer *p)
{
	if (!p->is_open)
		return;
	p->is_open = false;
	n_open--;
	source_close(g, &p->source);
	drop_fd(&p->mute_fd);
	questions_forget(p);
}

static void be_idle(struct gateway *g, struct tcp_peer *p)
{
	p->until_ns = g->now_ns + IDLE_NS;
	wake_at(g, p->until_ns);
}

void dns_tcp_answer(struct gateway *g, struct tcp_peer *p, const uint8_t *msg, size_t len)
{
	uint8_t frame[2 + DNS_ANSWER_MAX] = { (uint8_t)(len >> 8), (uint8_t)len };
	int fd = p->mute_fd >= 0 ? p->mute_fd : p->source.fd;

	p->n_waiting--;
	memcpy(frame + 2, msg, len);
	if (sock_send(fd, frame, len + 2) != (long)len + 2) {
		hang_up(g, p);
		return;
	}
	if (p->n_waiting > 0)
		return;
	if (p->mute_fd >= 0)
		hang_up(g, p);
	else
		be_idle(g, p);
}

/* Takes every whole question out of the buffer. False: it has been hung up on. */
static bool take_questions(struct gateway *g, struct tcp_peer *p)
{
	size_t at = 0;

	while (p->len - at >= 2) {
		size_t len = (size_t)p->data[at] << 8 | p->data[at + 1];
		struct question *q;

		if (len > DNS_MESSAGE_MAX) {
			hang_up(g, p);
			return false;
		}
		if (p->len - at < 2 + len)
			break;
		q = question_new();
		q->tcp = p;
		p->n_waiting++;
		if (!question_ask(g, q, p->data + at + 2, len)) {
			hang_up(g, p);
			return false;
		}
		if (!p->is_open)
			return false;
		at += 2 + len;
	}
	p->len -= at;
	memmove(p->data, p->data + at, p->len);
	return true;
}

/* It sends no more, but may still read. */
static void go_mute(struct gateway *g, struct tcp_peer *p)
{
	if (p->n_waiting == 0)
		hang_up(g, p);
	else
		p->mute_fd = source_release(g, &p->source);
}

static void peer_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct tcp_peer *p = w->owner;

	(void)events;
	for (int i = 0; i < READS_PER_TURN; i++) {
		size_t room = sizeof(p->data) - p->len;
		/* There is room: a message that fills the buffer would have been taken. */
		long r = sock_recv(w->fd, p->data + p->len, room);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r < 0) {
			hang_up(g, p);
			return;
		}
		if (r == 0) {
			go_mute(g, p);
			return;
		}
		p->len += (size_t)r;
		if (!take_questions(g, p) || (size_t)r < room)
			return;
	}
}

/* Which peer gives way first: the one idle for longest, then one that may be gone. */
static bool gives_way(const struct tcp_peer *p, const struct tcp_peer *other)
{
	bool is_idle = p->n_waiting == 0, is_other_idle = other->n_waiting == 0;

	return is_idle != is_other_idle ? is_idle : p->until_ns < other->until_ns;
}

/* A free place, made free if need be; NULL if all wait for answers. */
static struct tcp_peer *peer_new(struct gateway *g)
{
	struct tcp_peer *found = NULL;

	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct tcp_peer *p = &peers[i];

		if (!p->is_open)
			return p;
		if (p->n_waiting > 0 && p->mute_fd < 0)
			continue;
		if (!found || gives_way(p, found))
			found = p;
	}
	if (found)
		hang_up(g, found);
	return found;
}

static void listener_ready(struct gateway *g, struct source *w, uint32_t events)
{
	(void)events;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		long r = sock_accept(g, w->fd);
		struct tcp_peer *p;
		int fd = (int)r;

		if (r < 0)
			return;
		p = peer_new(g);
		if (!p ||
		    source_open(g, &p->source, fd, EVENT_IN | EVENT_RDHUP, peer_ready, p) < 0) {
			drop_fd(&fd);
			continue;
		}
		sock_no_delay(fd);
		p->mute_fd = -1;
		p->is_open = true;
		p->n_waiting = 0;
		p->len = 0;
		n_open++;
		be_idle(g, p);
	}
}

long dns_tcp_open(struct gateway *g, int fd)
{
	const int size = UNREAD_MAX;
	/* Inherited by every connection; by itself it would grow to megabytes. */
	long r = raw5(__NR_setsockopt, fd, SOL_SOCKET_NR, SO_SNDBUF_NR, &size, sizeof(size));

	if (r < 0)
		return r;
	return source_open(g, &listener, fd, EVENT_IN, listener_ready, NULL);
}

/* Half a question counts as idle: only answers extend the time. */
void dns_tcp_expire(struct gateway *g)
{
	for (size_t i = 0; i < PEERS_MAX && n_open > 0; i++) {
		struct tcp_peer *p = &peers[i];

		if (!p->is_open || p->n_waiting > 0)
			continue;
		if (g->now_ns >= p->until_ns)
			hang_up(g, p);
		else
			wake_at(g, p->until_ns);
	}
}

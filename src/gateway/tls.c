/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Port 443: until the server has taken a hello, the client can say nothing that was not judged.
 *
 * The hello that was judged is passed on, and no byte behind it. The server's answer is read on its
 * way (net/hello_answer.c). A ServerHello ends all this: from then on the two speak as they like.
 * If the server asks for another hello, what the client may send before it (a change of cipher,
 * early data, an alert) is passed on record by record, and the next hello is judged like the first.
 * After any other answer the client is not heard any more.
 */
#include "gateway/conn.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"
#include "net/bytes.h"

#define RECORD_HEADER_LEN 5
#define RECORD_CHANGE_CIPHER 20
#define RECORD_HANDSHAKE 22
#define RECORD_DATA 23
#define MAJOR_VERSION 3
#define TURNS 16

/* What the client sends now has to wait; only its end is passed on. */
static enum flow_state hold(struct conn *c)
{
	char byte;
	long n = conn_peek(c, &byte, 1);

	if (n == 0) {
		c->up.has_end = true;
		return FLOW_MORE;
	}
	if (n < 0 && n != -EAGAIN)
		return FLOW_BROKEN;
	/* The server has gone: there will be no answer that lets it pass. */
	return n > 0 && c->down.is_shut ? FLOW_BROKEN : FLOW_WAITS;
}

/* The server wants another hello. FLOW_MORE: something may be passed on. */
static enum flow_state pass_record(struct gateway *g, struct conn *c)
{
	uint8_t header[RECORD_HEADER_LEN];
	long n = conn_peek(c, header, sizeof(header));

	if (n <= 0)
		return hold(c);
	if (header[0] == RECORD_HANDSHAKE) {
		if (!admit_hello(g, c))
			return FLOW_WAITS;
		c->has_partial = false;
		c->tls = TLS_AT_ANSWER;
		c->up.left = c->hello_len;
		return FLOW_MORE;
	}
	if (header[0] < RECORD_CHANGE_CIPHER || header[0] > RECORD_DATA ||
	    (n > 1 && header[1] != MAJOR_VERSION)) {
		conn_refuse(g, c, GATEWAY_R_NOT_TLS, NULL);
		return FLOW_WAITS;
	}
	if (n < RECORD_HEADER_LEN)
		return FLOW_WAITS;
	c->up.left = RECORD_HEADER_LEN + (uint64_t)be16_get(header + 3);
	return FLOW_MORE;
}

enum flow_state tls_pump_up(struct gateway *g, struct conn *c)
{
	for (int i = 0; i < TURNS; i++) {
		enum flow_state r;

		if (c->tls == TLS_OPEN)
			c->up.left = FLOW_ALL;
		r = flow_pump(g, &c->up);
		if (r != FLOW_DONE || c->up.has_end)
			return r;
		r = c->tls == TLS_AT_HELLO ? pass_record(g, c) : hold(c);
		if (r != FLOW_MORE)
			return r;
	}
	return FLOW_MORE;
}

/* The server was heard: what may the client say now? */
static void take_answer(struct gateway *g, struct conn *c, enum answer_result answer)
{
	if (answer == ANSWER_MORE)
		return;
	if (c->tls != TLS_AT_ANSWER || answer == ANSWER_STRANGE) {
		c->tls = TLS_SHUT;
	} else if (answer == ANSWER_HELLO) {
		c->tls = TLS_OPEN;
	} else {
		c->tls = TLS_AT_HELLO;
		c->has_partial = true;
		conn_deadline(g, c, HEAD_NS);
	}
}

enum flow_state tls_pump_down(struct gateway *g, struct conn *c)
{
	for (int i = 0; i < TURNS; i++) {
		bool is_read = c->tls == TLS_AT_ANSWER || c->tls == TLS_AT_HELLO;
		enum flow_state r;
		size_t used;
		long n;

		if (!is_read)
			c->down.left = FLOW_ALL;
		r = flow_pump(g, &c->down);
		if (r != FLOW_DONE || c->down.has_end)
			return r;
		n = raw_syscall(__NR_recvfrom, c->server.fd, (long)scratch, sizeof(scratch),
				MESSAGE_PEEK | MESSAGE_DONTWAIT, 0, 0);
		if (n < 0)
			return n == -EAGAIN ? FLOW_WAITS : FLOW_BROKEN;
		if (n == 0) {
			c->down.has_end = true;
			continue;
		}
		take_answer(
			g, c,
			hello_answer_read(&c->answer, (const uint8_t *)scratch, (size_t)n, &used));
		c->down.left = used;
	}
	return FLOW_MORE;
}

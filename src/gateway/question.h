/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's questions, from the socket they came from to their answer.
 *
 *	dns.c		what is answered; UDP
 *	dns_tcp.c	the same over TCP
 */
#ifndef GATEWAY_QUESTION_H
#define GATEWAY_QUESTION_H

#include "gateway/gateway.h"
#include "net/dns.h"

#define QUESTIONS_MAX 512 /* that wait for the resolver */

struct tcp_peer;

/* The head of one piece of control data, and the longest that there is here. */
struct pktinfo {
	size_t len; /* 0 = none */
	int level, type;
	union {
		struct {
			uint32_t device;
			uint8_t source[4], asked[4];
		} v4;
		struct {
			uint8_t source[16];
			uint32_t device;
		} v6;
		uint64_t room[3];
	};
};

struct question {
	bool is_used;
	struct tcp_peer *tcp; /* NULL: it came over UDP */
	/* the sender, and the address that was asked: the answer must come from there */
	union sock_addr from;
	int from_len;
	struct pktinfo to;
	struct dns_query query;
};

/* Never NULL: if all are taken, one that cannot wait, good until the next one. */
struct question *question_new(void);
/* Answers it, at once or later, and takes it. False: that was nothing to answer. */
bool question_ask(struct gateway *g, struct question *q, const uint8_t *msg, size_t len);
/* This peer is gone: drop its questions. */
void questions_forget(const struct tcp_peer *tcp);

long dns_tcp_open(struct gateway *g, int fd);
void dns_tcp_answer(struct gateway *g, struct tcp_peer *tcp, const uint8_t *msg, size_t len);
void dns_tcp_expire(struct gateway *g);

#endif

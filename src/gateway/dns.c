/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's questions. Whichever server it asks, it is answered here: every address leads to this
 * socket.
 *
 * A name that no rule allows is refused before anything is sent, and the refusal is recorded. An
 * allowed name is resolved first, so that one that does not exist stays so, and then answered with
 * the address from the pool that stands for it; real addresses never get inside.
 *
 * Only A and AAAA have content. HTTPS and SVCB records would bring keys that hide the name of a TLS
 * connection, other ports and other hosts; TXT, MX and the others would be a way out for data and a
 * way in for more names. For all of them the answer is that there is none.
 */
#include "gateway/question.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"

#define TTL 60
#define SOL_IP_NR 0
#define IP_PKTINFO_NR 8
#define IPV6_RECVPKTINFO_NR 49
#define IPV6_PKTINFO_NR 50
#define IPV6_FREEBIND_NR 78
#define PKTINFO_HEAD offsetof(struct pktinfo, v4)

static struct source udp;
static struct question questions[QUESTIONS_MAX];
static struct question spare; /* when they are all taken */

struct question *question_new(void)
{
	struct question *q = &spare;

	for (size_t i = 0; i < QUESTIONS_MAX && q == &spare; i++) {
		if (!questions[i].is_used)
			q = &questions[i];
	}
	q->is_used = true;
	q->tcp = NULL;
	q->from_len = 0;
	q->to.len = 0;
	return q;
}

/* Answers the sender, from the address that it asked. What cannot be sent is lost. */
static void answer_udp(struct question *q, const uint8_t *msg, size_t len)
{
	struct io_vector iov = { msg, len };
	struct message m = { .name = &q->from, .name_len = q->from_len, .iov = &iov, .n_iov = 1 };

	if (q->to.len) {
		m.control = &q->to;
		m.control_len = (q->to.len + 7) & ~(size_t)7;
	}
	raw3(__NR_sendmsg, udp.fd, &m, MESSAGE_DONTWAIT | MESSAGE_NOSIGNAL);
}

static void answer(struct gateway *g, struct question *q, enum dns_rcode rcode,
		   const struct net_addr *addrs, size_t n_addrs, const char *ptr_name)
{
	uint8_t msg[DNS_ANSWER_MAX];
	size_t len = dns_write_answer(&q->query, rcode, addrs, n_addrs, ptr_name, TTL, msg);

	q->is_used = false;
	if (q->tcp)
		dns_tcp_answer(g, q->tcp, msg, len);
	else
		answer_udp(q, msg, len);
}

static void answer_code(struct gateway *g, struct question *q, enum dns_rcode rcode)
{
	answer(g, q, rcode, NULL, 0, NULL);
}

static void answer_localhost(struct gateway *g, struct question *q)
{
	static const struct net_addr loopback[2] = {
		{ .bytes = { 127, 0, 0, 1 } },
		{ .is_v6 = 1, .bytes = { [15] = 1 } },
	};

	answer(g, q, DNS_NOERROR, loopback, g->has_v6 ? 2 : 1, NULL);
}

static void answer_reverse(struct gateway *g, struct question *q, const struct net_addr *addr)
{
	const struct name *name = name_of(addr);

	if (name)
		answer(g, q, DNS_NOERROR, NULL, 0, name->text);
	else if (net_addr_is_loopback(addr))
		answer(g, q, DNS_NOERROR, NULL, 0, "localhost");
	else
		answer_code(g, q, DNS_NXDOMAIN);
}

/* Can the name be reached at all: on a port it is allowed on, at an address that is acceptable? */
static enum net_verdict check_addresses(struct gateway *g, const struct name *name,
					bool *ret_is_alias)
{
	enum net_verdict verdict = NET_SPECIAL;

	/* Unless there is a port on which it is none. */
	*ret_is_alias = name->denied.ports != 0;
	for (uint32_t p = 0; p < g->config->n_ports; p++) {
		uint16_t port = g->config->ports[p];

		if (net_judge_name(&g->rules, name->text, port) != NET_ALLOWED ||
		    name_is_denied(g, name, port))
			continue;
		*ret_is_alias = false;
		for (size_t i = 0; i < name->n_addrs; i++) {
			verdict = net_judge_resolved(&g->rules, &name->addrs[i], port);
			if (verdict == NET_ALLOWED)
				return verdict;
		}
	}
	return verdict;
}

static void resolved(struct gateway *g, void *arg, struct name *name)
{
	struct question *q = arg;
	struct net_addr addrs[2];
	enum net_verdict verdict;
	bool is_alias;

	if (name->rcode != DNS_NOERROR || name->n_addrs == 0) {
		answer_code(g, q, (enum dns_rcode)name->rcode);
		return;
	}
	verdict = check_addresses(g, name, &is_alias);
	if (is_alias) {
		deny(g, GATEWAY_R_ALIAS, name->text, 0, name->denied.text);
		answer_code(g, q, DNS_REFUSED);
		return;
	}
	if (verdict != NET_ALLOWED) {
		char text[NET_ADDR_TEXT_MAX];

		deny(g, reason_of(verdict), name->text, 0, net_addr_format(&name->addrs[0], text));
		answer_code(g, q, DNS_REFUSED);
		return;
	}
	name_address(name, false, &addrs[0]);
	name_address(name, true, &addrs[1]);
	answer(g, q, DNS_NOERROR, addrs, g->has_v6 ? 2 : 1, NULL);
}

/* All checks by the rules. */
static void ask_name(struct gateway *g, struct question *q)
{
	const struct dns_query *query = &q->query;
	enum net_verdict verdict = NET_NOT_LISTED;
	struct name *name;

	if (query->has_name)
		verdict = net_judge_name(&g->rules, query->name, 0);
	if (verdict != NET_ALLOWED) {
		deny(g, reason_of(verdict), query->has_name ? query->name : query->shown, 0, NULL);
		answer_code(g, q, DNS_REFUSED);
		return;
	}
	if (q == &spare) {
		answer_code(g, q, DNS_SERVFAIL);
		return;
	}
	name = name_add(g, query->name);
	if (!name) {
		deny(g, GATEWAY_R_NAMES, query->name, 0, NULL);
		answer_code(g, q, DNS_SERVFAIL);
		return;
	}
	resolve(g, name, resolved, q);
}

bool question_ask(struct gateway *g, struct question *q, const uint8_t *msg, size_t len)
{
	const struct dns_query *query = &q->query;
	struct net_addr addr;
	int r = dns_read_query(msg, len, &q->query);

	if (r < 0) {
		q->is_used = false;
		return false;
	}
	if (r > 0)
		answer_code(g, q, (enum dns_rcode)r);
	else if (query->qclass != 1)
		answer_code(g, q, DNS_REFUSED);
	else if (dns_read_reverse(query, &addr))
		answer_reverse(g, q, &addr);
	else if (query->has_name && (net_name_equal(query->name, "localhost") ||
				     net_name_is_below(query->name, "localhost")))
		answer_localhost(g, q);
	else
		ask_name(g, q);
	return true;
}

void questions_forget(const struct tcp_peer *tcp)
{
	for (size_t i = 0; i < QUESTIONS_MAX; i++) {
		struct question *q = &questions[i];

		if (!q->is_used || q->tcp != tcp)
			continue;
		resolve_cancel(resolved, q);
		q->is_used = false;
	}
}

/* Turns the control data of the question into that of the answer: from that address, by any device.
 */
static void turn_pktinfo(struct pktinfo *info, size_t received)
{
	if (received >= PKTINFO_HEAD + sizeof(info->v6) && info->level == SOL_IPV6_NR &&
	    info->type == IPV6_PKTINFO_NR) {
		info->len = PKTINFO_HEAD + sizeof(info->v6);
		info->v6.device = 0;
	} else if (received >= PKTINFO_HEAD + sizeof(info->v4) && info->level == SOL_IP_NR &&
		   info->type == IP_PKTINFO_NR) {
		info->len = PKTINFO_HEAD + sizeof(info->v4);
		info->v4.device = 0;
		memcpy(info->v4.source, info->v4.asked, sizeof(info->v4.asked));
	} else {
		info->len = 0;
	}
}

/* One question a turn: if there are more, the next turn comes at once, which costs no more than
 * trying here. */
static void udp_ready(struct gateway *g, struct source *w, uint32_t events)
{
	static uint8_t data[DNS_MESSAGE_MAX];
	struct question *q = question_new();
	struct io_vector iov = { data, sizeof(data) };
	struct message m = { .name = &q->from,
			     .name_len = sizeof(q->from),
			     .iov = &iov,
			     .n_iov = 1,
			     .control = &q->to,
			     .control_len = sizeof(q->to) };
	long r = raw3(__NR_recvmsg, w->fd, &m, MESSAGE_DONTWAIT);

	(void)events;
	if (r < 0 || (m.flags & MESSAGE_TRUNC)) {
		q->is_used = false;
		return;
	}
	q->from_len = m.name_len;
	turn_pktinfo(&q->to, m.control_len);
	question_ask(g, q, data, (size_t)r);
}

static long set_option(int fd, int level, int option)
{
	const int on = 1;

	return raw5(__NR_setsockopt, fd, level, option, &on, sizeof(on));
}

long dns_open(struct gateway *g, int udp_fd, int tcp_fd)
{
	long r;

	if (g->has_v6) {
		r = set_option(udp_fd, SOL_IPV6_NR, IPV6_RECVPKTINFO_NR);
		/* To answer from addresses that are here by a route only. */
		if (r >= 0)
			r = set_option(udp_fd, SOL_IPV6_NR, IPV6_FREEBIND_NR);
	} else {
		r = set_option(udp_fd, SOL_IP_NR, IP_PKTINFO_NR);
	}
	if (r >= 0)
		r = source_open(g, &udp, udp_fd, EVENT_IN, udp_ready, NULL);
	return r < 0 ? r : dns_tcp_open(g, tcp_fd);
}

void dns_expire(struct gateway *g)
{
	dns_tcp_expire(g);
}

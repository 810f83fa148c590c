/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to the host's servers, from the first to the last, until one answers.
 *
 * Each try has a connected socket of its own, on a port that the kernel picks, and a random id: an
 * answer from another address does not arrive, and a forged one has to guess both.
 */
#include "gateway/resolve.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/text.h"

#define DNS_PORT 53
#define WRONG_MAX 32 /* answers that do not match; a server that sends more is given up */
#define OPT_SIZE 11
#define N_IDS 64

static long next_id(uint16_t *ret)
{
	static uint16_t ids[N_IDS];
	static unsigned n_ids;

	if (n_ids == 0) {
		long r = raw3(__NR_getrandom, ids, sizeof(ids), 0);

		if (r != sizeof(ids))
			return r < 0 ? r : -EIO;
		n_ids = N_IDS;
	}
	*ret = ids[--n_ids];
	return 0;
}

static const struct server *server_of(const struct ask *ask)
{
	return &resolve_conf.servers[(ask->n_tries - 1u) % resolve_conf.n_servers];
}

/* The question as a message with its length in front, as TCP has it. Returns the whole length. */
static size_t write_question(const struct ask *ask, uint8_t ret[2 + DNS_ANSWER_MAX])
{
	uint8_t *msg = ret + 2;
	size_t len = dns_write_query(ask->id, ask->name, ask->is_v6 ? DNS_AAAA : DNS_A, msg);

	/* A server that knows no EDNS: the same without its last record. */
	if (ask->is_plain && len > OPT_SIZE && msg[len - OPT_SIZE + 2] == DNS_OPT) {
		len -= OPT_SIZE;
		msg[10] = msg[11] = 0;
	}
	ret[0] = (uint8_t)(len >> 8);
	ret[1] = (uint8_t)len;
	return 2 + len;
}

/* Below a rule with a star the guest chooses what is sent, so it counts for net.max. */
static long send_question(struct gateway *g, const struct ask *ask, int fd, bool is_tcp)
{
	uint8_t frame[2 + DNS_ANSWER_MAX];
	size_t skip = is_tcp ? 0 : 2, len = write_question(ask, frame) - skip;
	long r;

	if (len > bytes_left(g)) {
		deny(g, GATEWAY_R_BYTES, ask->name, 0, NULL);
		return -EDQUOT;
	}
	r = sock_send(fd, frame + skip, len);
	if (r < 0)
		return r;
	g->account->bytes_names += (uint64_t)r;
	/* So few bytes always fit into a new socket. */
	return (size_t)r == len ? 0 : -EIO;
}

static void ask_ready(struct gateway *g, struct source *w, uint32_t events);

static long connect_to(int fd, const struct server *server)
{
	union sock_addr addr;
	size_t len = sock_fill(&addr, &server->addr, DNS_PORT);

	if (server->addr.is_v6)
		addr.v6.scope = server->scope;
	return raw3(__NR_connect, fd, &addr, len);
}

/* Asks the server whose turn it is. */
static long ask_server(struct gateway *g, struct ask *ask, bool is_tcp)
{
	const struct server *server = server_of(ask);
	long r = next_id(&ask->id);
	int fd;

	if (r < 0)
		return r;
	r = sock_open(server->addr.is_v6, is_tcp);
	if (r < 0)
		return r;
	fd = (int)r;
	r = connect_to(fd, server);
	if (is_tcp && r == -EINPROGRESS)
		r = 0;
	if (r >= 0 && !is_tcp)
		r = send_question(g, ask, fd, false);
	if (r >= 0)
		r = source_open(g, &ask->source, fd, is_tcp ? EVENT_ALL : EVENT_IN, ask_ready, ask);
	if (r < 0) {
		drop_fd(&fd);
		return r;
	}
	ask->state = is_tcp ? ASK_CONNECTING : ASK_UDP;
	ask->frame_len = ask->n_wrong = 0;
	ask->until_ns = g->now_ns + resolve_conf.timeout_ns;
	wake_at(g, ask->until_ns);
	return 0;
}

/* This server was no help: on to the next one, or the end. */
static void next_server(struct gateway *g, struct ask *ask)
{
	source_close(g, &ask->source);
	while (ask->n_tries < resolve_conf.attempts * resolve_conf.n_servers) {
		ask->n_tries++;
		ask->is_plain = false;
		if (ask_server(g, ask, resolve_conf.is_tcp) == 0)
			return;
	}
	ask->state = ASK_DONE;
	memset(&ask->response, 0, sizeof(ask->response));
	ask->response.rcode = DNS_SERVFAIL;
}

/* The same server once more, in another way. */
static void same_server(struct gateway *g, struct ask *ask, bool is_tcp)
{
	source_close(g, &ask->source);
	if (ask_server(g, ask, is_tcp) < 0)
		next_server(g, ask);
}

static void take_response(struct gateway *g, struct ask *ask)
{
	const struct dns_response *response = &ask->response;
	bool is_tcp = ask->state != ASK_UDP;

	ask->was_heard = true;
	if (response->is_truncated && !is_tcp) {
		same_server(g, ask, true);
	} else if (response->rcode == DNS_NOERROR || response->rcode == DNS_NXDOMAIN) {
		source_close(g, &ask->source);
		ask->state = ASK_DONE;
	} else if ((response->rcode == DNS_FORMERR || response->rcode == DNS_NOTIMP) &&
		   !ask->is_plain) {
		ask->is_plain = true;
		same_server(g, ask, is_tcp);
	} else {
		next_server(g, ask);
	}
}

void note_alias(const struct gateway *g, struct denied_alias *ret, const char *alias)
{
	uint64_t before = ret->ports;

	for (uint32_t i = 0; i < g->config->n_ports; i++) {
		if (alias ? net_judge_name(&g->rules, alias, g->config->ports[i]) == NET_DENIED
			  : g->rules.n_deny > 0)
			ret->ports |= (uint64_t)1 << i;
	}
	if (before == 0 && ret->ports)
		append_text(ret->text, 0, sizeof(ret->text), alias ? alias : "an odd name");
}

struct alias_reader {
	struct gateway *g;
	struct ask *ask;
};

static void read_alias(void *arg, const char *alias)
{
	const struct alias_reader *reader = arg;

	note_alias(reader->g, &reader->ask->denied, alias);
}

static int read_response(struct gateway *g, struct ask *ask, const uint8_t *msg, size_t len)
{
	struct alias_reader reader = { g, ask };
	int r = dns_read_response(msg, len, ask->id, ask->name, ask->is_v6 ? DNS_AAAA : DNS_A,
				  &ask->response);

	memset(&ask->denied, 0, sizeof(ask->denied));
	if (r == 0 && ask->response.n_addrs > 0)
		dns_read_aliases(msg, len, ask->name, read_alias, &reader);
	return r;
}

static void read_udp(struct gateway *g, struct ask *ask)
{
	static uint8_t msg[DNS_MESSAGE_MAX];
	long r = sock_recv(ask->source.fd, msg, sizeof(msg));

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0)
		g->account->bytes_names += (uint64_t)r;
	if (r < 0)
		next_server(g, ask); /* an ICMP message says that nothing listens there */
	else if (read_response(g, ask, msg, (size_t)r) == 0)
		take_response(g, ask);
	else if (++ask->n_wrong > WRONG_MAX)
		next_server(g, ask);
}

static void read_tcp(struct gateway *g, struct ask *ask)
{
	for (;;) {
		size_t want = 2;
		long r;

		if (ask->frame_len >= 2)
			want += (size_t)ask->frame[0] << 8 | ask->frame[1];
		if (want > 2 + DNS_MESSAGE_MAX)
			break;
		if (want > 2 && ask->frame_len == want) {
			if (read_response(g, ask, ask->frame + 2, want - 2) < 0)
				break;
			take_response(g, ask);
			return;
		}
		if (ask->frame_len == want) /* an answer of no bytes */
			break;
		r = sock_recv(ask->source.fd, ask->frame + ask->frame_len, want - ask->frame_len);
		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0)
			break;
		g->account->bytes_names += (uint64_t)r;
		ask->frame_len = (uint16_t)(ask->frame_len + r);
	}
	next_server(g, ask);
}

static void ask_ready(struct gateway *g, struct source *w, uint32_t events)
{
	struct ask *ask = w->owner;
	struct lookup *lookup = ask->lookup;

	(void)events;
	if (ask->state == ASK_UDP) {
		read_udp(g, ask);
	} else if (ask->state == ASK_CONNECTING) {
		if (sock_error(w->fd) < 0 || send_question(g, ask, w->fd, true) < 0)
			next_server(g, ask);
		else
			ask->state = ASK_READING;
	}
	if (ask->state == ASK_READING)
		read_tcp(g, ask);
	lookup_step(g, lookup);
}

void ask_start(struct gateway *g, struct ask *ask, const char *name)
{
	ask->name = name;
	ask->source.fd = -1;
	ask->n_tries = 0;
	ask->was_heard = false;
	next_server(g, ask);
}

void ask_stop(struct gateway *g, struct ask *ask)
{
	source_close(g, &ask->source);
	ask->state = ASK_IDLE;
}

void ask_expire(struct gateway *g, struct ask *ask)
{
	if (ask->state == ASK_IDLE || ask->state == ASK_DONE)
		return;
	if (g->now_ns >= ask->until_ns)
		next_server(g, ask);
	else
		wake_at(g, ask->until_ns);
}

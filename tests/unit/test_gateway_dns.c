/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's questions are answered with. Sockets and the resolver are made here: the test
 * says what a name resolves to, and when. */
#include <errno.h>
#include <sys/syscall.h>

#include "gateway/question.h"

static long fake_call(long nr, long a, long b, long c, long d, long e, long f);
#undef raw_call
#define raw_call fake_call

#include "gateway/dns.c"
#include "gateway/dns_tcp.c"
/* before names.c, whose table has the name of an argument in it */
#include "tests/lib/tap.h"

#include "gateway/names.c"

#define UDP_FD 10
#define TCP_FD 11
#define FIRST_FD 20
#define FDS_MAX 40

static struct gateway g;
static union {
	struct gateway_config config;
	uint8_t room[sizeof(struct gateway_config)];
} config;
static struct net_rule rules[3];

/* What came out. */
static int n_denied;
static struct gateway_denial denied;
static uint8_t out[64 * 1024];
static size_t n_out;
static struct pktinfo out_from;
static bool is_closed[FDS_MAX];

/* What goes in. */
static const uint8_t *in;
static size_t n_in;
static bool is_at_end, is_stuck;
static int n_connecting;

/* What the resolver says; later[] if it is not to say it yet. */
static struct name answer_is;
static bool is_later;
static struct {
	void (*done)(struct gateway *, void *, struct name *);
	void *arg;
	struct name *name;
} later[QUESTIONS_MAX + 1];
static size_t n_later;

void deny(struct gateway *gw, enum gateway_reason reason, const char *host, uint16_t port,
	  const char *other)
{
	(void)gw;
	CHECK(n_out == 0); /* first it is written down */
	n_denied++;
	memset(&denied, 0, sizeof(denied));
	denied.reason = (uint16_t)reason;
	denied.port = port;
	strncpy(denied.host, host, sizeof(denied.host) - 1);
	strncpy(denied.other, other ? other : "", sizeof(denied.other) - 1);
}

enum gateway_reason reason_of(enum net_verdict verdict)
{
	return verdict == NET_SPECIAL  ? GATEWAY_R_SPECIAL
	       : verdict == NET_DENIED ? GATEWAY_R_DENIED
				       : GATEWAY_R_NOT_LISTED;
}

static void take_answer(struct name *name)
{
	name->rcode = answer_is.rcode;
	name->n_addrs = answer_is.n_addrs;
	memcpy(name->addrs, answer_is.addrs, sizeof(name->addrs));
}

void resolve(struct gateway *gw, struct name *name,
	     void (*done)(struct gateway *, void *, struct name *), void *arg)
{
	if (is_later) {
		later[n_later].done = done;
		later[n_later].arg = arg;
		later[n_later++].name = name;
		return;
	}
	take_answer(name);
	done(gw, arg, name);
}

void resolve_cancel(void (*done)(struct gateway *, void *, struct name *), const void *arg)
{
	for (size_t i = 0; i < n_later; i++) {
		if (later[i].done == done && later[i].arg == arg)
			later[i].done = NULL;
	}
}

static void answer_all(void)
{
	for (size_t i = 0; i < n_later; i++) {
		if (!later[i].done)
			continue;
		take_answer(later[i].name);
		later[i].done(&g, later[i].arg, later[i].name);
	}
	n_later = 0;
}

long source_open(struct gateway *gw, struct source *w, int fd, uint32_t events,
		 void (*ready)(struct gateway *, struct source *, uint32_t), void *owner)
{
	(void)gw, (void)events;
	*w = (struct source){ fd, ready, owner };
	return 0;
}

void drop_fd(int *fd)
{
	if (*fd >= 0)
		is_closed[*fd] = true;
	*fd = -1;
}

void source_close(struct gateway *gw, struct source *w)
{
	(void)gw;
	drop_fd(&w->fd);
}

int source_release(struct gateway *gw, struct source *w)
{
	int fd = w->fd;

	(void)gw;
	w->fd = -1;
	return fd;
}

void wake_at(struct gateway *gw, uint64_t when_ns)
{
	(void)gw, (void)when_ns;
}

long sock_accept(struct gateway *gw, int fd)
{
	CHECK(gw == &g);
	CHECK_INT(fd, TCP_FD);
	return n_connecting > 0 ? FIRST_FD + --n_connecting : -EAGAIN;
}

void sock_no_delay(int fd)
{
	(void)fd;
}

long sock_recv(int fd, void *data, size_t len)
{
	CHECK(!is_closed[fd]);
	if (n_in == 0)
		return is_at_end ? 0 : -EAGAIN;
	if (len > n_in)
		len = n_in;
	memcpy(data, in, len);
	in += len;
	n_in -= len;
	return (long)len;
}

long sock_send(int fd, const void *data, size_t len)
{
	CHECK(fd >= FIRST_FD && !is_closed[fd]);
	if (is_stuck)
		return -EAGAIN;
	memcpy(out + n_out, data, len);
	n_out += len;
	return (long)len;
}

static long fake_recvmsg(struct message *m)
{
	static const uint8_t asked[16] = { 0x20, 0x01, [15] = 8 };
	struct pktinfo *info = m->control;

	if (n_in == 0)
		return -EAGAIN;
	memcpy((void *)(uintptr_t)m->iov->base, in, n_in);
	memset(info, 0, sizeof(*info));
	info->level = g.has_v6 ? SOL_IPV6_NR : SOL_IP_NR;
	info->type = g.has_v6 ? IPV6_PKTINFO_NR : IP_PKTINFO_NR;
	if (g.has_v6) {
		memcpy(info->v6.source, asked, 16);
		info->v6.device = 1;
		m->control_len = 40;
	} else {
		memcpy(info->v4.asked, asked, 4);
		info->v4.device = 1;
		m->control_len = 32;
	}
	m->name_len = 28;
	m->flags = 0;
	return (long)n_in;
}

static long fake_call(long nr, long a, long b, long c, long d, long e, long f)
{
	struct message *m = (struct message *)b;

	(void)c, (void)d, (void)e, (void)f;
	if (nr == SYS_recvmsg)
		return fake_recvmsg(m);
	if (nr == SYS_setsockopt)
		return 0;
	if (nr != SYS_sendmsg)
		return -ENOSYS;
	CHECK_INT(a, UDP_FD);
	CHECK_INT(m->name_len, 28);
	memcpy(out, m->iov->base, m->iov->len);
	n_out = m->iov->len;
	memcpy(&out_from, m->control, sizeof(out_from));
	return (long)n_out;
}

static void set_up(bool has_v6)
{
	static const char *const texts[] = { "*.example", "10.0.0.0/8:443", "bad.example" };
	const char *why, *hint;

	for (int i = 0; i < 3; i++)
		CHECK(net_rule_parse(texts[i], i == 2, &rules[i], &why, &hint) == 0);
	memset(questions, 0, sizeof(questions));
	memset(peers, 0, sizeof(peers));
	memset(is_closed, 0, sizeof(is_closed));
	memset(&answer_is, 0, sizeof(answer_is));
	n_open = 0;
	n_later = 0;
	n_denied = 0;
	is_later = is_at_end = is_stuck = false;
	g.rules = (struct net_rules){ rules, rules + 2, 2, 1 };
	config.config.n_ports = 2;
	config.config.ports[0] = 80;
	config.config.ports[1] = 443;
	g.config = &config.config;
	g.has_v6 = has_v6;
	g.now_ns = 1000 * SECOND;
	CHECK_INT(dns_open(&g, UDP_FD, TCP_FD), 0);
}

static void resolves_to(enum dns_rcode rcode, const char *addr)
{
	memset(&answer_is, 0, sizeof(answer_is));
	answer_is.rcode = (uint8_t)rcode;
	if (addr)
		answer_is.n_addrs = net_addr_parse(addr, strlen(addr), answer_is.addrs) == 0;
}

/* A question; with its length in front, too. Returns the length without it. */
static size_t write_frame(const char *name, unsigned type, uint8_t ret[2 + DNS_ANSWER_MAX])
{
	size_t len = dns_write_query(0x1234, name, (enum dns_type)type, ret + 2);

	ret[0] = (uint8_t)(len >> 8);
	ret[1] = (uint8_t)len;
	return len;
}

/* What a message says, as text: code and addresses or names. */
static const char *say(const uint8_t *msg, size_t len, const char *name, unsigned type)
{
	static char text[400];
	static const char *const codes[] = { "ok",	 "formerr", "servfail",
					     "nxdomain", "notimp",  "refused" };
	char addr[NET_ADDR_TEXT_MAX];
	struct dns_response r;

	if (len == 0)
		return "nothing";
	CHECK_INT(msg[0] << 8 | msg[1], 0x1234);
	if (dns_read_response(msg, len, 0x1234, name, (enum dns_type)type, &r) < 0)
		return "unreadable";
	snprintf(text, sizeof(text), "%s", codes[r.rcode]);
	for (size_t i = 0; i < r.n_addrs; i++) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s",
			 net_addr_format(&r.addrs[i], addr));
		CHECK_INT(r.ttl, 60);
	}
	return text;
}

static void send_udp(const uint8_t *msg, size_t len)
{
	in = msg;
	n_in = len;
	n_out = 0;
	udp.ready(&g, &udp, EVENT_IN);
}

static const char *ask(const char *name, unsigned type)
{
	uint8_t frame[2 + DNS_ANSWER_MAX];
	size_t len = write_frame(name, type, frame);

	send_udp(frame + 2, len);
	return say(out, n_out, name, type);
}

static void test_allowed(void)
{
	struct net_addr addr;
	char v4[80], v6[80], text[NET_ADDR_TEXT_MAX];

	set_up(true);
	resolves_to(DNS_NOERROR, "93.184.216.34");
	CHECK(strncmp(ask("www.example", DNS_A), "ok 198.18.0.", 12) == 0);
	name_address(name_find("www.example"), false, &addr);
	sprintf(v4, "ok %s", net_addr_format(&addr, text));
	name_address(name_find("www.example"), true, &addr);
	sprintf(v6, "ok %s", net_addr_format(&addr, text));
	CHECK_STR(ask("www.example", DNS_A), v4);
	CHECK_STR(ask("WWW.Example", DNS_A), v4);
	CHECK_STR(ask("www.example", DNS_AAAA), v6);
	/* Nothing else has content. */
	CHECK_STR(ask("www.example", DNS_HTTPS), "ok");
	CHECK_STR(ask("www.example", DNS_SVCB), "ok");
	CHECK_STR(ask("www.example", DNS_SOA), "ok");
	CHECK_INT(n_denied, 0);
	set_up(false);
	resolves_to(DNS_NOERROR, "2606:4700::1");
	CHECK_STR(ask("www.example", DNS_A), v4);
	CHECK_STR(ask("www.example", DNS_AAAA), "ok");
}

static void test_refused(void)
{
	set_up(true);
	resolves_to(DNS_NOERROR, "93.184.216.34");
	is_later = true; /* the resolver would have to be asked for an answer to come later */
	CHECK_STR(ask("www.other", DNS_A), "refused");
	CHECK_INT(n_denied, 1);
	CHECK_INT(denied.reason, GATEWAY_R_NOT_LISTED);
	CHECK_STR(denied.host, "www.other");
	CHECK_INT(denied.port, 0);
	CHECK_STR(ask("example", DNS_A), "refused");
	CHECK_STR(ask("bad.example", DNS_A), "refused");
	CHECK_INT(denied.reason, GATEWAY_R_DENIED);
	CHECK_STR(ask("www.other", DNS_HTTPS), "refused");
	CHECK_INT(n_denied, 4);
	CHECK_INT(n_later, 0);
	CHECK(!name_find("www.other") && !name_find("bad.example"));
}

static void test_not_a_name(void)
{
	uint8_t frame[2 + DNS_ANSWER_MAX];
	size_t len;

	set_up(true);
	/* "www!example": a label with a byte that no host name has */
	len = write_frame("wwwxexample", DNS_A, frame);
	frame[2 + 12 + 1 + 3] = '!';
	send_udp(frame + 2, len);
	CHECK(n_out > 0 && (out[3] & 15) == DNS_REFUSED);
	CHECK_INT(n_denied, 1);
	CHECK_STR(denied.host, "www!example");
}

static void test_codes_passed_on(void)
{
	set_up(true);
	resolves_to(DNS_NXDOMAIN, NULL);
	CHECK_STR(ask("nx.example", DNS_A), "nxdomain");
	resolves_to(DNS_SERVFAIL, NULL);
	CHECK_STR(ask("sf.example", DNS_A), "servfail");
	resolves_to(DNS_NOERROR, NULL);
	CHECK_STR(ask("empty.example", DNS_A), "ok");
	CHECK_INT(n_denied, 0);
}

/* A name whose addresses must not be told has none. */
static void test_special(void)
{
	set_up(true);
	resolves_to(DNS_NOERROR, "192.168.1.1");
	CHECK_STR(ask("lan.example", DNS_A), "refused");
	CHECK_INT(denied.reason, GATEWAY_R_SPECIAL);
	CHECK_STR(denied.host, "lan.example");
	CHECK_STR(denied.other, "192.168.1.1");
	resolves_to(DNS_NOERROR, "127.0.0.1");
	CHECK_STR(ask("lan.example", DNS_AAAA), "refused");
	/* This one a rule names, on one port. */
	resolves_to(DNS_NOERROR, "10.1.2.3");
	CHECK(strncmp(ask("lan.example", DNS_A), "ok 198.18.", 10) == 0);
	/* One good address is enough: the others are not dialled. */
	resolves_to(DNS_NOERROR, "192.168.1.1");
	answer_is.addrs[1] = (struct net_addr){ .bytes = { 93, 184, 216, 34 } };
	answer_is.n_addrs = 2;
	CHECK(strncmp(ask("lan.example", DNS_A), "ok 198.18.", 10) == 0);
	CHECK_INT(n_denied, 2);
}

static void test_localhost(void)
{
	set_up(true);
	is_later = true;
	CHECK_STR(ask("localhost", DNS_A), "ok 127.0.0.1");
	CHECK_STR(ask("localhost", DNS_AAAA), "ok ::1");
	CHECK_STR(ask("a.b.localhost", DNS_A), "ok 127.0.0.1");
	CHECK_STR(ask("localhost", DNS_SOA), "ok");
	set_up(false);
	CHECK_STR(ask("localhost", DNS_AAAA), "ok");
	CHECK_INT(n_denied, 0);
}

static bool out_has(const char *label)
{
	for (size_t i = 0; i + strlen(label) <= n_out; i++) {
		if (memcmp(out + i, label, strlen(label)) == 0)
			return true;
	}
	return false;
}

static void test_reverse(void)
{
	char name[80];
	struct net_addr addr;

	set_up(true);
	resolves_to(DNS_NOERROR, "93.184.216.34");
	ask("reverse.example", DNS_A);
	name_address(name_find("reverse.example"), false, &addr);
	sprintf(name, "%d.%d.18.198.in-addr.arpa", addr.bytes[3], addr.bytes[2]);
	CHECK_STR(ask(name, DNS_PTR), "ok");
	CHECK(out_has("\7reverse\7example"));
	CHECK_STR(ask("1.0.0.127.in-addr.arpa", DNS_PTR), "ok");
	CHECK(out_has("\11localhost"));
	CHECK_STR(ask("8.8.8.8.in-addr.arpa", DNS_PTR), "nxdomain");
	CHECK_INT(n_denied, 0);
}

static void test_answers_from_where_it_was_asked(void)
{
	set_up(true);
	ask("localhost", DNS_A);
	CHECK_INT(out_from.len, 36);
	CHECK_INT(out_from.level, SOL_IPV6_NR);
	CHECK(out_from.v6.source[0] == 0x20 && out_from.v6.source[15] == 8);
	CHECK_INT(out_from.v6.device, 0);
	set_up(false);
	ask("localhost", DNS_A);
	CHECK_INT(out_from.len, 28);
	CHECK_INT(out_from.level, SOL_IP_NR);
	CHECK_INT(out_from.v4.source[0], 0x20);
	CHECK_INT(out_from.v4.device, 0);
}

static void test_junk(void)
{
	uint8_t frame[2 + DNS_ANSWER_MAX];
	size_t len;

	set_up(true);
	len = write_frame("www.example", DNS_A, frame);
	for (size_t i = 0; i < 12; i++) {
		send_udp(frame + 2, i);
		CHECK_INT(n_out, 0);
	}
	for (size_t i = 12; i < len; i++) {
		send_udp(frame + 2, i);
		CHECK_MSG(n_out > 0 && (out[3] & 15) == DNS_FORMERR, "cut at %zu", i);
	}
	frame[2 + 2] |= 0x80; /* an answer */
	send_udp(frame + 2, len);
	CHECK_INT(n_out, 0);
	for (size_t i = 0; i < QUESTIONS_MAX; i++)
		CHECK(!questions[i].is_used);
}

static void test_too_many(void)
{
	char name[40];

	set_up(true);
	resolves_to(DNS_NOERROR, "93.184.216.34");
	is_later = true;
	for (int i = 0; i < QUESTIONS_MAX; i++) {
		sprintf(name, "n%d.example", i);
		CHECK_STR(ask(name, DNS_A), "nothing");
	}
	CHECK_STR(ask("more.example", DNS_A), "servfail");
	/* What needs no waiting is answered as ever. */
	CHECK_STR(ask("localhost", DNS_A), "ok 127.0.0.1");
	CHECK_STR(ask("www.other", DNS_A), "refused");
	answer_all();
	CHECK(strncmp(say(out, n_out, name, DNS_A), "ok 198.18.", 10) == 0);
	CHECK_STR(ask("more.example", DNS_A), "nothing");
	answer_all();
}

/* One more connection. */
static struct tcp_peer *connect_peer(void)
{
	n_connecting = 1;
	is_closed[FIRST_FD] = false;
	listener.ready(&g, &listener, EVENT_IN);
	for (size_t i = 0; i < PEERS_MAX; i++) {
		if (peers[i].is_open && peers[i].source.fd == FIRST_FD)
			return &peers[i];
	}
	return NULL;
}

static void send_tcp(struct tcp_peer *p, const uint8_t *data, size_t len)
{
	in = data;
	n_in = len;
	n_out = 0;
	p->source.ready(&g, &p->source, EVENT_IN);
}

static void test_tcp(void)
{
	uint8_t frames[3 * (2 + DNS_ANSWER_MAX)];
	struct tcp_peer *p;
	size_t len;

	set_up(true);
	p = connect_peer();
	REQUIRE(p != NULL);
	len = 2 + write_frame("localhost", DNS_A, frames);
	/* Byte by byte, then two and a half at once. */
	for (size_t i = 0; i < len; i++)
		send_tcp(p, frames + i, 1);
	CHECK_STR(say(out + 2, n_out - 2, "localhost", DNS_A), "ok 127.0.0.1");
	memcpy(frames + len, frames, len);
	memcpy(frames + 2 * len, frames, len);
	send_tcp(p, frames, 2 * len + 5);
	CHECK_INT(n_out % 2, 0);
	CHECK_STR(say(out + n_out / 2 + 2, n_out / 2 - 2, "localhost", DNS_A), "ok 127.0.0.1");
	send_tcp(p, frames + 5, len - 5);
	CHECK_STR(say(out + 2, n_out - 2, "localhost", DNS_A), "ok 127.0.0.1");
	/* Idle: half a question does not help. */
	g.now_ns += 9 * SECOND;
	dns_expire(&g);
	CHECK(p->is_open);
	send_tcp(p, frames, 5);
	g.now_ns += 1 * SECOND;
	dns_expire(&g);
	CHECK(!p->is_open && is_closed[FIRST_FD]);
}

static void test_tcp_ends(void)
{
	static const uint8_t too_long[2] = { 0xff, 0xff }, nothing[2] = { 0, 0 };
	uint8_t frame[2 + DNS_ANSWER_MAX];
	struct tcp_peer *p;
	size_t len;

	set_up(true);
	resolves_to(DNS_NOERROR, "93.184.216.34");
	p = connect_peer();
	send_tcp(p, too_long, 2);
	CHECK(!p->is_open);
	p = connect_peer();
	send_tcp(p, nothing, 2);
	CHECK(!p->is_open);
	/* It waits, says no more, and still gets its answer. */
	is_later = true;
	p = connect_peer();
	len = 2 + write_frame("www.example", DNS_A, frame);
	send_tcp(p, frame, len);
	is_at_end = true;
	send_tcp(p, frame, 0);
	g.now_ns += 60 * SECOND;
	dns_expire(&g);
	CHECK(p->is_open && !is_closed[FIRST_FD]);
	answer_all();
	CHECK(strncmp(say(out + 2, n_out - 2, "www.example", DNS_A), "ok 198.18.", 10) == 0);
	CHECK(!p->is_open && is_closed[FIRST_FD]);
	/* It does not take answers: the questions it still has are forgotten. */
	is_at_end = false;
	p = connect_peer();
	send_tcp(p, frame, len);
	send_tcp(p, frame, len);
	is_stuck = true;
	answer_all();
	CHECK(!p->is_open && is_closed[FIRST_FD]);
	for (size_t i = 0; i < QUESTIONS_MAX; i++)
		CHECK(!questions[i].is_used);
}

static void test_tcp_places(void)
{
	uint8_t frame[2 + DNS_ANSWER_MAX];
	size_t len = 2 + write_frame("www.example", DNS_A, frame);
	int n = 0;

	set_up(true);
	is_later = true;
	/* Idle ones give way. */
	for (int i = 0; i < 3 * PEERS_MAX; i++) {
		n_connecting = 1;
		listener.ready(&g, &listener, EVENT_IN);
	}
	CHECK_INT(n_open, PEERS_MAX);
	for (size_t i = 0; i < PEERS_MAX; i++) {
		is_closed[FIRST_FD] = false;
		send_tcp(&peers[i], frame, len);
	}
	/* Those that wait do not, unless they have said that they are done. */
	n_connecting = 1;
	listener.ready(&g, &listener, EVENT_IN);
	CHECK(is_closed[FIRST_FD]);
	CHECK_INT(n_later, PEERS_MAX);
	is_closed[FIRST_FD] = false;
	is_at_end = true;
	send_tcp(&peers[3], frame, 0);
	is_at_end = false;
	CHECK(peers[3].is_open);
	n_connecting = 1;
	listener.ready(&g, &listener, EVENT_IN);
	CHECK_INT(peers[3].n_waiting, 0);
	CHECK_INT(n_open, PEERS_MAX);
	for (size_t i = 0; i < n_later; i++)
		n += later[i].done != NULL;
	CHECK_INT(n, PEERS_MAX - 1);
}

static void test_no_more_names(void)
{
	char name[40];

	set_up(true);
	resolves_to(DNS_NOERROR, "93.184.216.34");
	for (int i = 0; n_names < NAMES_MAX; i++) {
		sprintf(name, "full%d.example", i);
		name_add(&g, name);
	}
	CHECK_STR(ask("one-more.example", DNS_A), "servfail");
	CHECK_INT(denied.reason, GATEWAY_R_NAMES);
	CHECK(strncmp(ask("full0.example", DNS_A), "ok 198.", 7) == 0);
}

TAP_MAIN(test_allowed, test_refused, test_not_a_name, test_codes_passed_on, test_special,
	 test_localhost, test_reverse, test_answers_from_where_it_was_asked, test_junk,
	 test_too_many, test_tcp, test_tcp_ends, test_tcp_places, test_no_more_names)

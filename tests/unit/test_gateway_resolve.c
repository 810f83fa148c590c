/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's resolver in a world of its own: sockets, servers and the clock are made here. */
#include <errno.h>
#include <sys/syscall.h>

#include "gateway/resolve.h"

static long fake_call(long nr, long a, long b, long c, long d, long e, long f);
#undef raw_call
#define raw_call fake_call

#include "gateway/resolve.c"
#include "gateway/resolve_ask.c"
#include "gateway/resolve_conf.c"

#include "tests/lib/tap.h"

#define FIRST_FD 1000
#define SOCKS_MAX 2048

struct hosts resolve_hosts;
struct resolve_conf resolve_conf;

static struct sock {
	bool is_open, is_tcp, is_refused;
	uint8_t server; /* last byte of its address */
	struct source *source;
	uint8_t sent[2 + DNS_ANSWER_MAX];
	size_t n_sent;
	const uint8_t *incoming;
	size_t n_incoming;
} socks[SOCKS_MAX];
static int n_socks;
static uint16_t random_id;

static struct net_rule allow[3], deny_rule;
static struct gateway g;

static struct sock *sock_of(int fd)
{
	return &socks[fd - FIRST_FD];
}

long sock_open(bool is_v6, bool is_stream)
{
	(void)is_v6;
	if (n_socks == SOCKS_MAX)
		return -EMFILE;
	memset(&socks[n_socks], 0, sizeof(socks[0]));
	socks[n_socks].is_open = true;
	socks[n_socks].is_tcp = is_stream;
	return FIRST_FD + n_socks++;
}

size_t sock_fill(union sock_addr *ret, const struct net_addr *addr, uint16_t port)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->v4.addr, addr->bytes, 4);
	ret->v4.port = port;
	return sizeof(ret->v4);
}

static long fake_call(long nr, long a, long b, long c, long d, long e, long f)
{
	(void)c, (void)d, (void)e, (void)f;
	if (nr == SYS_getrandom) {
		for (long i = 0; i < b / 2; i++)
			((uint16_t *)a)[i] = random_id++;
		return b;
	}
	if (nr == SYS_connect) {
		const union sock_addr *addr = (const union sock_addr *)b;

		sock_of((int)a)->server = addr->v4.addr[3];
		CHECK_INT(addr->v4.port, 53);
		/* 192.0.2.66 stands for a network that cannot be reached. */
		if (addr->v4.addr[3] == 66)
			return -ENETUNREACH;
		return sock_of((int)a)->is_tcp ? -EINPROGRESS : 0;
	}
	return -ENOSYS;
}

long sock_send(int fd, const void *data, size_t len)
{
	struct sock *s = sock_of(fd);

	CHECK(s->is_open && len <= sizeof(s->sent));
	memcpy(s->sent, data, len);
	s->n_sent = len;
	return (long)len;
}

long sock_recv(int fd, void *data, size_t len)
{
	struct sock *s = sock_of(fd);

	CHECK(s->is_open);
	if (s->is_refused)
		return -ECONNREFUSED;
	if (s->n_incoming == 0)
		return -EAGAIN;
	if (len > s->n_incoming)
		len = s->n_incoming;
	memcpy(data, s->incoming, len);
	s->incoming += len;
	s->n_incoming = s->is_tcp ? s->n_incoming - len : 0;
	return (long)len;
}

long sock_error(int fd)
{
	return sock_of(fd)->is_refused ? -ECONNREFUSED : 0;
}

void drop_fd(int *fd)
{
	CHECK(sock_of(*fd)->is_open);
	sock_of(*fd)->is_open = false;
	*fd = -1;
}

long source_open(struct gateway *gw, struct source *w, int fd, uint32_t events,
		 void (*ready)(struct gateway *, struct source *, uint32_t), void *owner)
{
	(void)gw, (void)events;
	*w = (struct source){ fd, ready, owner };
	sock_of(fd)->source = w;
	return 0;
}

void source_close(struct gateway *gw, struct source *w)
{
	(void)gw;
	if (w->fd >= 0)
		drop_fd(&w->fd);
}

void wake_at(struct gateway *gw, uint64_t when_ns)
{
	if (when_ns < gw->wake_ns)
		gw->wake_ns = when_ns;
}

/* Time goes by as the loop would let it: expiring at each time that was asked for. */
static void pass(uint64_t ns)
{
	uint64_t end = g.now_ns + ns;

	while (g.wake_ns <= end) {
		g.now_ns = g.wake_ns;
		g.wake_ns = NEVER;
		resolve_expire(&g);
	}
	g.now_ns = end;
}

/* The open socket of the question for @type; NULL if there is not exactly one. */
static struct sock *asked(const char *name, enum dns_type type)
{
	struct sock *found = NULL;

	for (int i = 0; i < n_socks; i++) {
		struct sock *s = &socks[i];
		size_t skip = s->is_tcp ? 2 : 0;
		struct dns_query query;

		if (!s->is_open || s->n_sent <= skip ||
		    dns_read_query(s->sent + skip, s->n_sent - skip, &query) != 0 ||
		    query.type != type || strcmp(query.name, name) != 0)
			continue;
		if (found)
			return NULL;
		found = s;
	}
	return found;
}

static int count_open(void)
{
	int n = 0;

	for (int i = 0; i < n_socks; i++)
		n += socks[i].is_open;
	return n;
}

static void deliver(struct sock *s, const uint8_t *data, size_t len)
{
	s->incoming = data;
	s->n_incoming = len;
	s->source->ready(&g, s->source, EVENT_IN);
}

/* Writes an answer with @n addresses; with its length in front for TCP. */
static size_t write_answer(const struct sock *s, enum dns_rcode rcode, unsigned n, uint32_t ttl,
			   uint8_t ret[2 + DNS_ANSWER_MAX])
{
	struct net_addr addrs[DNS_ADDRS_MAX] = { 0 };
	size_t skip = s->is_tcp ? 2 : 0, len;
	struct dns_query query;

	dns_read_query(s->sent + skip, s->n_sent - skip, &query);
	for (unsigned i = 0; i < n; i++) {
		addrs[i].is_v6 = query.type == DNS_AAAA;
		addrs[i].bytes[0] = (uint8_t)(100 + i);
	}
	len = dns_write_answer(&query, rcode, addrs, n, NULL, ttl, ret + skip);
	if (skip) {
		ret[0] = (uint8_t)(len >> 8);
		ret[1] = (uint8_t)len;
	}
	return skip + len;
}

static void say(struct sock *s, enum dns_rcode rcode, unsigned n, uint32_t ttl)
{
	uint8_t msg[2 + DNS_ANSWER_MAX];

	deliver(s, msg, write_answer(s, rcode, n, ttl, msg));
}

#define SAY(name, type, rcode, n, ttl)                                                             \
	do {                                                                                       \
		struct sock *s_ = asked(name, type);                                               \
		REQUIRE(s_ != NULL);                                                               \
		say(s_, rcode, n, ttl);                                                            \
	} while (0)

static struct gateway_account account;
static uint64_t max_bytes;

uint64_t bytes_left(const struct gateway *gw)
{
	CHECK(gw == &g);
	return max_bytes - account.bytes_names;
}

static int n_denials;

void deny(struct gateway *gw, enum gateway_reason reason, const char *host, uint16_t port,
	  const char *other)
{
	CHECK(gw == &g && host && !other);
	CHECK_INT(reason, GATEWAY_R_BYTES);
	CHECK_INT(port, 0);
	n_denials++;
}

static struct name names[WAITERS_MAX + 8];
static int n_done;
static const struct name *last_done;

static void note(struct gateway *gw, void *arg, struct name *name)
{
	CHECK(gw == &g);
	CHECK(arg == NULL || arg == name);
	n_done++;
	last_done = name;
}

static void set_rule(struct net_rule *rule, const char *text, bool is_deny)
{
	const char *why, *hint;

	CHECK(net_rule_parse(text, is_deny, rule, &why, &hint) == 0);
}

static const struct gateway_config config = { .n_ports = 2, .ports = { 80, 443 } };

static struct name *set_up(const char *name, const char *conf, const char *hosts)
{
	memset(lookups, 0, sizeof(lookups));
	memset(waiters, 0, sizeof(waiters));
	memset(names, 0, sizeof(names));
	n_lookups = 0;
	n_done = n_socks = 0;
	last_done = NULL;
	set_rule(&allow[0], "*.example", false);
	set_rule(&allow[1], "host", false);
	set_rule(&allow[2], "b.named", false);
	set_rule(&deny_rule, "*.secret", true);
	g.rules = (struct net_rules){ allow, &deny_rule, 3, 1 };
	g.config = &config;
	g.account = &account;
	memset(&account, 0, sizeof(account));
	max_bytes = NEVER;
	n_denials = 0;
	g.now_ns = 1000 * SECOND;
	g.wake_ns = NEVER;
	resolve_conf_read(conf, strlen(conf), &resolve_conf);
	resolve_hosts = (struct hosts){ hosts, strlen(hosts) };
	snprintf(names[0].text, sizeof(names[0].text), "%s", name);
	return &names[0];
}

#define ONE "nameserver 192.0.2.1\n"
#define TWO ONE "nameserver 192.0.2.2\n"

static void test_both_families(void)
{
	struct name *name = set_up("a.example", ONE, "");

	resolve(&g, name, note, name);
	CHECK_INT(n_done, 0);
	CHECK_INT(count_open(), 2);
	SAY("a.example", DNS_A, DNS_NOERROR, 2, 100);
	CHECK_INT(n_done, 0);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 1, 1);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_NOERROR);
	CHECK_INT(name->n_addrs, 3);
	CHECK(name->addrs[0].is_v6 && !name->addrs[1].is_v6 && !name->addrs[2].is_v6);
	CHECK(name->fresh_until_ns == g.now_ns + 5 * SECOND);
	CHECK_INT(count_open(), 0);
	/* Fresh: at once, and nothing is sent. Later: asked again. */
	resolve(&g, name, note, name);
	CHECK_INT(n_done, 2);
	CHECK_INT(n_socks, 2);
	g.now_ns += 6 * SECOND;
	resolve(&g, name, note, name);
	CHECK_INT(n_done, 2);
	CHECK_INT(n_socks, 4);
}

/* What does not fit any more is not sent, and there is no answer. */
static void test_questions_count(void)
{
	struct name *name = set_up("a.example", ONE, "");

	max_bytes = 100;
	resolve(&g, name, note, name);
	CHECK_INT(n_done, 0);
	CHECK(account.bytes_names > 0 && account.bytes_names <= 100);
	SAY("a.example", DNS_A, DNS_NOERROR, 2, 100);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 1, 1);
	CHECK_INT(n_done, 1);
	name = set_up("a.example", ONE, "");
	max_bytes = 10;
	resolve(&g, name, note, name);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_SERVFAIL);
	CHECK(n_denials > 0 && account.bytes_names == 0);
}

static void test_second_family_is_late(void)
{
	struct name *name = set_up("a.example", ONE, "");

	resolve(&g, name, note, NULL);
	pass(20 * MS);
	SAY("a.example", DNS_A, DNS_NOERROR, 1, 1000);
	pass(49 * MS);
	CHECK_INT(n_done, 0);
	pass(1 * MS);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 1);
	CHECK(name->fresh_until_ns == g.now_ns + 300 * SECOND);
	CHECK_INT(count_open(), 0);
}

/* An answer without addresses is no reason to hurry. */
static void test_empty_family_waits(void)
{
	struct name *name = set_up("a.example", ONE, "");

	resolve(&g, name, note, NULL);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 0, 60);
	pass(SECOND);
	CHECK_INT(n_done, 0);
	SAY("a.example", DNS_A, DNS_NOERROR, 1, 60);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 1);
}

static void test_nobody_answers(void)
{
	struct name *name = set_up("a.example", TWO "options timeout:1 attempts:3\nsearch x\n", "");

	resolve(&g, name, note, NULL);
	pass(5999 * MS);
	CHECK_INT(n_done, 0);
	CHECK_INT(count_open(), 2);
	pass(1 * MS);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_SERVFAIL);
	CHECK_INT(n_socks, 12);
	/* One after the other, and over again. */
	for (int i = 0; i < n_socks; i++)
		CHECK_INT(socks[i].server, 1 + i / 2 % 2);
	CHECK_INT(count_open(), 0);
	/* It is not tried again for a short while. */
	resolve(&g, name, note, NULL);
	CHECK_INT(n_done, 2);
	CHECK_INT(n_socks, 12);
	pass(2 * SECOND);
	resolve(&g, name, note, NULL);
	CHECK_INT(n_socks, 14);
	/* Nor is the rest of the search list tried on servers that are not there. */
	name = set_up("host", ONE "options timeout:1 attempts:1\nsearch x y z\n", "");
	resolve(&g, name, note, NULL);
	pass(1 * SECOND);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_SERVFAIL);
	CHECK_INT(n_socks, 2);
}

static void test_servers_that_fail(void)
{
	struct name *name = set_up("a.example", TWO "nameserver 192.0.2.3\n", "");

	resolve(&g, name, note, NULL);
	SAY("a.example", DNS_A, DNS_SERVFAIL, 0, 0);
	SAY("a.example", DNS_A, DNS_REFUSED, 0, 0);
	CHECK_INT(asked("a.example", DNS_A)->server, 3);
	SAY("a.example", DNS_A, DNS_NOERROR, 1, 60);
	asked("a.example", DNS_AAAA)->is_refused = true;
	deliver(asked("a.example", DNS_AAAA), NULL, 0);
	CHECK_INT(asked("a.example", DNS_AAAA)->server, 2);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 0, 60);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 1);
}

/* Everything fails at once: the callback comes before resolve() returns, exactly once. */
static void test_no_network(void)
{
	struct name *name = set_up("a.example", "nameserver 192.0.2.66\nsearch x\n", "");

	resolve(&g, name, note, NULL);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_SERVFAIL);
	CHECK_INT(count_open(), 0);
	CHECK_INT(n_lookups, 0);
}

static void test_forged_answers(void)
{
	struct name *name = set_up("a.example", TWO, "");
	uint8_t msg[2 + DNS_ANSWER_MAX];
	struct sock *s;
	size_t len;

	resolve(&g, name, note, NULL);
	s = asked("a.example", DNS_A);
	REQUIRE(s != NULL);
	len = write_answer(s, DNS_NOERROR, 1, 60, msg);
	msg[1] ^= 1;
	deliver(s, msg, len);
	deliver(s, msg, 3);
	deliver(s, msg, 0);
	CHECK(s->is_open);
	say(s, DNS_NOERROR, 1, 60);
	CHECK(!s->is_open);
	/* Too many of them, and the next server is asked, with another id. */
	s = asked("a.example", DNS_AAAA);
	REQUIRE(s != NULL);
	len = write_answer(s, DNS_NOERROR, 1, 60, msg);
	msg[1] ^= 1;
	for (int i = 0; i < 33; i++)
		deliver(s, msg, len);
	CHECK(!s->is_open);
	CHECK_INT(asked("a.example", DNS_AAAA)->server, 2);
	CHECK(memcmp(asked("a.example", DNS_AAAA)->sent, s->sent, 2) != 0);
	CHECK_INT(n_done, 0);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 1, 60);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 2);
}

static void test_truncated(void)
{
	struct name *name = set_up("a.example", TWO, "");
	uint8_t msg[2 + DNS_ANSWER_MAX];
	struct sock *s;
	size_t len;

	resolve(&g, name, note, NULL);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 0, 60);
	s = asked("a.example", DNS_A);
	REQUIRE(s != NULL);
	len = write_answer(s, DNS_NOERROR, 0, 60, msg);
	msg[2] |= 2;
	deliver(s, msg, len);
	/* The same server over TCP; its answer comes in pieces. */
	s = &socks[n_socks - 1];
	REQUIRE(s->is_open && s->is_tcp);
	CHECK_INT(s->server, 1);
	CHECK_INT(s->n_sent, 0);
	s->source->ready(&g, s->source, EVENT_OUT);
	CHECK(s->n_sent > 2);
	CHECK_INT(s->sent[0] << 8 | s->sent[1], (int)s->n_sent - 2);
	len = write_answer(s, DNS_NOERROR, 16, 60, msg);
	deliver(s, msg, 1);
	deliver(s, msg + 1, 40);
	CHECK_INT(n_done, 0);
	deliver(s, msg + 41, len - 41);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 16);
	CHECK_INT(count_open(), 0);
}

static void test_tcp_that_fails(void)
{
	static const uint8_t too_long[] = { 0xff, 0xff, 0 }, nothing[] = { 0, 0 };
	struct name *name = set_up("a.example", TWO "options use-vc attempts:2\n", "");

	resolve(&g, name, note, NULL);
	CHECK(socks[0].is_tcp && socks[1].is_tcp);
	socks[0].is_refused = true;
	deliver(&socks[0], NULL, 0);
	CHECK(!socks[0].is_open);
	CHECK_INT(socks[2].server, 2);
	deliver(&socks[2], too_long, sizeof(too_long));
	CHECK(!socks[2].is_open);
	deliver(&socks[3], nothing, sizeof(nothing));
	CHECK(!socks[3].is_open);
	CHECK_INT(socks[4].server, 2);
	pass(20 * SECOND);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_SERVFAIL);
}

static void test_negative(void)
{
	struct name *name = set_up("a.example", ONE, "");

	resolve(&g, name, note, NULL);
	SAY("a.example", DNS_A, DNS_NXDOMAIN, 0, 0);
	CHECK_INT(n_done, 0);
	SAY("a.example", DNS_AAAA, DNS_NXDOMAIN, 0, 0);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_NXDOMAIN);
	CHECK(name->fresh_until_ns == g.now_ns + 5 * SECOND);
	name = set_up("b.example", ONE, "");
	resolve(&g, name, note, NULL);
	SAY("b.example", DNS_A, DNS_NOERROR, 0, 0);
	SAY("b.example", DNS_AAAA, DNS_NXDOMAIN, 0, 0);
	CHECK_INT(name->rcode, DNS_NOERROR);
	CHECK_INT(name->n_addrs, 0);
	/* Half an answer is none: the other half may have had the addresses. */
	name = set_up("c.example", ONE, "");
	resolve(&g, name, note, NULL);
	SAY("c.example", DNS_AAAA, DNS_NOERROR, 0, 0);
	pass(60 * SECOND);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_SERVFAIL);
}

static void test_search(void)
{
	struct name *name = set_up("host", ONE "search one secret two\n", "");

	resolve(&g, name, note, NULL);
	SAY("host.one", DNS_A, DNS_NXDOMAIN, 0, 0);
	SAY("host.one", DNS_AAAA, DNS_NXDOMAIN, 0, 0);
	/* host.secret is denied: no server is asked for it. */
	SAY("host.two", DNS_A, DNS_NOERROR, 0, 0);
	SAY("host.two", DNS_AAAA, DNS_NOERROR, 0, 0);
	SAY("host", DNS_A, DNS_NXDOMAIN, 0, 0);
	CHECK_INT(n_done, 0);
	SAY("host", DNS_AAAA, DNS_NXDOMAIN, 0, 0);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_NOERROR);
	CHECK_INT(n_socks, 6);
	/* With a dot: as it is first; what exists is not looked for elsewhere. */
	name = set_up("a.example", ONE "search one\n", "");
	resolve(&g, name, note, NULL);
	SAY("a.example", DNS_A, DNS_NOERROR, 0, 0);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 0, 0);
	CHECK_INT(n_done, 1);
	name = set_up("b.named", ONE "search one\n", "");
	resolve(&g, name, note, NULL);
	SAY("b.named", DNS_A, DNS_NXDOMAIN, 0, 0);
	SAY("b.named", DNS_AAAA, DNS_NXDOMAIN, 0, 0);
	SAY("b.named.one", DNS_AAAA, DNS_NOERROR, 1, 60);
	SAY("b.named.one", DNS_A, DNS_NOERROR, 1, 60);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 2);
	/* What the guest chose is not sent to a domain that no rule knows. */
	name = set_up("chosen.example", ONE "search one\n", "");
	resolve(&g, name, note, NULL);
	SAY("chosen.example", DNS_A, DNS_NXDOMAIN, 0, 0);
	SAY("chosen.example", DNS_AAAA, DNS_NXDOMAIN, 0, 0);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_NXDOMAIN);
	CHECK_INT(n_socks, 2);
}

static void test_not_allowed(void)
{
	struct name *name = set_up("other.test", ONE, "192.0.2.9 other.test\n");

	resolve(&g, name, note, NULL);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->rcode, DNS_REFUSED);
	CHECK_INT(name->n_addrs, 0);
	CHECK_INT(n_socks, 0);
}

static void test_hosts_first(void)
{
	struct name *name =
		set_up("a.example", ONE, "192.0.2.9 a.example\n2001:db8::9 a.example\n");

	resolve(&g, name, note, NULL);
	CHECK_INT(n_done, 1);
	CHECK_INT(name->n_addrs, 2);
	CHECK_INT(n_socks, 0);
}

/* Asks again for everything it is told, and takes others off the list. */
static void greedy(struct gateway *gw, void *arg, struct name *name)
{
	n_done++;
	(void)arg;
	resolve_cancel(note, &names[1]);
	if (n_done < 3)
		resolve(gw, name, greedy, NULL);
	resolve(gw, &names[2], note, NULL);
}

static void test_waiters(void)
{
	struct name *name = set_up("a.example", ONE, "");

	snprintf(names[2].text, sizeof(names[2].text), "c.example");
	resolve(&g, name, note, NULL);
	resolve(&g, name, greedy, NULL);
	resolve(&g, name, note, &names[1]); /* will be cancelled by the one before */
	resolve(&g, name, note, name);
	CHECK_INT(n_socks, 2);
	resolve_cancel(note, name);
	SAY("a.example", DNS_A, DNS_NOERROR, 1, 60);
	SAY("a.example", DNS_AAAA, DNS_NOERROR, 1, 60);
	/* note, greedy, greedy again at once: three; and one lookup of another name is under way */
	CHECK_INT(n_done, 3);
	CHECK_INT(n_lookups, 1);
	CHECK_INT(n_socks, 4);
	SAY("c.example", DNS_A, DNS_NOERROR, 1, 60);
	SAY("c.example", DNS_AAAA, DNS_NOERROR, 1, 60);
	CHECK_INT(n_done, 5);
	CHECK(last_done == &names[2]);
	for (size_t i = 0; i < WAITERS_MAX; i++)
		CHECK(!waiters[i].done);
}

static void test_limits(void)
{
	set_up("x", ONE, "");
	for (int i = 0; i <= LOOKUPS_MAX; i++) {
		sprintf(names[i].text, "n%d.example", i);
		resolve(&g, &names[i], note, &names[i]);
	}
	CHECK_INT(n_done, 1);
	CHECK_INT(names[LOOKUPS_MAX].rcode, DNS_SERVFAIL);
	CHECK_INT(n_lookups, LOOKUPS_MAX);
	/* A query without waiting clients gives way, and answers to it are dropped. */
	resolve_cancel(note, &names[3]);
	resolve(&g, &names[LOOKUPS_MAX], note, NULL);
	CHECK_INT(n_done, 1);
	CHECK_INT(n_lookups, LOOKUPS_MAX);
	CHECK(!asked("n3.example", DNS_A) && asked("n64.example", DNS_A));
	CHECK_INT(count_open(), 2 * LOOKUPS_MAX);
	for (int i = 0; i < WAITERS_MAX; i++)
		resolve(&g, &names[0], note, NULL);
	CHECK_INT(n_done, 1 + LOOKUPS_MAX);
	pass(60 * SECOND);
	CHECK_INT(n_done, 1 + LOOKUPS_MAX + WAITERS_MAX);
	CHECK_INT(n_lookups, 0);
	CHECK_INT(count_open(), 0);
}

TAP_MAIN(test_both_families, test_questions_count, test_second_family_is_late,
	 test_empty_family_waits, test_nobody_answers, test_servers_that_fail, test_no_network,
	 test_forged_answers, test_truncated, test_tcp_that_fails, test_negative, test_search,
	 test_not_allowed, test_hosts_first, test_waiters, test_limits)

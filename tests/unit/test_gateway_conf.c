/* SPDX-License-Identifier: Apache-2.0 */
/* /etc/hosts, /etc/resolv.conf and what is made of them. The gateway is a program of its own, so
 * its source is part of the test. */
#include "gateway/resolve_conf.c"

#include "tests/lib/tap.h"

static struct hosts hosts;
static struct resolve_conf conf;

static void read_hosts(const char *text)
{
	hosts = (struct hosts){ text, strlen(text) };
}

static void read_conf(const char *text)
{
	resolve_conf_read(text, strlen(text), &conf);
}

/* All addresses of a name in one line. */
static const char *find(const char *name)
{
	static char line[DNS_ADDRS_MAX * NET_ADDR_TEXT_MAX];
	struct net_addr addrs[DNS_ADDRS_MAX];
	size_t n = hosts_find(&hosts, name, addrs, DNS_ADDRS_MAX);
	char text[NET_ADDR_TEXT_MAX];

	line[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", i ? " " : "",
			 net_addr_format(&addrs[i], text));
	}
	return line;
}

static const char *server(uint32_t i)
{
	static char text[NET_ADDR_TEXT_MAX];

	return i < conf.n_servers ? net_addr_format(&conf.servers[i].addr, text) : "none";
}

static void test_hosts_lines(void)
{
	read_hosts("127.0.0.1 localhost\n"
		   "\n"
		   "# 192.0.2.1 comment.example\n"
		   "  192.0.2.2\tTabs.Example  alias.example. # 192.0.2.3 not.example\n"
		   "192.0.2.4 two.example\r\n"
		   "2001:db8::4 two.example\n"
		   "192.0.2.4 two.example\n"
		   "192.0.2.5 no-newline.example");
	CHECK_STR(find("localhost"), "127.0.0.1");
	CHECK_STR(find("comment.example"), "");
	CHECK_STR(find("tabs.example"), "192.0.2.2");
	CHECK_STR(find("alias.example"), "192.0.2.2");
	CHECK_STR(find("not.example"), "");
	CHECK_STR(find("two.example"), "192.0.2.4 2001:db8::4");
	CHECK_STR(find("no-newline.example"), "192.0.2.5");
	CHECK_STR(find("example"), "");
}

static void test_hosts_junk(void)
{
	static const char nul[] = "192.0.2.1 a\0b.example c.example\n192.0.2.2 d.example\n";

	read_hosts("192.0.2.300 a.example\n192.0.2 b.example\nfe80::1%eth0 c.example\n"
		   "192.0.2.1\n192.0.2.1 -x.example 1.2.3.4 ok.example\n");
	CHECK_STR(find("ok.example"), "192.0.2.1");
	CHECK_STR(find("a.example"), "");
	CHECK_STR(find("c.example"), "");
	CHECK_STR(find("1.2.3.4"), "");
	hosts = (struct hosts){ nul, sizeof(nul) - 1 };
	CHECK_STR(find("c.example"), "192.0.2.1");
	CHECK_STR(find("d.example"), "192.0.2.2");
	hosts = (struct hosts){ "", 0 };
	CHECK_STR(find("d.example"), "");
}

static void test_hosts_long(void)
{
	static char text[40 * 20000];
	size_t len = 0;

	for (int i = 0; i < 20000; i++)
		len += (size_t)sprintf(text + len, "192.0.2.1 n%d.example\n", i);
	hosts = (struct hosts){ text, len };
	CHECK_STR(find("n0.example"), "192.0.2.1");
	CHECK_STR(find("n1024.example"), "192.0.2.1");
	CHECK_STR(find("n19999.example"), "192.0.2.1");
	CHECK_STR(find("n20000.example"), "");
	/* More addresses than anybody wants. */
	len = 0;
	for (int i = 1; i < 40; i++)
		len += (size_t)sprintf(text + len, "192.0.2.%d many.example\n", i);
	hosts = (struct hosts){ text, len };
	{
		struct net_addr addrs[4];

		CHECK_INT(hosts_find(&hosts, "many.example", addrs, 4), 4);
		CHECK_INT(addrs[3].bytes[3], 4);
	}
}

static void test_conf_defaults(void)
{
	read_conf("");
	CHECK_INT(conf.n_servers, 1);
	CHECK_STR(server(0), "127.0.0.1");
	CHECK_INT(conf.n_search, 0);
	CHECK_INT(conf.attempts, 2);
	CHECK(conf.timeout_ns == 2 * SECOND);
	CHECK(!conf.is_tcp);
}

static void test_conf_servers(void)
{
	read_conf("# nameserver 192.0.2.9\n;nameserver 192.0.2.8\n"
		  "nameserver 192.0.2.1 # the first\n"
		  "nameserver\tnot-an-address\n"
		  "nameservers 192.0.2.7\n"
		  "nameserver\n"
		  "nameserver 2001:db8::53\n"
		  "nameserver fe80::1%eth0\n"
		  "nameserver 192.0.2.4\n");
	CHECK_INT(conf.n_servers, 3);
	CHECK_STR(server(0), "192.0.2.1");
	CHECK_STR(server(1), "2001:db8::53");
	CHECK_STR(server(2), "fe80::1");
	CHECK_STR(conf.servers[1].zone, "");
	CHECK_STR(conf.servers[2].zone, "eth0");
	/* A device that cannot be one, or of an address that has none. */
	read_conf("nameserver fe80::1%\nnameserver fe80::1%a-very-long-name-of-one\n"
		  "nameserver 192.0.2.1%eth0\n");
	CHECK_INT(conf.n_servers, 1);
	CHECK_STR(server(0), "127.0.0.1");
}

static void test_conf_search(void)
{
	read_conf("domain First.Example second.example\n");
	CHECK_INT(conf.n_search, 1);
	CHECK_STR(conf.search[0], "first.example");
	read_conf("domain a.example\nsearch b.example . c.example.\n");
	CHECK_INT(conf.n_search, 2);
	CHECK_STR(conf.search[0], "b.example");
	CHECK_STR(conf.search[1], "c.example");
	read_conf("search a b c d e f g h\n");
	CHECK_INT(conf.n_search, SEARCH_MAX);
	CHECK_STR(conf.search[5], "f");
	read_conf("search a b\nsearch\n");
	CHECK_INT(conf.n_search, 0);
}

static void test_conf_options(void)
{
	read_conf("options ndots:5 timeout:3 attempts:4 rotate use-vc edns0\n");
	CHECK(conf.timeout_ns == 3 * SECOND);
	CHECK_INT(conf.attempts, 4);
	CHECK(conf.is_tcp);
	read_conf("options timeout:99999999999999999999 attempts:77\n");
	CHECK(conf.timeout_ns == 10 * SECOND);
	CHECK_INT(conf.attempts, 5);
	read_conf("options timeout:0 attempts:0\n");
	CHECK(conf.timeout_ns == SECOND);
	CHECK_INT(conf.attempts, 1);
	read_conf("options timeout: attempts:x timeout:-1\noptions attempts:3\n");
	CHECK(conf.timeout_ns == 2 * SECOND);
	CHECK_INT(conf.attempts, 3);
}

/* The names that are asked for, in their order. */
static const char *candidates(const char *name)
{
	static char line[8 * (NET_NAME_MAX + 2)];
	char one[NET_NAME_MAX + 1];

	line[0] = '\0';
	for (unsigned i = 0;; i++) {
		int r = resolve_candidate(&conf, name, i, one);

		if (r < 0)
			return line;
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "%s%s", i ? " " : "",
			 r ? one : "-");
	}
}

static void test_candidates(void)
{
	char longest[NET_NAME_MAX + 1];

	read_conf("search corp.example lab\n");
	CHECK_STR(candidates("host"), "host.corp.example host.lab host");
	CHECK_STR(candidates("a.b"), "a.b a.b.corp.example a.b.lab");
	read_conf("");
	CHECK_STR(candidates("host"), "host");
	CHECK_STR(candidates("a.b"), "a.b");
	/* What would be too long is left out. */
	read_conf("search corp.example x\n");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[250] = '\0';
	longest[63] = longest[127] = longest[191] = '.';
	CHECK_INT(resolve_candidate(&conf, longest, 0, (char[NET_NAME_MAX + 1]){ 0 }), 1);
	CHECK_INT(resolve_candidate(&conf, longest, 1, (char[NET_NAME_MAX + 1]){ 0 }), 0);
	CHECK_INT(resolve_candidate(&conf, longest, 2, (char[NET_NAME_MAX + 1]){ 0 }), 1);
	CHECK_INT(resolve_candidate(&conf, longest, 3, (char[NET_NAME_MAX + 1]){ 0 }), -1);
}

static void fill(struct dns_response *r, bool is_v6, size_t n)
{
	memset(r, 0, sizeof(*r));
	r->n_addrs = n;
	for (size_t i = 0; i < n; i++) {
		r->addrs[i].is_v6 = is_v6;
		r->addrs[i].bytes[0] = (uint8_t)i;
	}
}

static void test_merge(void)
{
	struct dns_response v4, v6;
	struct net_addr all[16];

	fill(&v4, false, 3);
	fill(&v6, true, 1);
	CHECK_INT(resolve_merge(&v4, &v6, all, 16), 4);
	CHECK(all[0].is_v6 && !all[1].is_v6 && !all[2].is_v6 && !all[3].is_v6);
	CHECK_INT(all[3].bytes[0], 2);
	fill(&v4, false, 16);
	fill(&v6, true, 16);
	CHECK_INT(resolve_merge(&v4, &v6, all, 16), 16);
	CHECK(all[14].is_v6 && !all[15].is_v6);
	CHECK_INT(all[15].bytes[0], 7);
	fill(&v6, true, 0);
	CHECK_INT(resolve_merge(&v4, &v6, all, 16), 16);
	fill(&v4, false, 0);
	CHECK_INT(resolve_merge(&v4, &v6, all, 16), 0);
}

TAP_MAIN(test_hosts_lines, test_hosts_junk, test_hosts_long, test_conf_defaults, test_conf_servers,
	 test_conf_search, test_conf_options, test_candidates, test_merge)

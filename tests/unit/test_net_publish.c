/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of net.publish: what is read, and what is refused. */
#include "net/publish.h"
#include "tap.h"

static void test_accepted(void)
{
	static const struct {
		const char *text, *addr;
		int host_port, port;
		bool tcp, udp;
		const char *best;
	} rows[] = {
		{ "8080", "127.0.0.1", 8080, 8080, true, true, "8080" },
		{ "1", "127.0.0.1", 1, 1, true, true, "1" },
		{ "65535/tcp", "127.0.0.1", 65535, 65535, true, false, "65535/tcp" },
		{ "53/udp", "127.0.0.1", 53, 53, false, true, "53/udp" },
		{ "0:8080", "127.0.0.1", 0, 8080, true, true, "0:8080" },
		{ "8080:8080", "127.0.0.1", 8080, 8080, true, true, "8080" },
		{ "9000:80/tcp", "127.0.0.1", 9000, 80, true, false, "9000:80/tcp" },
		{ "127.0.0.1:8080:8080", "127.0.0.1", 8080, 8080, true, true, "8080" },
		{ "127.0.0.1:9000:80", "127.0.0.1", 9000, 80, true, true, "9000:80" },
		{ "127.0.0.2:80:80", "127.0.0.2", 80, 80, true, true, "127.0.0.2:80:80" },
		{ "0.0.0.0:0:80/udp", "0.0.0.0", 0, 80, false, true, "0.0.0.0:0:80/udp" },
		{ "[::1]:9000:80", "::1", 9000, 80, true, true, "[::1]:9000:80" },
		{ "[::]:80:80/tcp", "::", 80, 80, true, false, "[::]:80:80/tcp" },
		{ "[2001:DB8:0::1]:1:2", "2001:db8::1", 1, 2, true, true, "[2001:db8::1]:1:2" },
		{ "[::ffff:127.0.0.1]:1:2", "127.0.0.1", 1, 2, true, true, "1:2" },
		{ "[abcd:ef01:2345:6789:abcd:ef01:2345:6789]:65535:65534/udp",
		  "abcd:ef01:2345:6789:abcd:ef01:2345:6789", 65535, 65534, false, true,
		  "[abcd:ef01:2345:6789:abcd:ef01:2345:6789]:65535:65534/udp" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[NET_PUBLISH_TEXT_MAX], addr[NET_ADDR_TEXT_MAX];
		struct net_publish p, again;
		const char *why, *hint;

		CHECK_MSG(net_publish_parse(rows[i].text, &p, &why, &hint) == 0, "'%s' %s",
			  rows[i].text, why ? why : "?");
		CHECK_STR(net_addr_format(&p.addr, addr), rows[i].addr);
		CHECK_INT(p.host_port, rows[i].host_port);
		CHECK_INT(p.port, rows[i].port);
		CHECK_INT(p.tcp, rows[i].tcp);
		CHECK_INT(p.udp, rows[i].udp);
		CHECK_STR(net_publish_format(&p, text), rows[i].best);
		CHECK_INT(net_publish_parse(text, &again, &why, &hint), 0);
		CHECK(net_addr_equal(&p.addr, &again.addr) && p.port == again.port &&
		      p.host_port == again.host_port && p.tcp == again.tcp && p.udp == again.udp);
	}
}

static void test_given(void)
{
	struct net_publish p;
	const char *why, *hint;

	CHECK_INT(net_publish_parse("80", &p, &why, &hint), 0);
	CHECK(!p.has_addr && !p.has_host_port);
	CHECK_INT(net_publish_parse("80:80", &p, &why, &hint), 0);
	CHECK(!p.has_addr && p.has_host_port);
	CHECK_INT(net_publish_parse("127.0.0.1:80:80", &p, &why, &hint), 0);
	CHECK(p.has_addr && p.has_host_port);
}

static void test_refused(void)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "is empty" },
		{ "0", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "80:0", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "65536", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "080", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "+80", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ " 80", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "80 ", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "http", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "80:", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "/tcp", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "80-90", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ "80/tcp/udp", "has an invalid port inside the sandbox; ports are 1 to 65535" },
		{ ":80", "has an invalid port on the host" },
		{ "65536:80", "has an invalid port on the host" },
		{ "00:80", "has an invalid port on the host" },
		{ "host:80", "has an invalid port on the host" },
		{ "127.0.0.1:80", "has an address but no port on the host" },
		{ "[::1]:80", "has an address but no port on the host" },
		{ "127.0.0.1::80", "has an invalid port on the host" },
		{ "::1:80:80", "has an invalid address" },
		{ ":80:80", "has an invalid address" },
		{ "[127.0.0.1]:80:80", "has an invalid address" },
		{ "127.1:80:80", "has an invalid address" },
		{ "localhost:80:80", "has an invalid address" },
		{ "*:80:80", "has an invalid address" },
		{ "[::1:80:80", "has an invalid address" },
		{ "::1]:80:80", "has an invalid address" },
		{ "[]:80:80", "has an invalid address" },
		{ "[fe80::1%eth0]:80:80", "has an invalid address" },
		{ "80/", "ends in a protocol that is neither tcp nor udp" },
		{ "80/TCP", "ends in a protocol that is neither tcp nor udp" },
		{ "80/sctp", "ends in a protocol that is neither tcp nor udp" },
		{ "80/tcpx", "ends in a protocol that is neither tcp nor udp" },
		{ "0000000000000000000000000000000000000000000000000000000000000000000000000000000"
		  "0",
		  "is too long" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_publish p;
		const char *why = NULL, *hint = NULL;

		CHECK_MSG(net_publish_parse(rows[i].text, &p, &why, &hint) == -1, "'%s' is taken",
			  rows[i].text);
		CHECK_STR(why, rows[i].why);
		CHECK(hint && hint[0]);
	}
}

TAP_MAIN(test_accepted, test_given, test_refused)

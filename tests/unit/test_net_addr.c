/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: text, networks, and every special network at its edges. */
#include "net/addr.h"
#include "tap.h"

static struct net_addr read_addr(const char *text)
{
	struct net_addr addr;

	CHECK_MSG(net_addr_parse(text, strlen(text), &addr) == 0, "'%s' is no address", text);
	return addr;
}

static void test_text(void)
{
	static const struct {
		const char *text, *want; /* NULL = refused */
	} rows[] = {
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "1.20.103.9", "1.20.103.9" },
		{ "::", "::" },
		{ "::1", "::1" },
		{ "1::", "1::" },
		{ "2001:DB8::1", "2001:db8::1" },
		{ "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1" },
		{ "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
		{ "2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1" },
		{ "2001:0:0:1:0:0:0:1", "2001:0:0:1::1" },
		{ "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
		{ "0:0:1:0:0:0:0:0", "0:0:1::" },
		{ "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0" },
		{ "::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8" },
		{ "abcd:ef01:2345:6789:abcd:ef01:2345:6789",
		  "abcd:ef01:2345:6789:abcd:ef01:2345:6789" },
		{ "::ffff:192.0.2.1", "192.0.2.1" },
		{ "::ffff:c000:201", "192.0.2.1" },
		{ "0:0:0:0:0:FFFF:192.0.2.1", "192.0.2.1" },
		{ "0000:0000:0000:0000:0000:ffff:255.255.255.255", "255.255.255.255" },
		{ "::192.0.2.1", "::c000:201" },
		{ "64:ff9b::192.0.2.1", "64:ff9b::c000:201" },
		{ "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304" },
		{ "1:2:3:4:5:6:7:8::", NULL },
		{ "::1:2:3:4:5:6:7:8", NULL },
		{ "1:2:3:4::5:6:7:8", NULL },
		{ "1:2:3:4:5:6:7:1.2.3.4", NULL },
		{ "1:2:3:4:5:6:7:8:1.2.3.4", NULL },
		{ "::1:2:3:4:5:6:1.2.3.4", NULL },
		{ "::1.2.3.4.5", NULL },
		{ "1.2.3.4::1", NULL },
		{ "::1::1", NULL },
		{ "1:::1", NULL },
		{ ":1", NULL },
		{ "1:", NULL },
		{ ":", NULL },
		{ "::1:", NULL },
		{ ":::", NULL },
		{ "00001::", NULL },
		{ "[::1]", NULL },
		{ "::1 ", NULL },
		{ "::1%1", NULL },
		{ "1.2.3", NULL },
		{ "1.2.3.4.", NULL },
		{ ".1.2.3.4", NULL },
		{ "1..2.3", NULL },
		{ "1.2.3.04", NULL },
		{ "1.2.3.256", NULL },
		{ "1.2.3.1000", NULL },
		{ "+1.2.3.4", NULL },
		{ "1.2.3.4/8", NULL },
		{ "0x1.2.3.4", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[NET_ADDR_TEXT_MAX];
		struct net_addr addr, again;
		int r = net_addr_parse(rows[i].text, strlen(rows[i].text), &addr);

		CHECK_MSG(r == (rows[i].want ? 0 : -1), "'%s' gave %d", rows[i].text, r);
		if (r || !rows[i].want)
			continue;
		CHECK_STR(net_addr_format(&addr, text), rows[i].want);
		CHECK_INT(net_addr_parse(text, strlen(text), &again), 0);
		CHECK(net_addr_equal(&addr, &again));
	}
}

static void test_networks(void)
{
	static const struct {
		const char *addr, *net;
		unsigned prefix;
		bool is_in;
	} rows[] = {
		{ "10.1.2.3", "10.0.0.0", 8, true },
		{ "11.0.0.0", "10.0.0.0", 8, false },
		{ "10.255.0.0", "10.0.0.0", 9, false },
		{ "1.2.3.4", "0.0.0.0", 0, true },
		{ "1.2.3.4", "1.2.3.4", 32, true },
		{ "1.2.3.5", "1.2.3.4", 32, false },
		{ "1.2.3.5", "1.2.3.4", 31, true },
		{ "1.2.3.4", "1.2.3.4", 33, false },
		{ "1.2.3.4", "::", 0, false },
		{ "::1", "0.0.0.0", 0, false },
		{ "2001:db8::1", "2001:db8::", 32, true },
		{ "2001:db9::1", "2001:db8::", 32, false },
		{ "2001:db9::1", "2001:db8::", 31, true },
		{ "::1", "::1", 128, true },
		{ "::2", "::1", 128, false },
		{ "::1", "::1", 129, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_addr addr = read_addr(rows[i].addr), net = read_addr(rows[i].net);

		CHECK_MSG(net_addr_is_in(&addr, &net, rows[i].prefix) == rows[i].is_in,
			  "%s in %s/%u", rows[i].addr, rows[i].net, rows[i].prefix);
	}
}

struct judged {
	const char *addr, *why;
};

static void check_judged(const struct judged *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct net_addr addr = read_addr(rows[i].addr);
		const char *why = net_addr_special(&addr);

		CHECK_MSG((!why && !rows[i].why) ||
				  (why && rows[i].why && !strcmp(why, rows[i].why)),
			  "%s is %s, expected %s", rows[i].addr, why ? why : "public",
			  rows[i].why ? rows[i].why : "public");
	}
}

/* Of each network the address before, the first, the last and the one after. */
static void test_special_v4(void)
{
	static const struct judged rows[] = {
		{ "0.0.0.0", "unspecified" },
		{ "0.0.0.1", "reserved" },
		{ "0.255.255.255", "reserved" },
		{ "1.0.0.0", NULL },
		{ "9.255.255.255", NULL },
		{ "10.0.0.0", "private" },
		{ "10.255.255.255", "private" },
		{ "11.0.0.0", NULL },
		{ "100.63.255.255", NULL },
		{ "100.64.0.0", "shared" },
		{ "100.100.100.199", "shared" },
		{ "100.100.100.200", "metadata" },
		{ "100.100.100.201", "shared" },
		{ "100.127.255.255", "shared" },
		{ "100.128.0.0", NULL },
		{ "126.255.255.255", NULL },
		{ "127.0.0.0", "loopback" },
		{ "127.0.0.1", "loopback" },
		{ "127.255.255.255", "loopback" },
		{ "128.0.0.0", NULL },
		{ "168.63.129.15", NULL },
		{ "168.63.129.16", "metadata" },
		{ "168.63.129.17", NULL },
		{ "169.253.255.255", NULL },
		{ "169.254.0.0", "link-local" },
		{ "169.254.0.23", "metadata" },
		{ "169.254.10.10", "metadata" },
		{ "169.254.169.253", "link-local" },
		{ "169.254.169.254", "metadata" },
		{ "169.254.169.255", "link-local" },
		{ "169.254.170.2", "metadata" },
		{ "169.254.170.23", "metadata" },
		{ "169.254.255.255", "link-local" },
		{ "169.255.0.0", NULL },
		{ "172.15.255.255", NULL },
		{ "172.16.0.0", "private" },
		{ "172.31.255.255", "private" },
		{ "172.32.0.0", NULL },
		{ "191.255.255.255", NULL },
		{ "192.0.0.0", "reserved" },
		{ "192.0.0.9", "reserved" },
		{ "192.0.0.10", "reserved" },
		{ "192.0.0.170", "reserved" },
		{ "192.0.0.191", "reserved" },
		{ "192.0.0.192", "metadata" },
		{ "192.0.0.193", "reserved" },
		{ "192.0.0.255", "reserved" },
		{ "192.0.1.0", NULL },
		{ "192.0.1.255", NULL },
		{ "192.0.2.0", "documentation" },
		{ "192.0.2.255", "documentation" },
		{ "192.0.3.0", NULL },
		{ "192.31.196.1", NULL },
		{ "192.52.193.1", NULL },
		{ "192.88.98.255", NULL },
		{ "192.88.99.0", "reserved" },
		{ "192.88.99.255", "reserved" },
		{ "192.88.100.0", NULL },
		{ "192.167.255.255", NULL },
		{ "192.168.0.0", "private" },
		{ "192.168.255.255", "private" },
		{ "192.169.0.0", NULL },
		{ "192.175.48.1", NULL },
		{ "198.17.255.255", NULL },
		{ "198.18.0.0", "benchmarking" },
		{ "198.19.255.255", "benchmarking" },
		{ "198.20.0.0", NULL },
		{ "198.51.99.255", NULL },
		{ "198.51.100.0", "documentation" },
		{ "198.51.100.255", "documentation" },
		{ "198.51.101.0", NULL },
		{ "203.0.112.255", NULL },
		{ "203.0.113.0", "documentation" },
		{ "203.0.113.255", "documentation" },
		{ "203.0.114.0", NULL },
		{ "223.255.255.255", NULL },
		{ "224.0.0.0", "multicast" },
		{ "239.255.255.255", "multicast" },
		{ "240.0.0.0", "reserved" },
		{ "255.255.255.254", "reserved" },
		{ "255.255.255.255", "broadcast" },
		{ "8.8.8.8", NULL },
	};

	check_judged(rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_special_v6(void)
{
	static const struct judged rows[] = {
		{ "::", "unspecified" },
		{ "::1", "loopback" },
		{ "::1:0:0:0", "reserved" },
		{ "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "64:ff9b:0:0:0:1::", "reserved" },
		{ "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "64:ff9b:1::", "embedded" },
		{ "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "embedded" },
		{ "64:ff9b:2::", "reserved" },
		{ "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "100::", "discard" },
		{ "100::ffff:ffff:ffff:ffff", "discard" },
		{ "100:0:0:1::", "reserved" },
		{ "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "2000::", NULL },
		{ "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "2001:1::", "reserved" },
		{ "2001:1::1", "reserved" },
		{ "2001:1:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "2001:2::", "benchmarking" },
		{ "2001:2:0:ffff:ffff:ffff:ffff:ffff", "benchmarking" },
		{ "2001:2:1::", "reserved" },
		{ "2001:3::", NULL },
		{ "2001:3:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "2001:4::", "reserved" },
		{ "2001:4:111:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "2001:4:112::", NULL },
		{ "2001:4:112:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "2001:4:113::", "reserved" },
		{ "2001:10::", "reserved" },
		{ "2001:20::", "reserved" },
		{ "2001:30::", "reserved" },
		{ "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "2001:200::", NULL },
		{ "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "2001:db8::", "documentation" },
		{ "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation" },
		{ "2001:db9::", NULL },
		{ "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "2003::", NULL },
		{ "2606:4700:4700::1111", NULL },
		{ "2620:4f:8000::1", NULL },
		{ "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "3fff::", "documentation" },
		{ "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation" },
		{ "3fff:1000::", NULL },
		{ "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "4000::", "reserved" },
		{ "5f00::", "reserved" },
		{ "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "fc00::", "unique-local" },
		{ "fd00:ec2::253", "unique-local" },
		{ "fd00:ec2::254", "metadata" },
		{ "fd00:ec2::255", "unique-local" },
		{ "fd00:ec2::23", "metadata" },
		{ "fd20:ce::254", "metadata" },
		{ "fd00:c1::a9fe:a9fe", "metadata" },
		{ "fd00:42::42", "metadata" },
		{ "fd63:6f72:646f:6e00::10", "unique-local" },
		{ "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "unique-local" },
		{ "fe00::", "reserved" },
		{ "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "reserved" },
		{ "fe80::", "link-local" },
		{ "fe80::a9fe:a9fe", "metadata" },
		{ "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local" },
		{ "fec0::", "site-local" },
		{ "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site-local" },
		{ "ff00::", "multicast" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast" },
	};

	check_judged(rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_embedded(void)
{
	static const struct judged rows[] = {
		{ "::ffff:127.0.0.1", "loopback" },
		{ "::ffff:8.8.8.8", NULL },
		{ "::0.0.0.2", "reserved" },
		{ "::127.0.0.1", "loopback" },
		{ "::169.254.169.254", "metadata" },
		{ "::8.8.8.8", "embedded" },
		{ "::255.255.255.255", "broadcast" },
		{ "::ffff:0:127.0.0.1", "reserved" },
		{ "64:ff9b::127.0.0.1", "loopback" },
		{ "64:ff9b::10.0.0.1", "private" },
		{ "64:ff9b::169.254.169.254", "metadata" },
		{ "64:ff9b::8.8.8.8", NULL },
		{ "64:ff9b::0.0.0.0", "unspecified" },
		{ "64:ff9b:1::8.8.8.8", "embedded" },
		{ "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL },
		{ "2002::", "unspecified" },
		{ "2002:7f00:1::", "loopback" },
		{ "2002:a00:1::1", "private" },
		{ "2002:a9fe:a9fe::1", "metadata" },
		{ "2002:808:808::1", "embedded" },
		{ "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "broadcast" },
		{ "2001::", "broadcast" },
		{ "2001:0:4136:e378:8000:63bf:3fff:fdd2", "documentation" },
		{ "2001::80ff:fffe", "loopback" },
		{ "2001::f7f7:f7f7", "embedded" },
		{ "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "unspecified" },
		{ "2606:4700::5efe:127.0.0.1", "loopback" },
		{ "2606:4700::200:5efe:10.0.0.1", "private" },
		{ "2606:4700::5efe:8.8.8.8", "embedded" },
		{ "2606:4700::5eff:8.8.8.8", NULL },
		{ "fe80::5efe:8.8.8.8", "link-local" },
	};
	struct net_addr v4 = read_addr("169.254.169.254"), addr, inside;
	uint8_t mapped[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

	check_judged(rows, sizeof(rows) / sizeof(rows[0]));
	addr = read_addr("2002:a9fe:a9fe::1");
	CHECK(net_addr_embedded(&addr, &inside) && net_addr_equal(&inside, &v4));
	addr = read_addr("2606:4700::5efe:169.254.169.254");
	CHECK(net_addr_embedded(&addr, &inside) && net_addr_equal(&inside, &v4));
	addr = read_addr("2606:4700::1");
	CHECK(!net_addr_embedded(&addr, &inside));
	addr = read_addr("::1");
	CHECK(!net_addr_embedded(&addr, &inside));
	CHECK(!net_addr_embedded(&v4, &inside));

	/* A mapped address that was not unmapped. */
	addr.is_v6 = 1;
	memcpy(addr.bytes, mapped, sizeof(mapped));
	CHECK_STR(net_addr_special(&addr), "loopback");
	CHECK(net_addr_is_loopback(&addr));
	net_addr_from_v6(mapped, &addr);
	CHECK(!addr.is_v6);
}

static void test_loopback(void)
{
	static const char *const yes[] = { "127.0.0.0", "127.0.0.1", "127.255.255.255", "::1" };
	static const char *const no[] = { "126.255.255.255", "128.0.0.0", "::", "::2",
					  "0.0.0.0",	     "7f00::" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		struct net_addr addr = read_addr(yes[i]);

		CHECK_MSG(net_addr_is_loopback(&addr), "%s", yes[i]);
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		struct net_addr addr = read_addr(no[i]);

		CHECK_MSG(!net_addr_is_loopback(&addr), "%s", no[i]);
	}
}

TAP_MAIN(test_text, test_networks, test_special_v4, test_special_v6, test_embedded, test_loopback)

/* SPDX-License-Identifier: Apache-2.0 */
/* Rules: what is read, what is refused and with which words, and what they decide. */
#include "net/rule.h"
#include "tap.h"

static void test_accepted(void)
{
	static const struct {
		const char *text, *allow, *deny; /* as they are written best */
		int type;
	} rows[] = {
		{ "example.com", "example.com:80,443", "example.com", NET_RULE_NAME },
		{ "Example.COM.", "example.com:80,443", "example.com", NET_RULE_NAME },
		{ "example.com:443", "example.com:443", "example.com:443", NET_RULE_NAME },
		{ "example.com.:22", "example.com:22", "example.com:22", NET_RULE_NAME },
		{ "example.com:443,80,443,22", "example.com:22,80,443", "example.com:22,80,443",
		  NET_RULE_NAME },
		{ "h:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,65535",
		  "h:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,65535",
		  "h:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,65535", NET_RULE_NAME },
		{ "*.example.com", "*.example.com:80,443", "*.example.com", NET_RULE_BELOW },
		{ "*.EXAMPLE.com.:8443", "*.example.com:8443", "*.example.com:8443",
		  NET_RULE_BELOW },
		{ "*.com", "*.com:80,443", "*.com", NET_RULE_BELOW },
		{ "localhost", "localhost:80,443", "localhost", NET_RULE_LOCALHOST },
		{ "LocalHost.:5432", "localhost:5432", "localhost:5432", NET_RULE_LOCALHOST },
		{ "foo.localhost", "foo.localhost:80,443", "foo.localhost", NET_RULE_NAME },
		{ "127.0.0.1.nip.io", "127.0.0.1.nip.io:80,443", "127.0.0.1.nip.io",
		  NET_RULE_NAME },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example:80,443", "xn--bcher-kva.example",
		  NET_RULE_NAME },
		{ "192.0.2.1", "192.0.2.1:80,443", "192.0.2.1", NET_RULE_NETWORK },
		{ "192.0.2.1:22", "192.0.2.1:22", "192.0.2.1:22", NET_RULE_NETWORK },
		{ "192.0.2.1/32", "192.0.2.1:80,443", "192.0.2.1", NET_RULE_NETWORK },
		{ "10.0.0.0/8:443", "10.0.0.0/8:443", "10.0.0.0/8:443", NET_RULE_NETWORK },
		{ "0.0.0.0/0", "0.0.0.0/0:80,443", "0.0.0.0/0", NET_RULE_NETWORK },
		{ "::/0", "[::/0]:80,443", "::/0", NET_RULE_NETWORK },
		{ "2001:db8::1", "[2001:db8::1]:80,443", "2001:db8::1", NET_RULE_NETWORK },
		{ "[2001:DB8::1]", "[2001:db8::1]:80,443", "2001:db8::1", NET_RULE_NETWORK },
		{ "[2001:db8::1]:443", "[2001:db8::1]:443", "[2001:db8::1]:443", NET_RULE_NETWORK },
		{ "2001:db8::/32", "[2001:db8::/32]:80,443", "2001:db8::/32", NET_RULE_NETWORK },
		{ "[2001:db8::/32]:22", "[2001:db8::/32]:22", "[2001:db8::/32]:22",
		  NET_RULE_NETWORK },
		{ "::ffff:192.0.2.1", "192.0.2.1:80,443", "192.0.2.1", NET_RULE_NETWORK },
		{ "127.0.0.1", "127.0.0.1:80,443", "127.0.0.1", NET_RULE_NETWORK },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int deny = 0; deny <= 1; deny++) {
			char text[NET_RULE_TEXT_MAX], again[NET_RULE_TEXT_MAX];
			const char *why = NULL, *hint = NULL;
			struct net_rule rule;

			CHECK_MSG(net_rule_parse(rows[i].text, deny, &rule, &why, &hint) == 0,
				  "'%s' %s", rows[i].text, why ? why : "?");
			CHECK_INT(rule.type, rows[i].type);
			CHECK_STR(net_rule_format(&rule, text),
				  deny ? rows[i].deny : rows[i].allow);
			CHECK_INT(net_rule_parse(text, deny, &rule, &why, &hint), 0);
			CHECK_STR(net_rule_format(&rule, again), text);
		}
	}
}

#define HOST_ONLY "give the host only: example.com or example.com:443"
#define PORTS "ports are numbers from 1 to 65535, separated by commas"
#define STAR                                                                                       \
	"*.example.com means every name below example.com; nothing else can stand for several "    \
	"names"
#define BRACKETS "an IPv6 address with ports is written in brackets: [2001:db8::1]:443"
#define QUAD "an IPv4 address is four decimal numbers without leading zeros: 192.0.2.1"

static void test_refused(void)
{
	static const struct {
		const char *text, *why, *hint;
	} rows[] = {
		{ "", "is empty", "write HOST or HOST:PORT" },
		{ ":443", "names no host", "write HOST or HOST:PORT" },
		{ "https://example.com/", "is a URL", HOST_ONLY },
		{ "http://[::1]:80/", "is a URL", HOST_ONLY },
		{ "example.com/path", "has a path",
		  "give the host only: example.com or 192.0.2.0/24" },
		{ "user@example.com", "has a user name in it", HOST_ONLY },
		{ "example.com?x", "is not a host name or address", HOST_ONLY },
		{ "example com", "has a space or control character in it", NULL },
		{ "example.com\n", "has a space or control character in it", NULL },
		{ "b\xc3\xbc"
		  "cher.example",
		  "has characters that are not ASCII",
		  "write the name in its ASCII form, which begins with xn--" },
		{ "*", "has a * where it is not allowed", STAR },
		{ "*:443", "has a * where it is not allowed", STAR },
		{ "*.*.example.com", "has a * where it is not allowed", STAR },
		{ "a.*.example.com", "has a * where it is not allowed", STAR },
		{ "*example.com", "has a * where it is not allowed", STAR },
		{ "*.", "has a * where it is not allowed", STAR },
		{ "*.1.2.3.4", "has a * where it is not allowed", STAR },
		{ "127.1", "is neither a host name nor a plain IPv4 address", QUAD },
		{ "0x7f.1", "is neither a host name nor a plain IPv4 address", QUAD },
		{ "2130706433", "is neither a host name nor a plain IPv4 address", QUAD },
		{ "010.0.0.1", "is neither a host name nor a plain IPv4 address", QUAD },
		{ "127.0.0.1.", "is neither a host name nor a plain IPv4 address", QUAD },
		{ "0.0.0.0", "is the unspecified address, which no host has",
		  "use localhost for the host's loopback" },
		{ "0.0.0.0/32", "is the unspecified address, which no host has",
		  "use localhost for the host's loopback" },
		{ "::", "is the unspecified address, which no host has",
		  "use localhost for the host's loopback" },
		{ "[::]:80", "is the unspecified address, which no host has",
		  "use localhost for the host's loopback" },
		{ "10.0.0.1/8", "has bits set beyond its prefix", "the network is 10.0.0.0/8" },
		{ "192.0.2.129/25:443", "has bits set beyond its prefix",
		  "the network is 192.0.2.128/25" },
		{ "1.2.3.4/0", "has bits set beyond its prefix", "the network is 0.0.0.0/0" },
		{ "2001:db8::1/32", "has bits set beyond its prefix",
		  "the network is 2001:db8::/32" },
		{ "[2001:db8:8001::/33]:22", "has bits set beyond its prefix",
		  "the network is 2001:db8:8000::/33" },
		{ "10.0.0.0/33", "has an invalid prefix length", "it is a number from 0 to 32" },
		{ "10.0.0.0/", "has an invalid prefix length", "it is a number from 0 to 32" },
		{ "10.0.0.0/08", "has an invalid prefix length", "it is a number from 0 to 32" },
		{ "::/129", "has an invalid prefix length", "it is a number from 0 to 128" },
		{ "fd00::/8:22", "has ports behind an IPv6 network",
		  "they need brackets: [2001:db8::/32]:443" },
		{ "::ffff:10.0.0.0/104", "is an IPv4 network in IPv6 form",
		  "write it as an IPv4 network, such as 10.0.0.0/8" },
		{ "[2001:db8::]/32", "has something other than a port after the brackets",
		  "write [2001:db8::1]:443 or [2001:db8::/32]:443" },
		{ "[::1]443", "has something other than a port after the brackets",
		  "write [2001:db8::1]:443 or [2001:db8::/32]:443" },
		{ "[example.com]:443", "has brackets where they are not allowed",
		  "only an IPv6 address is written in brackets: [2001:db8::1]:443" },
		{ "[::1", "has brackets where they are not allowed",
		  "only an IPv6 address is written in brackets: [2001:db8::1]:443" },
		{ "[fe80::1%eth0]:80", "has a % in it", "addresses with a zone are not supported" },
		{ "example.com:80:443", "is not a host name or address", BRACKETS },
		{ "2001:db8::1::443", "is not a host name or address", BRACKETS },
		{ "example.com,example.org", "names several hosts",
		  "give each of them a rule of its own" },
		{ "example.com,*.example.org:443", "names several hosts",
		  "give each of them a rule of its own" },
		{ "example..com", "is not a host name or address", NULL },
		{ "-x.example", "is not a host name or address", NULL },
		{ "example.com:", "has an empty port", PORTS },
		{ "example.com:80,", "has an empty port", PORTS },
		{ "example.com:,80", "has an empty port", PORTS },
		{ "example.com:80,,443", "has an empty port", PORTS },
		{ "example.com:0", "has an invalid port", PORTS },
		{ "example.com:65536", "has an invalid port", PORTS },
		{ "example.com:4294967376", "has an invalid port", PORTS },
		{ "example.com:080", "has an invalid port", PORTS },
		{ "example.com:+80", "has an invalid port", PORTS },
		{ "example.com:https", "has an invalid port", PORTS },
		{ "example.com:80-90", "has a range of ports, which is not supported", PORTS },
		{ "example.com:*", "has a range of ports, which is not supported", PORTS },
		{ "h:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "has more than 16 ports",
		  "use several rules" },
	};
	const char *why, *hint;
	struct net_rule rule;
	char big[NET_RULE_TEXT_MAX + 1];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int deny = 0; deny <= 1; deny++) {
			CHECK_MSG(net_rule_parse(rows[i].text, deny, &rule, &why, &hint) == -1,
				  "'%s' is taken", rows[i].text);
			CHECK_MSG(why && !strcmp(why, rows[i].why), "'%s': '%s'", rows[i].text,
				  why ? why : "");
			CHECK_STR(hint, rows[i].hint);
		}
	}
	CHECK_INT(net_rule_parse("example.com:53", false, &rule, &why, &hint), -1);
	CHECK_STR(why, "names port 53, which cannot be allowed");
	CHECK_STR(hint, "Cordon answers DNS itself, for the names that are allowed");
	CHECK_INT(net_rule_parse("example.com:53", true, &rule, &why, &hint), 0);
	memset(big, '1', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	CHECK_INT(net_rule_parse(big, false, &rule, &why, &hint), -1);
	CHECK_STR(why, "is too long");
}

static struct net_rule allow[8], deny[8];

/* Rules from texts separated by blanks. */
static size_t read_rules(const char *texts, bool is_deny, struct net_rule *ret)
{
	char copy[512], *rest = copy, *text;
	const char *why, *hint;
	size_t n = 0;

	snprintf(copy, sizeof(copy), "%s", texts);
	while ((text = strsep(&rest, " "))) {
		if (*text)
			CHECK_MSG(net_rule_parse(text, is_deny, &ret[n++], &why, &hint) == 0,
				  "'%s' %s", text, why);
	}
	return n;
}

static struct net_rules make_rules(const char *allowed, const char *denied)
{
	struct net_rules rules = { .allow = allow, .deny = deny };

	rules.n_allow = read_rules(allowed, false, allow);
	rules.n_deny = read_rules(denied, true, deny);
	return rules;
}

static void test_judge_name(void)
{
	static const struct {
		const char *allow, *deny, *name;
		uint16_t port;
		int verdict;
	} rows[] = {
		{ "", "", "example.com", 443, NET_NOT_LISTED },
		{ "", "", "example.com", 0, NET_NOT_LISTED },
		{ "", "", "localhost", 443, NET_NOT_LISTED },
		{ "example.com", "", "example.com", 443, NET_ALLOWED },
		{ "example.com", "", "example.com", 80, NET_ALLOWED },
		{ "example.com", "", "example.com", 0, NET_ALLOWED },
		{ "example.com", "", "example.com", 22, NET_OTHER_PORT },
		{ "example.com example.com:22", "", "example.com", 22, NET_ALLOWED },
		{ "example.com", "", "a.example.com", 443, NET_NOT_LISTED },
		{ "example.com", "", "notexample.com", 443, NET_NOT_LISTED },
		{ "example.com", "", "example.com.evil.net", 443, NET_NOT_LISTED },
		{ "*.example.com", "", "example.com", 443, NET_NOT_LISTED },
		{ "*.example.com", "", "a.example.com", 443, NET_ALLOWED },
		{ "*.example.com", "", "a.b.example.com", 443, NET_ALLOWED },
		{ "*.example.com", "", "notexample.com", 443, NET_NOT_LISTED },
		{ "*.example.com", "", "a.example.com", 8443, NET_OTHER_PORT },
		{ "*.example.com", "a.example.com", "a.example.com", 443, NET_DENIED },
		{ "*.example.com", "a.example.com", "a.example.com", 0, NET_DENIED },
		{ "*.example.com", "a.example.com", "b.a.example.com", 443, NET_ALLOWED },
		{ "*.example.com", "*.a.example.com", "b.a.example.com", 443, NET_DENIED },
		{ "*.example.com", "*.a.example.com", "a.example.com", 443, NET_ALLOWED },
		{ "a.example.com", "*.example.com", "a.example.com", 443, NET_DENIED },
		{ "example.com", "example.com:80", "example.com", 80, NET_DENIED },
		{ "example.com", "example.com:80", "example.com", 443, NET_ALLOWED },
		{ "example.com", "example.com:80", "example.com", 0, NET_ALLOWED },
		{ "example.com", "example.com:80,443", "example.com", 0, NET_DENIED },
		{ "example.com example.com:22", "example.com:80,443", "example.com", 0,
		  NET_ALLOWED },
		{ "example.com:22", "example.com:22", "example.com", 0, NET_DENIED },
		{ "", "example.com", "example.com", 443, NET_DENIED },
		{ "example.com", "example.com", "example.com", 443, NET_DENIED },
		{ "localhost", "", "localhost", 443, NET_ALLOWED },
		{ "localhost:5432", "", "localhost", 443, NET_OTHER_PORT },
		{ "localhost", "", "foo.localhost", 443, NET_NOT_LISTED },
		{ "*.localhost", "", "localhost", 443, NET_NOT_LISTED },
		{ "127.0.0.1", "", "localhost", 443, NET_NOT_LISTED },
		{ "localhost", "localhost", "localhost", 443, NET_DENIED },
		{ "0.0.0.0/0 ::/0", "", "example.com", 443, NET_NOT_LISTED },
		{ "*.com", "", "com", 443, NET_NOT_LISTED },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_rules rules = make_rules(rows[i].allow, rows[i].deny);
		int verdict = net_judge_name(&rules, rows[i].name, rows[i].port);

		CHECK_MSG(verdict == rows[i].verdict, "[%s] [%s] %s:%u is %d, expected %d",
			  rows[i].allow, rows[i].deny, rows[i].name, rows[i].port, verdict,
			  rows[i].verdict);
	}
}

/* One address both ways: asked for as such, and as what a name has. */
static void test_judge_address(void)
{
	static const struct {
		const char *allow, *deny, *addr;
		uint16_t port;
		int verdict, resolved;
	} rows[] = {
		{ "", "", "8.8.8.8", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "", "", "2606:4700::1", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "", "", "127.0.0.1", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "", "", "::1", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "", "", "169.254.169.254", 80, NET_NOT_LISTED, NET_SPECIAL },
		{ "", "", "198.18.0.20", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "", "", "64:ff9b::808:808", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "", "", "64:ff9b::a00:1", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "8.8.8.8", "", "8.8.8.8", 443, NET_ALLOWED, NET_ALLOWED },
		{ "8.8.8.8", "", "8.8.8.8", 22, NET_OTHER_PORT, NET_ALLOWED },
		{ "8.8.8.8", "", "8.8.8.9", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "10.0.0.0/8", "", "10.1.2.3", 443, NET_ALLOWED, NET_ALLOWED },
		{ "10.0.0.0/8", "", "10.1.2.3", 22, NET_OTHER_PORT, NET_SPECIAL },
		{ "10.0.0.0/8", "", "11.1.2.3", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "10.1.0.0/16", "", "10.2.0.1", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "10.0.0.0/8", "10.9.0.0/16", "10.9.2.3", 443, NET_DENIED, NET_DENIED },
		{ "10.0.0.0/8", "10.9.0.0/16:22", "10.9.2.3", 443, NET_ALLOWED, NET_ALLOWED },
		{ "10.0.0.0/8:22", "10.9.0.0/16:22", "10.9.2.3", 22, NET_DENIED, NET_DENIED },
		{ "", "8.0.0.0/8", "8.8.8.8", 443, NET_DENIED, NET_DENIED },
		{ "", "8.0.0.0/8", "64:ff9b::808:808", 443, NET_DENIED, NET_DENIED },
		{ "", "8.8.8.8:22", "64:ff9b::808:808", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "", "::/0", "2606:4700::1", 443, NET_DENIED, NET_DENIED },
		{ "", "::/0", "8.8.8.8", 443, NET_NOT_LISTED, NET_ALLOWED },
		{ "0.0.0.0/0", "", "8.8.8.8", 443, NET_ALLOWED, NET_ALLOWED },
		{ "0.0.0.0/0", "", "127.0.0.1", 443, NET_SPECIAL, NET_SPECIAL },
		{ "0.0.0.0/0", "", "10.0.0.1", 443, NET_SPECIAL, NET_SPECIAL },
		{ "0.0.0.0/0", "", "169.254.169.254", 80, NET_SPECIAL, NET_SPECIAL },
		{ "169.254.0.0/16", "", "169.254.1.1", 80, NET_ALLOWED, NET_ALLOWED },
		{ "169.254.0.0/16", "", "169.254.169.254", 80, NET_SPECIAL, NET_SPECIAL },
		{ "169.254.169.254", "", "169.254.169.254", 80, NET_ALLOWED, NET_ALLOWED },
		{ "0.0.0.0/8", "", "0.0.0.0", 80, NET_SPECIAL, NET_SPECIAL },
		{ "::/0", "", "::1", 443, NET_SPECIAL, NET_SPECIAL },
		{ "::/0", "", "2606:4700::1", 443, NET_ALLOWED, NET_ALLOWED },
		{ "::/0", "", "fd00::1", 443, NET_SPECIAL, NET_SPECIAL },
		{ "fd00::/8", "", "fd00::1", 443, NET_ALLOWED, NET_ALLOWED },
		{ "::/0 [fd00::/8]:22", "", "fd00::1", 443, NET_OTHER_PORT, NET_SPECIAL },
		{ "64:ff9b::/96", "", "64:ff9b::a00:1", 443, NET_SPECIAL, NET_SPECIAL },
		{ "64:ff9b::a00:0/104", "", "64:ff9b::a00:1", 443, NET_ALLOWED, NET_ALLOWED },
		{ "64:ff9b::/96", "", "64:ff9b::808:808", 443, NET_ALLOWED, NET_ALLOWED },
		{ "2002::/16", "", "2002:a00:1::1", 443, NET_SPECIAL, NET_SPECIAL },
		{ "2002::/16", "", "2002:808:808::1", 443, NET_ALLOWED, NET_ALLOWED },
		{ "127.0.0.1:5432", "", "127.0.0.1", 5432, NET_ALLOWED, NET_ALLOWED },
		{ "127.0.0.1:5432", "", "127.0.0.2", 5432, NET_NOT_LISTED, NET_SPECIAL },
		{ "127.0.0.0/8", "", "127.0.0.2", 80, NET_ALLOWED, NET_ALLOWED },
		{ "localhost", "", "127.0.0.1", 443, NET_ALLOWED, NET_SPECIAL },
		{ "localhost", "", "::1", 443, NET_ALLOWED, NET_SPECIAL },
		{ "localhost", "", "127.0.0.2", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "localhost", "", "::ffff:127.0.0.1", 443, NET_ALLOWED, NET_SPECIAL },
		{ "localhost", "", "::127.0.0.1", 443, NET_NOT_LISTED, NET_SPECIAL },
		{ "localhost:22", "", "127.0.0.1", 443, NET_OTHER_PORT, NET_SPECIAL },
		{ "127.0.0.0/8", "localhost", "127.0.0.1", 443, NET_DENIED, NET_DENIED },
		{ "127.0.0.0/8", "localhost", "127.0.0.2", 443, NET_ALLOWED, NET_ALLOWED },
		{ "localhost", "127.0.0.0/8", "127.0.0.1", 443, NET_DENIED, NET_DENIED },
		{ "example.com *.example.com", "", "8.8.8.8", 443, NET_NOT_LISTED, NET_ALLOWED },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_rules rules = make_rules(rows[i].allow, rows[i].deny);
		struct net_addr addr;
		int verdict, resolved;

		CHECK_INT(net_addr_parse(rows[i].addr, strlen(rows[i].addr), &addr), 0);
		verdict = net_judge_address(&rules, &addr, rows[i].port);
		resolved = net_judge_resolved(&rules, &addr, rows[i].port);
		CHECK_MSG(verdict == rows[i].verdict && resolved == rows[i].resolved,
			  "[%s] [%s] %s:%u is %d and %d, expected %d and %d", rows[i].allow,
			  rows[i].deny, rows[i].addr, rows[i].port, verdict, resolved,
			  rows[i].verdict, rows[i].resolved);
	}
}

/* An IPv6 socket may show an IPv4 peer as a mapped address; the rules are the same. */
static void test_mapped(void)
{
	struct net_rules rules = make_rules("10.0.0.0/8", "10.9.0.0/16");
	struct net_addr addr = { .is_v6 = 1, .bytes = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };

	CHECK_INT(net_judge_address(&rules, &addr, 443), NET_ALLOWED);
	CHECK_INT(net_judge_resolved(&rules, &addr, 443), NET_ALLOWED);
	addr.bytes[13] = 9;
	CHECK_INT(net_judge_address(&rules, &addr, 443), NET_DENIED);
	CHECK_INT(net_judge_resolved(&rules, &addr, 443), NET_DENIED);
}

TAP_MAIN(test_accepted, test_refused, test_judge_name, test_judge_address, test_mapped)

/* SPDX-License-Identifier: Apache-2.0 */
/* Host names: what is one, what is none, and what lies below what. */
#include "net/name.h"
#include "net/addr.h"
#include "net/rule.h"
#include "tap.h"

/* Text that may have NUL bytes in it. */
struct text {
	const char *bytes;
	size_t len;
};

#define T(literal) { literal, sizeof(literal) - 1 }
#define LABEL_63 "a23456789-123456789-123456789-123456789-123456789-123456789-123"
#define LABELS_4 LABEL_63 "." LABEL_63 "." LABEL_63 "."

static void test_names(void)
{
	static const struct {
		struct text text;
		const char *name;
	} rows[] = {
		{ T("example.com"), "example.com" },
		{ T("EXAMPLE.Com"), "example.com" },
		{ T("example.com."), "example.com" },
		{ T("localhost"), "localhost" },
		{ T("LOCALHOST."), "localhost" },
		{ T("a"), "a" },
		{ T("xn--bcher-kva.example"), "xn--bcher-kva.example" },
		{ T("_dmarc.example.com"), "_dmarc.example.com" },
		{ T("a_b.example"), "a_b.example" },
		{ T("1.2.3.4.example"), "1.2.3.4.example" },
		{ T("127.0.0.1.nip.io"), "127.0.0.1.nip.io" },
		{ T("7f000001.nip.io"), "7f000001.nip.io" },
		{ T("10-0-0-1.sslip.io"), "10-0-0-1.sslip.io" },
		{ T("3com.com"), "3com.com" },
		{ T("example.1a"), "example.1a" },
		{ T("0xg"), "0xg" },
		{ T("x0"), "x0" },
		{ T("a--b.c"), "a--b.c" },
		{ T(LABEL_63), LABEL_63 },
		{ T(LABELS_4 LABEL_63 "."), NULL }, /* 255 */
		{ T(LABELS_4 "a3456789-123456789-123456789-123456789-123456789-123456789-12"),
		  LABELS_4 "a3456789-123456789-123456789-123456789-123456789-123456789-12" },
		{ T(LABELS_4 "a3456789-123456789-123456789-123456789-123456789-123456789-12."),
		  LABELS_4 "a3456789-123456789-123456789-123456789-123456789-123456789-12" },
		{ T(LABELS_4 "a23456789-123456789-123456789-123456789-123456789-123456789-12"),
		  NULL }, /* 254 */
		{ T("x" LABEL_63), NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char name[NET_NAME_MAX + 1];
		int r = net_name_parse(rows[i].text.bytes, rows[i].text.len, name);

		CHECK_MSG(r == (rows[i].name ? 0 : -1), "'%s' gave %d", rows[i].text.bytes, r);
		CHECK_STR(name, rows[i].name ? rows[i].name : "");
	}
}

/* Spellings that made some filter and some dialler disagree. None is a name, address or rule. */
static const struct text hostile[] = {
	T(""),
	T("."),
	T(".."),
	T(".example.com"),
	T("example..com"),
	T("example.com.."),
	T("evil.com\0.example.com"),
	T("example.com\0"),
	T("example.com\0.evil.com"),
	T("\0example.com"),
	T("example.com\n"),
	T("example.com\r\nHost: evil.com"),
	T("example.com "),
	T(" example.com"),
	T("example .com"),
	T("example\t.com"),
	T("example.com\x7f"),
	T("example.com%00.evil.com"),
	T("example.com%2eevil.com"),
	T("%65xample.com"),
	T("example%2Ecom"),
	T("127.0.0.1%00.example.com"),
	T("[example.com]"),
	T("[example.com"),
	T("example.com]"),
	T("[127.0.0.1]"),
	T("[[::1]]"),
	T("[]"),
	T("user@example.com"),
	T("user:password@example.com"),
	T("example.com@evil.com"),
	T("evil.com#example.com"),
	T("evil.com#@example.com"),
	T("evil.com?example.com"),
	T("evil.com/example.com"),
	T("evil.com\\example.com"),
	T("example.com/"),
	T("//example.com"),
	T("http://example.com"),
	T("https://example.com/"),
	T("example.com:80:90"),
	T("example.com:"),
	T("example.com:+80"),
	T("example.com: 80"),
	T("example.com:0x50"),
	T("example.com:080"),
	T("example.com:65536"),
	T("example.com:99999999999999999999"),
	T("example.com:http"),
	T("example.com:80a"),
	T("example.com:-1"),
	T("example.com:0"),
	T("example\xe3\x80\x82"
	  "com"), /* ideographic full stop */
	T("example\xef\xbc\x8e"
	  "com"), /* full-width full stop */
	T("example\xef\xbd\xa1"
	  "com"),		     /* half-width ideographic full stop */
	T("\xef\xbd\x85xample.com"), /* full-width e */
	T("ex\xd0\xb0mple.com"),     /* Cyrillic a */
	T("b\xc3\xbc"
	  "cher.example"),
	T("example.com\xc2\xad"),     /* soft hyphen */
	T("example\xe2\x80\x8b.com"), /* zero width space */
	T("\xff.example.com"),
	T("example.com\x80"),
	T("\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1"), /* circled digits */
	T("-example.com"),
	T("example-.com"),
	T("example.-com"),
	T("example.com-"),
	T("*"),
	T("**"),
	T("*."),
	T("*.*.example.com"),
	T("a.*.example.com"),
	T("*a.example.com"),
	T("a*.example.com"),
	T("example.*"),
	T("*example.com"),
	T("exam,ple.com"),
	T("example.com,evil.com"),
	T("example.com;evil.com"),
	T("example.com&evil.com"),
	T("$(id).example.com"),
	T("`id`.example.com"),
	T("'example.com'"),
	T("\"example.com\""),
	T("<example.com>"),
	T("{example,evil}.com"),
	T("example.com|evil.com"),
	T("~example.com"),
	T("^example.com$"),
	T("example!.com"),
	T("127.1"),
	T("127.0.1"),
	T("0"),
	T("1"),
	T("2130706433"),
	T("0x7f000001"),
	T("0X7F000001"),
	T("0x7f.1"),
	T("0x7f.0.0.1"),
	T("0x"),
	T("017700000001"),
	T("0177.0.0.1"),
	T("010.0.0.1"),
	T("127.0.0.01"),
	T("127.0.0.0x1"),
	T("127.0.0.1."),
	T("127.0.0.1.."),
	T("127.0.0.256"),
	T("127.0.0.1.1"),
	T("1.2.3"),
	T("1.2.3.4.5"),
	T("00.0.0.0"),
	T("4294967296"),
	T("example.com.1"),
	T("example.0x1f"),
	T("169.254.43518"),
	T("0xa9fea9fe"),
	T("2852039166"),
	T(":::"),
	T(":1"),
	T("::1::"),
	T("1:2:3:4:5:6:7:8:9"),
	T("1:2:3:4:5:6:7"),
	T("12345::1"),
	T("::g"),
	T("::1%lo"),
	T("fe80::1%eth0"),
	T("::127.1"),
	T("::ffff:127.1"),
	T("::ffff:0x7f.0.0.1"),
	T("::1.2.3.4:5"),
	T("1.2.3.4::"),
	T("::1/129"),
	T("1.2.3.4/33"),
	T("1.2.3.4/"),
	T("1.2.3.4/08"),
	T("1.2.3.4/-1"),
	T("1.2.3.4/255.255.255.0"),
};

static void test_hostile(void)
{
	CHECK(sizeof(hostile) / sizeof(hostile[0]) >= 60);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		const struct text *t = &hostile[i];
		char name[NET_NAME_MAX + 1];
		struct net_addr addr;
		struct net_rule rule;
		const char *why, *hint;

		CHECK_MSG(net_name_parse(t->bytes, t->len, name) == -1, "name %zu: '%s'", i,
			  t->bytes);
		CHECK_STR(name, "");
		CHECK_MSG(net_addr_parse(t->bytes, t->len, &addr) == -1, "address %zu: '%s'", i,
			  t->bytes);
		/* Rules are strings, so what follows a NUL is not part of one. */
		if (strlen(t->bytes) != t->len)
			continue;
		for (int deny = 0; deny <= 1; deny++) {
			why = hint = NULL;
			CHECK_MSG(net_rule_parse(t->bytes, deny, &rule, &why, &hint) == -1,
				  "rule %zu: '%s'", i, t->bytes);
			CHECK(why && why[0]);
		}
	}
}

static void test_equal(void)
{
	CHECK(net_name_equal("example.com", "example.com"));
	CHECK(!net_name_equal("example.com", "example.co"));
	CHECK(!net_name_equal("example.co", "example.com"));
	CHECK(!net_name_equal("", "a"));
}

static void test_below(void)
{
	CHECK(net_name_is_below("a.example.com", "example.com"));
	CHECK(net_name_is_below("a.b.example.com", "example.com"));
	CHECK(net_name_is_below("a.b.example.com", "com"));
	CHECK(!net_name_is_below("example.com", "example.com"));
	CHECK(!net_name_is_below("notexample.com", "example.com"));
	CHECK(!net_name_is_below("example.com.evil.net", "example.com"));
	CHECK(!net_name_is_below("com", "example.com"));
	CHECK(!net_name_is_below(".example.com", "example.com"));
	CHECK(!net_name_is_below("a.example.com", ""));
	CHECK(!net_name_is_below("a.example.org", "example.com"));
}

TAP_MAIN(test_names, test_hostile, test_equal, test_below)

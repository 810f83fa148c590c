/* SPDX-License-Identifier: Apache-2.0 */
/* DNS: the guest's questions and our answers to them, our questions and a server's answers. */
#include "net/dns.h"
#include "tap.h"
#include "test_net_lib.h"

#define NAME "\7example\3com"
#define WWW "\3www\7example\3com"

static void put_header(struct bytes *to, unsigned id, unsigned flags, unsigned qd, unsigned an,
		       unsigned ns, unsigned ar)
{
	to->len = 0;
	put_u16(to, id);
	put_u16(to, flags);
	put_u16(to, qd);
	put_u16(to, an);
	put_u16(to, ns);
	put_u16(to, ar);
}

/* @name has its NUL for the root. */
static void put_question(struct bytes *to, const char *name, unsigned type)
{
	put_bytes(to, name, strlen(name) + 1);
	put_u16(to, type);
	put_u16(to, 1);
}

/* @owner: bytes of a name, or an offset to point to. */
static void put_record(struct bytes *to, const char *owner, unsigned at, unsigned type,
		       uint32_t ttl, const void *data, size_t len)
{
	if (owner)
		put_bytes(to, owner, strlen(owner) + 1);
	else
		put_u16(to, 0xc000 | at);
	put_u16(to, type);
	put_u16(to, 1);
	put_u32(to, ttl);
	put_u16(to, (unsigned)len);
	put_bytes(to, data, len);
}

static void put_opt(struct bytes *to, uint32_t ttl)
{
	put_u8(to, 0);
	put_u16(to, DNS_OPT);
	put_u16(to, 4096);
	put_u32(to, ttl);
	put_u16(to, 0);
}

static int query(const struct bytes *msg, struct dns_query *ret)
{
	uint8_t *copy = exact_copy(msg->b, msg->len);
	int r = dns_read_query(copy, msg->len, ret);

	free(copy);
	return r;
}

static int response(const struct bytes *msg, enum dns_type type, struct dns_response *ret)
{
	uint8_t *copy = exact_copy(msg->b, msg->len);
	int r = dns_read_response(copy, msg->len, 7, "www.example.com", type, ret);

	free(copy);
	return r;
}

static void test_a_question_is_read(void)
{
	static struct bytes msg;
	struct dns_query q;

	put_header(&msg, 0x1234, 0x0120, 1, 0, 0, 1);
	put_question(&msg, "\3WwW\7exAmple\3com", DNS_AAAA);
	put_opt(&msg, 0x8000);
	REQUIRE(query(&msg, &q) == 0);
	CHECK_INT(q.id, 0x1234);
	CHECK_INT(q.type, DNS_AAAA);
	CHECK_INT(q.qclass, 1);
	CHECK(q.wants_recursion && q.has_edns && q.has_name);
	CHECK_STR(q.name, "www.example.com");
	CHECK_STR(q.shown, "www.example.com");
	CHECK_INT(q.question_len, 21);
	CHECK(!memcmp(q.question, "\3WwW\7exAmple\3com\0\0\x1c\0\1", 21));
	/* Every shorter message is an error, and nothing is read behind its end. */
	for (size_t len = 0; len < msg.len; len++) {
		struct bytes *cut = exact_copy(&msg, sizeof(msg));

		cut->len = len;
		CHECK_INT(query(cut, &q), len < 12 ? -1 : DNS_FORMERR);
		CHECK_INT(q.question_len, len < 33 ? 0 : 21);
		free(cut);
	}
}

static void test_odd_names_are_shown_but_are_none(void)
{
	static const struct {
		const char *wire, *shown;
	} rows[] = {
		{ "", "." },
		{ "\3a.b\3com", "a.b.com" }, /* a dot within a label */
		{ "\4a\nb\x7f\3com", "a?b?.com" },
		{ "\2\xc3\xbc\3com", "??.com" },
		{ "\1*\3com", "*.com" },
		{ "\1a\1"
		  "1",
		  "a.1" },
		{ "\2-a\3com", "-a.com" },
	};
	static struct bytes msg;
	struct dns_query q;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put_header(&msg, 1, 0x0100, 1, 0, 0, 0);
		put_question(&msg, rows[i].wire, DNS_A);
		CHECK_INT(query(&msg, &q), 0);
		CHECK(!q.has_name);
		CHECK_STR(q.name, "");
		CHECK_STR(q.shown, rows[i].shown);
	}
}

static void test_long_names(void)
{
	static struct bytes msg;
	struct dns_query q;
	uint8_t answer[DNS_ANSWER_MAX];
	struct net_addr addrs[DNS_ADDRS_MAX] = { { 0 } };

	/* 255 bytes on the wire: 63 + 63 + 63 + 61 and their lengths. Then one more. */
	for (unsigned more = 0; more < 2; more++) {
		put_header(&msg, 1, 0x0100, 1, 0, 0, 1);
		for (unsigned i = 0; i < 4; i++) {
			unsigned len = i == 3 ? 61 + more : 63;

			put_u8(&msg, len);
			for (unsigned j = 0; j < len; j++)
				put_u8(&msg, 'a' + i);
		}
		put_u8(&msg, 0);
		put_u32(&msg, DNS_A << 16 | 1);
		put_opt(&msg, 0);
		CHECK_INT(query(&msg, &q), more ? DNS_FORMERR : 0);
		if (more)
			continue;
		CHECK(q.has_name);
		CHECK_INT(strlen(q.name), NET_NAME_MAX);
		CHECK_INT(strlen(q.shown), sizeof(q.shown) - 1);
		CHECK_INT(q.question_len, sizeof(q.question));
		/* As many addresses as fit. */
		CHECK_INT(dns_write_answer(&q, DNS_NOERROR, addrs, 16, NULL, 1, answer),
			  12 + 259 + 14 * 16 + 11);
		CHECK_INT(answer[7], 14);
		CHECK_INT(answer[11], 1);
	}
}

static void test_questions_that_are_none(void)
{
	static const struct {
		const char *what;
		unsigned flags, qd, an, ns, ar;
		const char *rest;
		size_t rest_len;
		int want;
	} rows[] = {
#define REST(text) text, sizeof(text) - 1
		{ "good", 0x100, 1, 0, 0, 0, REST("\1a\0\0\1\0\1"), 0 },
		{ "an answer", 0x8100, 1, 0, 0, 0, REST("\1a\0\0\1\0\1"), -1 },
		{ "status", 0x1000, 1, 0, 0, 0, REST("\1a\0\0\1\0\1"), DNS_NOTIMP },
		{ "update", 0x2800, 1, 0, 0, 0, REST("\1a\0\0\1\0\1"), DNS_NOTIMP },
		{ "truncated", 0x300, 1, 0, 0, 0, REST("\1a\0\0\1\0\1"), DNS_FORMERR },
		{ "no question", 0x100, 0, 0, 0, 0, REST(""), DNS_FORMERR },
		{ "two", 0x100, 2, 0, 0, 0, REST("\1a\0\0\1\0\1\1b\0\0\1\0\1"), DNS_FORMERR },
		{ "an", 0x100, 1, 1, 0, 0, REST("\1a\0\0\1\0\1\0\0\1\0\1\0\0\0\0\0\0"),
		  DNS_FORMERR },
		{ "ns", 0x100, 1, 0, 1, 0, REST("\1a\0\0\1\0\1\0\0\1\0\1\0\0\0\0\0\0"),
		  DNS_FORMERR },
		{ "rest", 0x100, 1, 0, 0, 0, REST("\1a\0\0\1\0\1x"), DNS_FORMERR },
		{ "pointer", 0x100, 1, 0, 0, 0, REST("\xc0\x0c\0\1\0\1"), DNS_FORMERR },
		{ "pointer back", 0x100, 1, 0, 0, 0, REST("\1a\xc0\x0c\0\1\0\1"), DNS_FORMERR },
		{ "label type", 0x100, 1, 0, 0, 0, REST("\x41\1\0\0\1\0\1"), DNS_FORMERR },
		{ "long label", 0x100, 1, 0, 0, 0,
		  REST("\x3f"
		       "a\0\0\1\0\1"),
		  DNS_FORMERR },
		{ "no end", 0x100, 1, 0, 0, 0, REST("\1a"), DNS_FORMERR },
		{ "chaos", 0x100, 1, 0, 0, 0, REST("\1a\0\0\x10\0\3"), DNS_REFUSED },
		{ "any class", 0x100, 1, 0, 0, 0, REST("\1a\0\0\1\0\xff"), DNS_REFUSED },
		{ "missing opt", 0x100, 1, 0, 0, 1, REST("\1a\0\0\1\0\1"), DNS_FORMERR },
		{ "edns 1", 0x100, 1, 0, 0, 1, REST("\1a\0\0\1\0\1\0\0\x29\4\0\0\1\0\0\0\0"),
		  DNS_FORMERR },
		{ "opt with name", 0x100, 1, 0, 0, 1,
		  REST("\1a\0\0\1\0\1\1a\0\0\x29\4\0\0\0\0\0\0\0"), DNS_FORMERR },
		{ "two opts", 0x100, 1, 0, 0, 2,
		  REST("\1a\0\0\1\0\1\0\0\x29\4\0\0\0\0\0\0\0\0\0\x29\4\0\0\0\0\0\0\0"),
		  DNS_FORMERR },
	};
	static struct bytes msg;
	struct dns_query q;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t answer[DNS_ANSWER_MAX];
		int r;

		put_header(&msg, 0xabcd, rows[i].flags, rows[i].qd, rows[i].an, rows[i].ns,
			   rows[i].ar);
		put_bytes(&msg, rows[i].rest, rows[i].rest_len);
		r = query(&msg, &q);
		CHECK_MSG(r == rows[i].want, "%s: %d, expected %d", rows[i].what, r, rows[i].want);
		if (r < 0)
			continue;
		/* All of them can be answered. */
		CHECK_INT(q.id, 0xabcd);
		CHECK(dns_write_answer(&q, (enum dns_rcode)r, NULL, 0, NULL, 0, answer) >= 12);
		CHECK_INT(answer[0], 0xab);
		CHECK_INT(answer[3], 0x80 | r);
		CHECK_INT(answer[5], q.question_len > 0);
	}
	msg.len = DNS_MESSAGE_MAX + 1;
	CHECK_INT(query(&msg, &q), DNS_FORMERR);
}

static void test_reverse_questions(void)
{
	static const char nibbles[] =
		"\0011\0010\0010\0010\0010\0010\0010\0010\0010\0010\0010\0010\0010\0010\0010\0010"
		"\0010\0010\0010\0010\0010\0010\0010\0010\1b\1D\0010\0011\0010\0010\0012\003ip6\4ar"
		"pa";
	static const struct {
		const char *wire, *want;
	} rows[] = {
		{ "\0011\0012\0010\003192\7in-addr\4arpa", "192.0.2.1" },
		{ "\003255\0012\0010\003192\7IN-addr\4arpa", "192.0.2.255" },
		{ "\003256\0012\0010\003192\7in-addr\4arpa", NULL },
		{ "\002\0601\0012\0010\003192\7in-addr\4arpa", NULL }, /* 01 */
		{ "\0012\0010\003192\7in-addr\4arpa", NULL },
		{ "\0019\0011\0012\0010\003192\7in-addr\4arpa", NULL },
		{ "\1a\0012\0010\003192\7in-addr\4arpa", NULL },
		{ "\7in-addr\4arpa", NULL },
		{ nibbles, NULL },     /* 31 */
		{ nibbles + 2, NULL }, /* 30 */
	};
	static struct bytes msg;
	char text[NET_ADDR_TEXT_MAX], full[100] = "\0018";
	struct net_addr addr;
	struct dns_query q;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_reverse;

		put_header(&msg, 1, 0x0100, 1, 0, 0, 0);
		put_question(&msg, rows[i].wire, DNS_PTR);
		REQUIRE(query(&msg, &q) == 0);
		is_reverse = dns_read_reverse(&q, &addr);
		CHECK_STR(is_reverse ? net_addr_format(&addr, text) : NULL, rows[i].want);
	}
	memcpy(full + 2, nibbles, sizeof(nibbles));
	put_header(&msg, 1, 0x0100, 1, 0, 0, 0);
	put_question(&msg, full, DNS_PTR);
	REQUIRE(query(&msg, &q) == 0);
	REQUIRE(dns_read_reverse(&q, &addr));
	CHECK_STR(net_addr_format(&addr, text), "2001:db0::18");
}

static void test_answers(void)
{
	static const struct net_addr addrs[] = { { 0, { 198, 18, 0, 16 } },
						 { 1, { 0xfd, 0x63, [15] = 1 } } };
	static struct bytes msg;
	uint8_t answer[DNS_ANSWER_MAX];
	struct dns_response got;
	struct dns_query q;

	for (int i = 0; i < 4; i++) {
		enum dns_type type = (enum dns_type[]){ DNS_A, DNS_AAAA, DNS_ANY, DNS_HTTPS }[i];
		size_t n = (size_t[]){ 1, 1, 2, 0 }[i];

		put_header(&msg, 7, 0x0100, 1, 0, 0, 1);
		put_question(&msg, "\3WWW\7example\3com", type);
		put_opt(&msg, 0);
		REQUIRE(query(&msg, &q) == 0);
		msg.len = 0;
		put_bytes(&msg, answer,
			  dns_write_answer(&q, DNS_NOERROR, addrs, 2, NULL, 30, answer));
		CHECK_INT(answer[7], n);
		REQUIRE(response(&msg, type, &got) == 0);
		CHECK_INT(got.rcode, DNS_NOERROR);
		CHECK(!got.is_truncated);
		if (i > 1)
			continue;
		CHECK_INT(got.n_addrs, 1);
		CHECK(net_addr_equal(&got.addrs[0], &addrs[i]));
		CHECK_INT(got.ttl, 30);
	}
	/* Refused: nothing but the question. */
	CHECK_INT(dns_write_answer(&q, DNS_REFUSED, addrs, 2, NULL, 30, answer), 12 + 21 + 11);
	CHECK(!memcmp(answer, "\0\7\x81\x85\0\1\0\0\0\0\0\1", 12));
}

static void test_a_name_for_an_address(void)
{
	static const char want[] = "\0\7\x81\x80\0\1\0\1\0\0\0\0"
				   "\0011\0012\0010\003192\7in-addr\4arpa\0\0\x0c\0\1"
				   "\xc0\x0c\0\x0c\0\1\0\0\0\x3c\0\x0d" NAME;
	static struct bytes msg;
	uint8_t answer[DNS_ANSWER_MAX];
	struct dns_query q;
	size_t len;

	put_header(&msg, 7, 0x0100, 1, 0, 0, 0);
	put_question(&msg, "\0011\0012\0010\003192\7in-addr\4arpa", DNS_PTR);
	REQUIRE(query(&msg, &q) == 0);
	len = dns_write_answer(&q, DNS_NOERROR, NULL, 0, "example.com", 60, answer);
	CHECK_INT(len, sizeof(want));
	CHECK(!memcmp(answer, want, sizeof(want)));
	len = dns_write_answer(&q, DNS_NOERROR, NULL, 0, "not..a.name", 60, answer);
	CHECK_INT(answer[7], 0);
	CHECK_INT(len, 12 + 28);
}

static void test_a_question_of_ours(void)
{
	static const char want[] = "\x12\x34\1\0\0\1\0\0\0\0\0\1" WWW
				   "\0\0\x1c\0\1\0\0\x29\4\xd0\0\0\0\0\0";
	uint8_t ret[DNS_ANSWER_MAX];
	char longest[NET_NAME_MAX + 2] = "";
	struct dns_query q;
	size_t len;

	CHECK_INT(dns_write_query(0x1234, "www.example.com", DNS_AAAA, ret), sizeof(want));
	CHECK(!memcmp(ret, want, sizeof(want)));
	CHECK_INT(dns_write_query(1, "", DNS_A, ret), 0);
	CHECK_INT(dns_write_query(1, "a..b", DNS_A, ret), 0);
	CHECK_INT(dns_write_query(1, ".a", DNS_A, ret), 0);
	for (size_t i = 0; i < NET_NAME_MAX; i++)
		longest[i] = i % 64 == 63 ? '.' : 'a';
	len = dns_write_query(1, longest, DNS_A, ret);
	CHECK_INT(len, 12 + 255 + 4 + 11);
	CHECK_INT(dns_read_query(ret, len, &q), 0);
	CHECK_STR(q.name, longest);
	longest[NET_NAME_MAX] = 'a';
	CHECK_INT(dns_write_query(1, longest, DNS_A, ret), 0);
	longest[NET_NAME_MAX] = '\0';
	longest[63] = 'a';
	CHECK_INT(dns_write_query(1, longest, DNS_A, ret), 0);
}

static void begin_response(struct bytes *msg, unsigned flags, unsigned an, unsigned ns, unsigned ar)
{
	put_header(msg, 7, flags, 1, an, ns, ar);
	put_question(msg, WWW, DNS_A);
}

/* www -> cdn.net -> x.cdn.net, in the wrong order, among records of others. */
static void test_aliases_are_followed(void)
{
	static struct bytes msg;
	struct dns_response got;
	char text[NET_ADDR_TEXT_MAX];

	begin_response(&msg, 0x8180, 6, 0, 0);
	put_record(&msg, "\1x\3CDN\3net", 0, DNS_A, 50, "\1\2\3\4", 4);
	put_record(&msg, "\3cdn\3net", 0, DNS_CNAME, 40, "\1X\3cdn\3net", 11);
	put_record(&msg, "\4evil\3net", 0, DNS_A, 10, "\6\6\6\6", 4);
	put_record(&msg, NULL, 12, DNS_CNAME, 60, "\3cdn\3net", 9);
	put_record(&msg, NULL, 33, DNS_A, 70, "\1\2\3\5", 4);
	put_record(&msg, NULL, 33, DNS_AAAA, 5, "0123456789abcdef", 16);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.n_addrs, 2);
	CHECK_STR(net_addr_format(&got.addrs[0], text), "1.2.3.4");
	CHECK_STR(net_addr_format(&got.addrs[1], text), "1.2.3.5");
	CHECK_INT(got.ttl, 40);
	/* Cut anywhere it is no answer. */
	for (size_t len = 0; len < msg.len; len++) {
		struct bytes *cut = exact_copy(&msg, sizeof(msg));

		cut->len = len;
		CHECK_INT(response(cut, DNS_A, &got), -1);
		free(cut);
	}
}

static void test_too_many_aliases(void)
{
	static struct bytes msg;
	struct dns_response got;

	begin_response(&msg, 0x8180, 2, 0, 0);
	put_record(&msg, NULL, 12, DNS_CNAME, 60, "\1b", 3);
	put_record(&msg, "\1b", 0, DNS_CNAME, 60, WWW, 17);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.rcode, DNS_SERVFAIL);
	CHECK_INT(got.n_addrs, 0);

	for (unsigned n = 16; n <= 17; n++) {
		begin_response(&msg, 0x8180, n + 1, 0, 0);
		for (unsigned i = 0; i < n; i++) {
			char from[] = { 1, (char)('a' + i), 0 }, to[] = { 1, (char)('b' + i), 0 };

			put_record(&msg, i ? from : NULL, 12, DNS_CNAME, 60, to, 3);
		}
		put_record(&msg, (char[]){ 1, (char)('a' + n), 0 }, 0, DNS_A, 60, "\1\2\3\4", 4);
		REQUIRE(response(&msg, DNS_A, &got) == 0);
		CHECK_INT(got.rcode, n > 16 ? DNS_SERVFAIL : DNS_NOERROR);
		CHECK_INT(got.n_addrs, n > 16 ? 0 : 1);
	}
}

static void test_more_addresses_than_room(void)
{
	static struct bytes msg;
	struct dns_response got;

	begin_response(&msg, 0x8180, 20, 0, 0);
	for (unsigned i = 0; i < 20; i++)
		put_record(&msg, NULL, 12, DNS_A, 60, "\1\2\3\4", 4);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.n_addrs, DNS_ADDRS_MAX);
}

static void put_soa(struct bytes *msg, const char *owner, uint32_t ttl, uint32_t minimum)
{
	char data[1 + 2 + 20] = "\0\xc0\x0c";

	for (int i = 0; i < 4; i++)
		data[19 + i] = (char)(minimum >> (24 - 8 * i));
	put_record(msg, owner, 0, DNS_SOA, ttl, data, sizeof(data));
}

static void test_negative_answers(void)
{
	static const struct {
		const char *owner;
		uint32_t ttl, minimum, want;
	} rows[] = {
		{ NAME, 300, 60, 60 },	  { NAME, 30, 60, 30 },	       { WWW, 30, 60, 30 },
		{ "", 30, 60, 30 },	  { NAME, 0x80000000, 60, 0 }, { "\2le\3com", 30, 60, 0 },
		{ "\1a" WWW, 30, 60, 0 },
	};
	static struct bytes msg;
	struct dns_response got;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin_response(&msg, 0x8183, 0, 1, 0);
		put_soa(&msg, rows[i].owner, rows[i].ttl, rows[i].minimum);
		REQUIRE(response(&msg, DNS_A, &got) == 0);
		CHECK_INT(got.rcode, DNS_NXDOMAIN);
		CHECK_INT(got.ttl, rows[i].want);
	}
	begin_response(&msg, 0x8180, 0, 0, 0);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.rcode, DNS_NOERROR);
	CHECK_INT(got.n_addrs, 0);
	CHECK_INT(got.ttl, 0);
	/* An address beside an error is none. */
	begin_response(&msg, 0x8183, 1, 0, 0);
	put_record(&msg, NULL, 12, DNS_A, 60, "\1\2\3\4", 4);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.n_addrs, 0);
}

static void test_codes(void)
{
	static struct bytes msg;
	struct dns_response got;

	for (unsigned code = 0; code < 16; code++) {
		begin_response(&msg, 0x8180 | code, 0, 0, 0);
		REQUIRE(response(&msg, DNS_A, &got) == 0);
		CHECK_INT(got.rcode, code <= DNS_REFUSED ? code : DNS_SERVFAIL);
	}
	/* BADVERS and its like have their upper bits in the OPT record. */
	begin_response(&msg, 0x8180, 0, 0, 1);
	put_opt(&msg, 0x01000000);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.rcode, DNS_SERVFAIL);
	begin_response(&msg, 0x8180, 0, 0, 1);
	put_opt(&msg, 0xff000000);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK_INT(got.rcode, DNS_SERVFAIL);
	begin_response(&msg, 0x8380, 1, 0, 0);
	REQUIRE(response(&msg, DNS_A, &got) == 0);
	CHECK(got.is_truncated);
}

static void test_answers_to_other_questions(void)
{
	static struct bytes msg;
	struct dns_response got;

	begin_response(&msg, 0x8180, 0, 0, 0);
	CHECK_INT(response(&msg, DNS_A, &got), 0);
	CHECK_INT(response(&msg, DNS_AAAA, &got), -1);
	CHECK_INT(dns_read_response(msg.b, msg.len, 8, "www.example.com", DNS_A, &got), -1);
	CHECK_INT(dns_read_response(msg.b, msg.len, 7, "ww.example.com", DNS_A, &got), -1);
	CHECK_INT(dns_read_response(msg.b, msg.len, 7, "www.example.con", DNS_A, &got), -1);
	msg.b[14] = 'W'; /* case does not count */
	CHECK_INT(response(&msg, DNS_A, &got), 0);
	msg.b[msg.len - 1] = 3; /* class */
	CHECK_INT(response(&msg, DNS_A, &got), -1);
	begin_response(&msg, 0x0180, 0, 0, 0); /* a question */
	CHECK_INT(response(&msg, DNS_A, &got), -1);
	begin_response(&msg, 0xa180, 0, 0, 0); /* an update's */
	CHECK_INT(response(&msg, DNS_A, &got), -1);
	begin_response(&msg, 0x8180, 0, 0, 0);
	msg.b[5] = 0;
	CHECK_INT(response(&msg, DNS_A, &got), -1);
}

static void test_pointers(void)
{
	static const struct {
		const char *what, *owner;
		size_t len;
		int want;
	} rows[] = {
#define OWNER(text) text, sizeof(text) - 1
		{ "to the question", OWNER("\xc0\x0c"), 0 },
		{ "into it", OWNER("\3www\xc0\x10"), 0 },
		{ "to itself", OWNER("\xc0\x21"), -1 },
		{ "to its own label", OWNER("\1a\xc0\x21"), -1 },
		{ "forwards", OWNER("\xc0\x30"), -1 },
		{ "forwards, to a name", OWNER("\xc0\x31"), -1 },
		{ "out of the message", OWNER("\xff\xff"), -1 },
		{ "into the header", OWNER("\xc0\x00"), -1 },
		{ "into the header's end", OWNER("\xc0\x0b"), -1 },
		{ "reserved", OWNER("\x80\x0c"), -1 },
		{ "extended", OWNER("\x41\x0c"), -1 },
	};
	static struct bytes msg;
	struct dns_response got;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin_response(&msg, 0x8180, 1, 0, 0);
		CHECK_INT(msg.len, 0x21);
		put_bytes(&msg, rows[i].owner, rows[i].len);
		put_bytes(&msg, "\0\1\0\1\0\0\0\x3c\0\4\1\2\3\4", 14);
		put_bytes(&msg, WWW, sizeof(WWW)); /* behind the last record */
		CHECK_MSG(response(&msg, DNS_A, &got) == rows[i].want, "%s", rows[i].what);
		CHECK_INT(got.n_addrs, rows[i].want == 0 ? 1 : 0);
	}
}

/* A chain of pointers, each to the one before: 64 are allowed. */
static void test_many_pointers(void)
{
	static struct bytes msg;
	struct dns_response got;

	for (unsigned n = 63; n <= 65; n++) {
		size_t at;

		begin_response(&msg, 0x8180, 2, 0, 0);
		put_record(&msg, "\1x", 0, 99, 0, "", 0);
		msg.b[msg.len - 1] = (uint8_t)(2 * (n - 1));
		at = 12;
		for (unsigned i = 0; i < n - 1; i++) {
			size_t here = msg.len;

			put_u16(&msg, 0xc000 | (unsigned)at);
			at = here;
		}
		put_record(&msg, NULL, (unsigned)at, DNS_A, 60, "\1\2\3\4", 4);
		CHECK_INT(response(&msg, DNS_A, &got), n <= 64 ? 0 : -1);
		CHECK_INT(got.n_addrs, n <= 64);
	}
}

static void test_broken_records(void)
{
	static struct bytes msg;
	struct dns_response got;
	char text[NET_ADDR_TEXT_MAX];

	begin_response(&msg, 0x8180, 1, 0, 0);
	put_record(&msg, NULL, 12, DNS_A, 60, "\1\2\3", 3);
	CHECK_INT(response(&msg, DNS_A, &got), -1);
	begin_response(&msg, 0x8180, 1, 0, 0);
	put_record(&msg, NULL, 12, DNS_CNAME, 60, "\1a\0x", 4);
	CHECK_INT(response(&msg, DNS_A, &got), -1);
	begin_response(&msg, 0x8180, 2, 0, 0);
	put_record(&msg, NULL, 12, DNS_A, 60, "\1\2\3\4", 4);
	CHECK_INT(response(&msg, DNS_A, &got), -1);
	/* An IPv4 address in disguise is one. */
	put_header(&msg, 7, 0x8180, 1, 1, 0, 0);
	put_question(&msg, WWW, DNS_AAAA);
	put_record(&msg, NULL, 12, DNS_AAAA, 60, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	REQUIRE(response(&msg, DNS_AAAA, &got) == 0);
	CHECK_STR(net_addr_format(&got.addrs[0], text), "127.0.0.1");
}

TAP_MAIN(test_a_question_is_read, test_odd_names_are_shown_but_are_none, test_long_names,
	 test_questions_that_are_none, test_reverse_questions, test_answers,
	 test_a_name_for_an_address, test_a_question_of_ours, test_aliases_are_followed,
	 test_too_many_aliases, test_more_addresses_than_room, test_negative_answers, test_codes,
	 test_answers_to_other_questions, test_pointers, test_many_pointers, test_broken_records)

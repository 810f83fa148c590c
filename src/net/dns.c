/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's questions and our answers to them; our questions to servers. */
#include "net/dns.h"

#include <string.h>

#include "base/ascii.h"
#include "net/dns_wire.h"

#define EDNS_SIZE 1232
#define OPT_LEN 11

/* The question's name as text for people and, if it is a valid host name, in canonical form. */
static void decode_name(const struct dns_name *wire, struct dns_query *ret)
{
	char text[DNS_NAME_WIRE_MAX];
	size_t len = 0;
	bool has_dot = false;

	for (size_t pos = 0; wire->bytes[pos] != 0; pos += wire->bytes[pos] + 1u) {
		if (len > 0)
			text[len++] = '.';
		for (size_t i = 0; i < wire->bytes[pos]; i++) {
			text[len] = (char)wire->bytes[pos + 1 + i];
			has_dot = has_dot || text[len] == '.';
			len++;
		}
	}
	/* A dot within a label would make it another name. */
	ret->has_name = len > 0 && !has_dot && net_name_parse(text, len, ret->name) == 0;
	if (!ret->has_name)
		memset(ret->name, 0, sizeof(ret->name));
	if (len == 0)
		text[len++] = '.';
	if (len > sizeof(ret->shown) - 1)
		len = sizeof(ret->shown) - 1;
	for (size_t i = 0; i < len; i++)
		ret->shown[i] = (char)(text[i] > 0x20 && text[i] < 0x7f ? text[i] : '?');
	ret->shown[len] = '\0';
}

/* What may follow a question: records, among them one OPT. */
static int read_additional(const uint8_t *msg, size_t len, size_t pos, size_t n,
			   struct dns_query *ret)
{
	for (size_t i = 0; i < n; i++) {
		struct dns_record record;

		if (dns_record_read(msg, len, &pos, &record) < 0)
			return -1;
		if (record.type != DNS_OPT)
			continue;
		/* Only version 0 of EDNS exists. */
		if (ret->has_edns || record.owner.len != 1 || (record.ttl >> 16 & 0xff) != 0)
			return -1;
		ret->has_edns = true;
	}
	return pos == len ? 0 : -1;
}

int dns_read_query(const uint8_t *msg, size_t len, struct dns_query *ret)
{
	struct dns_name name;
	unsigned flags;
	size_t pos;

	memset(ret, 0, sizeof(*ret));
	if (len < DNS_HEADER_LEN)
		return -1;
	flags = be16_get(msg + 2);
	if (flags & DNS_FLAG_QR)
		return -1;
	ret->id = be16_get(msg);
	ret->wants_recursion = flags & DNS_FLAG_RD;
	if (len > DNS_MESSAGE_MAX)
		return DNS_FORMERR;
	if (DNS_OPCODE(flags) != 0)
		return DNS_NOTIMP;
	/* One question, nothing that would be an answer. */
	if ((flags & DNS_FLAG_TC) || be16_get(msg + 4) != 1 || be32_get(msg + 6) != 0)
		return DNS_FORMERR;
	if (dns_name_read(msg, len, DNS_HEADER_LEN, false, &name, &pos) < 0 || len - pos < 4)
		return DNS_FORMERR;
	ret->type = be16_get(msg + pos);
	ret->qclass = be16_get(msg + pos + 2);
	pos += 4;
	ret->question_len = (uint16_t)(pos - DNS_HEADER_LEN);
	memcpy(ret->question, msg + DNS_HEADER_LEN, ret->question_len);
	decode_name(&name, ret);
	if (read_additional(msg, len, pos, be16_get(msg + 10), ret) < 0)
		return DNS_FORMERR;
	if (ret->qclass != DNS_CLASS_IN)
		return DNS_REFUSED;
	return 0;
}

static bool ends_with(const char *text, size_t len, const char *suffix, size_t suffix_len)
{
	return len > suffix_len && memcmp(text + len - suffix_len, suffix, suffix_len) == 0;
}

/* "4.3.2.1": the last number comes first. */
static bool read_reverse_v4(const char *text, size_t len, struct net_addr *ret)
{
	uint8_t bytes[4];
	size_t pos = 0;

	for (int i = 3; i >= 0; i--) {
		unsigned value = 0, digits = 0;

		for (; pos < len && ascii_is_digit(text[pos]); pos++) {
			if (++digits > 3 || (digits == 2 && value == 0))
				return false;
			value = value * 10 + (unsigned)(text[pos] - '0');
		}
		if (digits == 0 || value > 255)
			return false;
		bytes[i] = (uint8_t)value;
		if (i > 0 && (pos >= len || text[pos++] != '.'))
			return false;
	}
	if (pos != len)
		return false;
	net_addr_from_v4(bytes, ret);
	return true;
}

/* "f.e.d...0": 32 digits, the last one first. */
static bool read_reverse_v6(const char *text, size_t len, struct net_addr *ret)
{
	uint8_t bytes[16] = { 0 };

	if (len != 63)
		return false;
	for (size_t i = 0; i < 32; i++) {
		char c = text[2 * i];
		uint8_t digit;

		if (c >= '0' && c <= '9')
			digit = (uint8_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			digit = (uint8_t)(c - 'a' + 10);
		else
			return false;
		if (i < 31 && text[2 * i + 1] != '.')
			return false;
		bytes[15 - i / 2] |= (uint8_t)(i % 2 ? digit << 4 : digit);
	}
	net_addr_from_v6(bytes, ret);
	return true;
}

bool dns_read_reverse(const struct dns_query *query, struct net_addr *ret)
{
	static const char v4[] = ".in-addr.arpa", v6[] = ".ip6.arpa";
	size_t len = 0;

	if (!query->has_name)
		return false;
	while (len < NET_NAME_MAX && query->name[len])
		len++;
	if (ends_with(query->name, len, v4, sizeof(v4) - 1))
		return read_reverse_v4(query->name, len - (sizeof(v4) - 1), ret);
	if (ends_with(query->name, len, v6, sizeof(v6) - 1))
		return read_reverse_v6(query->name, len - (sizeof(v6) - 1), ret);
	return false;
}

static uint8_t *put_opt(uint8_t *p)
{
	*p++ = 0; /* the root's name */
	p = be16_put(p, DNS_OPT);
	p = be16_put(p, EDNS_SIZE);
	p = be32_put(p, 0);
	return be16_put(p, 0);
}

/* A record of the question's name, or NULL if it does not fit before @end. */
static uint8_t *put_record(uint8_t *p, const uint8_t *end, enum dns_type type, uint32_t ttl,
			   const uint8_t *data, size_t len)
{
	if ((size_t)(end - p) < 2 + DNS_FIXED_LEN + len)
		return NULL;
	p = be16_put(p, 0xc000u | DNS_HEADER_LEN);
	p = be16_put(p, (uint16_t)type);
	p = be16_put(p, DNS_CLASS_IN);
	p = be32_put(p, ttl);
	p = be16_put(p, (uint16_t)len);
	memcpy(p, data, len);
	return p + len;
}

size_t dns_write_answer(const struct dns_query *query, enum dns_rcode rcode,
			const struct net_addr *addrs, size_t n_addrs, const char *ptr_name,
			uint32_t ttl, uint8_t ret[DNS_ANSWER_MAX])
{
	bool has_question = query->question_len > 0;
	bool has_answer = has_question && rcode == DNS_NOERROR && query->qclass == DNS_CLASS_IN;
	uint8_t *p, *next, *end = ret + DNS_ANSWER_MAX - OPT_LEN;
	uint16_t n_answers = 0;
	struct dns_name name;

	be16_put(ret, query->id);
	be16_put(ret + 2, (uint16_t)(DNS_FLAG_QR | (query->wants_recursion ? DNS_FLAG_RD : 0) |
				     DNS_FLAG_RA | (unsigned)rcode));
	be16_put(ret + 4, has_question);
	p = be32_put(ret + 8, query->has_edns);
	memcpy(p, query->question, query->question_len);
	p += query->question_len;
	/* Those that do not fit are left out: any address will do. */
	for (size_t i = 0; has_answer && i < n_addrs; i++) {
		enum dns_type type = addrs[i].is_v6 ? DNS_AAAA : DNS_A;

		if (query->type != type && query->type != DNS_ANY)
			continue;
		next = put_record(p, end, type, ttl, addrs[i].bytes, addrs[i].is_v6 ? 16 : 4);
		if (!next)
			break;
		p = next;
		n_answers++;
	}
	if (has_answer && ptr_name && (query->type == DNS_PTR || query->type == DNS_ANY) &&
	    dns_name_encode(ptr_name, &name) == 0 &&
	    (next = put_record(p, end, DNS_PTR, ttl, name.bytes, name.len))) {
		p = next;
		n_answers++;
	}
	be16_put(ret + 6, n_answers);
	if (query->has_edns)
		p = put_opt(p);
	return (size_t)(p - ret);
}

size_t dns_write_query(uint16_t id, const char *name, enum dns_type type,
		       uint8_t ret[DNS_ANSWER_MAX])
{
	struct dns_name wire;
	uint8_t *p;

	if (dns_name_encode(name, &wire) < 0)
		return 0;
	p = be16_put(ret, id);
	p = be16_put(p, DNS_FLAG_RD);
	p = be32_put(p, 1u << 16); /* one question, no answer */
	p = be32_put(p, 1);	   /* no authority, one OPT */
	memcpy(p, wire.bytes, wire.len);
	p = be16_put(p + wire.len, (uint16_t)type);
	p = be16_put(p, DNS_CLASS_IN);
	return (size_t)(put_opt(p) - ret);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A server's answer to our question. */
#include <string.h>

#include "net/dns.h"
#include "net/dns_wire.h"

#define CNAMES_MAX 16
#define SOA_NUMBERS_LEN 20

/* Where the sections of a message are. */
struct sections {
	const uint8_t *msg;
	size_t len;
	size_t answers; /* where they begin */
	unsigned n_answers;
	size_t authority;
	unsigned n_authority;
};

/* Values with the highest bit set count as 0 (RFC 2181, 8). */
static void lower_ttl(uint32_t *ttl, uint32_t other)
{
	if (other > INT32_MAX)
		other = 0;
	if (other < *ttl)
		*ttl = other;
}

/* The next record from *pos of @n that has this owner and class IN; false if there is none. */
static bool next_record(const struct sections *s, size_t *pos, unsigned *n,
			const struct dns_name *owner, struct dns_record *ret)
{
	while (*n > 0) {
		(*n)--;
		if (dns_record_read(s->msg, s->len, pos, ret) < 0)
			return false;
		if (ret->rclass == DNS_CLASS_IN && (!owner || dns_name_is(&ret->owner, owner)))
			return true;
	}
	return false;
}

/* All sections must be well-formed. The upper bits of the code are in the OPT record. */
static int walk(struct sections *s, unsigned n_additional, unsigned *ret_high)
{
	size_t pos = s->answers;
	struct dns_record record;

	for (unsigned i = 0; i < s->n_answers; i++) {
		if (dns_record_read(s->msg, s->len, &pos, &record) < 0)
			return -1;
	}
	s->authority = pos;
	for (unsigned i = 0; i < s->n_authority; i++) {
		if (dns_record_read(s->msg, s->len, &pos, &record) < 0)
			return -1;
	}
	*ret_high = 0;
	for (unsigned i = 0; i < n_additional; i++) {
		if (dns_record_read(s->msg, s->len, &pos, &record) < 0)
			return -1;
		if (record.type == DNS_OPT)
			*ret_high = record.ttl >> 24;
	}
	return 0;
}

/* The addresses of @name itself; -1 if a record of it is broken. */
static int take_addresses(const struct sections *s, const struct dns_name *name, enum dns_type type,
			  struct dns_response *ret)
{
	size_t pos = s->answers, want = type == DNS_AAAA ? 16 : 4;
	unsigned n = s->n_answers;
	struct dns_record record;

	if (type != DNS_A && type != DNS_AAAA)
		return 0;
	while (next_record(s, &pos, &n, name, &record)) {
		if (record.type != type)
			continue;
		if (record.data_len != want)
			return -1;
		if (ret->n_addrs == DNS_ADDRS_MAX)
			break;
		lower_ttl(&ret->ttl, record.ttl);
		if (type == DNS_A)
			net_addr_from_v4(s->msg + record.data, &ret->addrs[ret->n_addrs++]);
		else
			net_addr_from_v6(s->msg + record.data, &ret->addrs[ret->n_addrs++]);
	}
	return 0;
}

/* Replaces @name by the name it is an alias of: 1; 0 if it is no alias; -1 on error. */
static int follow(const struct sections *s, struct dns_name *name, struct dns_response *ret)
{
	size_t pos = s->answers, end;
	unsigned n = s->n_answers;
	struct dns_record record;

	while (next_record(s, &pos, &n, name, &record)) {
		if (record.type != DNS_CNAME)
			continue;
		if (dns_name_read(s->msg, s->len, record.data, true, name, &end) < 0 ||
		    end != record.data + record.data_len)
			return -1;
		lower_ttl(&ret->ttl, record.ttl);
		return 1;
	}
	return 0;
}

/* How long a negative answer is valid (RFC 2308); 0 if there is no SOA. */
static void take_negative_ttl(const struct sections *s, const struct dns_name *name,
			      struct dns_response *ret)
{
	size_t pos = s->authority, end;
	unsigned n = s->n_authority;
	struct dns_record record;
	struct dns_name ignored;

	while (next_record(s, &pos, &n, NULL, &record)) {
		if (record.type != DNS_SOA || !dns_name_is_within(name, &record.owner))
			continue;
		if (dns_name_read(s->msg, s->len, record.data, true, &ignored, &end) < 0 ||
		    dns_name_read(s->msg, s->len, end, true, &ignored, &end) < 0 ||
		    end + SOA_NUMBERS_LEN != record.data + record.data_len)
			break;
		lower_ttl(&ret->ttl, record.ttl);
		lower_ttl(&ret->ttl, be32_get(s->msg + end + 16));
		return;
	}
	ret->ttl = 0;
}

static int read_answers(const struct sections *s, struct dns_name *name, enum dns_type type,
			struct dns_response *ret)
{
	ret->ttl = INT32_MAX;
	for (unsigned i = 0;; i++) {
		int r = 0;

		if (ret->rcode == DNS_NOERROR && take_addresses(s, name, type, ret) < 0)
			return -1;
		if (ret->n_addrs > 0)
			return 0;
		r = follow(s, name, ret);
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		if (i >= CNAMES_MAX) { /* most likely a loop */
			ret->rcode = DNS_SERVFAIL;
			break;
		}
	}
	take_negative_ttl(s, name, ret);
	return 0;
}

int dns_read_response(const uint8_t *msg, size_t len, uint16_t id, const char *name,
		      enum dns_type type, struct dns_response *ret)
{
	struct sections s = { .msg = msg, .len = len };
	struct dns_name asked, got;
	unsigned flags, high;

	memset(ret, 0, sizeof(*ret));
	if (len < DNS_HEADER_LEN || len > DNS_MESSAGE_MAX || be16_get(msg) != id)
		return -1;
	flags = be16_get(msg + 2);
	if (!(flags & DNS_FLAG_QR) || DNS_OPCODE(flags) != 0 || be16_get(msg + 4) != 1)
		return -1;
	if (dns_name_encode(name, &asked) < 0 ||
	    dns_name_read(msg, len, DNS_HEADER_LEN, false, &got, &s.answers) < 0 ||
	    len - s.answers < 4 || !dns_name_is(&asked, &got) ||
	    be16_get(msg + s.answers) != (unsigned)type ||
	    be16_get(msg + s.answers + 2) != DNS_CLASS_IN)
		return -1;
	s.answers += 4;
	ret->rcode = DNS_RCODE(flags) <= DNS_REFUSED ? (enum dns_rcode)DNS_RCODE(flags)
						     : DNS_SERVFAIL;
	if (flags & DNS_FLAG_TC) {
		/* The records may be incomplete, so none is used. */
		ret->is_truncated = true;
		return 0;
	}
	s.n_answers = be16_get(msg + 6);
	s.n_authority = be16_get(msg + 8);
	if (walk(&s, be16_get(msg + 10), &high) < 0)
		return -1;
	if (high)
		ret->rcode = DNS_SERVFAIL;
	return read_answers(&s, &asked, type, ret);
}

/* False if that would not be the same name for those who read it. */
static bool write_text(const struct dns_name *wire, char ret[DNS_NAME_WIRE_MAX])
{
	size_t n = 0;

	for (size_t pos = 0; wire->bytes[pos] != 0; pos += wire->bytes[pos] + 1u) {
		if (n > 0)
			ret[n++] = '.';
		for (size_t i = 1; i <= wire->bytes[pos]; i++) {
			char c = (char)wire->bytes[pos + i];

			if (c <= ' ' || c > '~' || c == '.')
				return false;
			ret[n++] = c;
		}
	}
	ret[n] = '\0';
	return n > 0;
}

void dns_read_aliases(const uint8_t *msg, size_t len, const char *name,
		      void (*each)(void *arg, const char *alias), void *arg)
{
	struct sections s = { .msg = msg, .len = len, .n_answers = be16_get(msg + 6) };
	char text[DNS_NAME_WIRE_MAX];
	struct dns_response ignored;
	struct dns_name at, asked;

	if (dns_name_encode(name, &at) < 0 ||
	    dns_name_read(msg, len, DNS_HEADER_LEN, false, &asked, &s.answers) < 0)
		return;
	s.answers += 4;
	ignored.ttl = 0;
	for (unsigned i = 0; i <= CNAMES_MAX && follow(&s, &at, &ignored) > 0; i++)
		each(arg, write_text(&at, text) ? text : NULL);
}

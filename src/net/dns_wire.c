/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dns_wire.h"

#include <string.h>

#include "base/ascii.h"

#define LABEL_MAX 63
#define JUMPS_MAX 64

int dns_name_read(const uint8_t *msg, size_t len, size_t pos, bool can_jump, struct dns_name *ret,
		  size_t *ret_end)
{
	size_t start = pos, end = 0, out = 0;
	unsigned jumps = 0;

	for (;;) {
		uint8_t n;

		if (pos >= len)
			return -1;
		n = msg[pos];
		if ((n & 0xc0) == 0xc0) {
			size_t target;

			if (!can_jump || len - pos < 2 || ++jumps > JUMPS_MAX)
				return -1;
			target = be16_get(msg + pos) & 0x3fffu;
			if (target >= start || target < DNS_HEADER_LEN)
				return -1;
			if (end == 0)
				end = pos + 2;
			start = pos = target;
			continue;
		}
		if (n > LABEL_MAX || len - pos < (size_t)n + 1 ||
		    DNS_NAME_WIRE_MAX - out < (size_t)n + 1)
			return -1;
		for (size_t i = 0; i <= n; i++)
			ret->bytes[out++] = (uint8_t)ascii_lower((char)msg[pos++]);
		if (n == 0)
			break;
	}
	ret->len = (uint8_t)out;
	*ret_end = end ? end : pos;
	return 0;
}

int dns_record_read(const uint8_t *msg, size_t len, size_t *pos, struct dns_record *ret)
{
	size_t at;

	if (dns_name_read(msg, len, *pos, true, &ret->owner, &at) < 0 || len - at < DNS_FIXED_LEN)
		return -1;
	ret->type = be16_get(msg + at);
	ret->rclass = be16_get(msg + at + 2);
	ret->ttl = be32_get(msg + at + 4);
	ret->data_len = be16_get(msg + at + 8);
	ret->data = at + DNS_FIXED_LEN;
	if (len - ret->data < ret->data_len)
		return -1;
	*pos = ret->data + ret->data_len;
	return 0;
}

bool dns_name_is(const struct dns_name *a, const struct dns_name *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

bool dns_name_is_within(const struct dns_name *name, const struct dns_name *zone)
{
	size_t pos = 0;

	while (name->len - pos > zone->len)
		pos += name->bytes[pos] + 1u;
	return name->len - pos == zone->len &&
	       memcmp(name->bytes + pos, zone->bytes, zone->len) == 0;
}

int dns_name_encode(const char *text, struct dns_name *ret)
{
	size_t label = 0, out = 1;

	for (size_t i = 0;; i++) {
		if (text[i] != '.' && text[i] != '\0') {
			if (out >= DNS_NAME_WIRE_MAX - 1)
				return -1;
			ret->bytes[out++] = (uint8_t)ascii_lower(text[i]);
			continue;
		}
		if (out - label - 1 < 1 || out - label - 1 > LABEL_MAX)
			return -1;
		ret->bytes[label] = (uint8_t)(out - label - 1);
		label = out;
		ret->bytes[out++] = 0;
		if (text[i] == '\0')
			break;
		if (out >= DNS_NAME_WIRE_MAX)
			return -1;
	}
	ret->len = (uint8_t)out;
	return 0;
}

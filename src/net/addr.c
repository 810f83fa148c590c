/* SPDX-License-Identifier: Apache-2.0 */
#include "net/addr.h"

#include <string.h>

#include "net/text.h"

static int parse_v4(const char *text, size_t len, uint8_t ret[4])
{
	size_t pos = 0;

	for (int i = 0; i < 4; i++) {
		unsigned value = 0;
		size_t start;

		if (i > 0 && (pos == len || text[pos++] != '.'))
			return -1;
		start = pos;
		for (; pos < len && pos - start < 3 && ascii_is_digit(text[pos]); pos++)
			value = value * 10 + (unsigned)(text[pos] - '0');
		/* Some parsers read a leading zero as octal. */
		if (pos == start || value > 255 || (text[start] == '0' && pos - start > 1))
			return -1;
		ret[i] = (uint8_t)value;
	}
	return pos == len ? 0 : -1;
}

/* One group of hexadecimal digits at *pos. -1 if there is none. */
static int parse_group(const char *text, size_t len, size_t *pos)
{
	size_t start = *pos;
	int value = 0;

	for (; *pos < len && ascii_hex_value(text[*pos]) >= 0; (*pos)++) {
		if (*pos - start == 4)
			return -1;
		value = value << 4 | ascii_hex_value(text[*pos]);
	}
	return *pos == start ? -1 : value;
}

static bool has_byte(const char *text, size_t len, char c)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == c)
			return true;
	}
	return false;
}

/*
 * Colon-separated groups (and a dotted quad at the very end) into @ret. Returns the number of
 * bytes, -1 if it is none. Empty text has none.
 */
static int parse_groups(const char *text, size_t len, bool may_have_quad, uint8_t ret[16])
{
	size_t pos = 0;
	int n = 0, group;

	while (pos < len) {
		if (n > 0 && text[pos++] != ':')
			return -1;
		if (may_have_quad && n <= 12 && !has_byte(text + pos, len - pos, ':') &&
		    has_byte(text + pos, len - pos, '.'))
			return parse_v4(text + pos, len - pos, ret + n) ? -1 : n + 4;
		group = parse_group(text, len, &pos);
		if (group < 0 || n == 16)
			return -1;
		ret[n++] = (uint8_t)(group >> 8);
		ret[n++] = (uint8_t)group;
	}
	return n;
}

static int parse_v6(const char *text, size_t len, uint8_t ret[16])
{
	uint8_t tail[16];
	size_t gap = 0;
	int n_head, n_tail;

	while (gap + 1 < len && !(text[gap] == ':' && text[gap + 1] == ':'))
		gap++;
	memset(ret, 0, 16);
	if (gap + 1 >= len)
		return parse_groups(text, len, true, ret) == 16 ? 0 : -1;
	n_head = parse_groups(text, gap, false, ret);
	n_tail = parse_groups(text + gap + 2, len - gap - 2, true, tail);
	/* "::" stands for one group at least. */
	if (n_head < 0 || n_tail < 0 || n_head + n_tail > 14)
		return -1;
	memcpy(ret + 16 - n_tail, tail, (size_t)n_tail);
	return 0;
}

void net_addr_from_v4(const uint8_t bytes[4], struct net_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->bytes, bytes, 4);
}

void net_addr_from_v6(const uint8_t bytes[16], struct net_addr *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
		net_addr_from_v4(bytes + 12, ret);
		return;
	}
	ret->is_v6 = 1;
	memcpy(ret->bytes, bytes, 16);
}

int net_addr_parse(const char *text, size_t len, struct net_addr *ret)
{
	uint8_t bytes[16];

	memset(ret, 0, sizeof(*ret));
	if (len >= NET_ADDR_TEXT_MAX)
		return -1;
	if (!has_byte(text, len, ':')) {
		if (parse_v4(text, len, bytes))
			return -1;
		net_addr_from_v4(bytes, ret);
		return 0;
	}
	if (parse_v6(text, len, bytes))
		return -1;
	net_addr_from_v6(bytes, ret);
	return 0;
}

static char *put_group(char *out, const uint8_t *bytes)
{
	unsigned value = (unsigned)bytes[0] << 8 | bytes[1];
	bool has_begun = false;

	for (int shift = 12; shift >= 0; shift -= 4) {
		unsigned digit = value >> shift & 15;

		has_begun = has_begun || digit || shift == 0;
		if (has_begun)
			*out++ = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
	}
	return out;
}

/* The longest run of two or more zero groups, the first of several; 8 if there is none. */
static int find_gap(const uint8_t bytes[16], int *ret_end)
{
	int best = 8, best_len = 1;

	for (int i = 0; i < 8; i++) {
		int end = i;

		while (end < 8 && !bytes[2 * end] && !bytes[2 * end + 1])
			end++;
		if (end - i > best_len) {
			best = i;
			best_len = end - i;
		}
	}
	*ret_end = best + best_len;
	return best;
}

char *net_addr_format(const struct net_addr *addr, char ret[NET_ADDR_TEXT_MAX])
{
	int gap, end;
	char *out = ret;

	if (!addr->is_v6) {
		for (int i = 0; i < 4; i++) {
			if (i > 0)
				*out++ = '.';
			out = text_put_number(out, addr->bytes[i]);
		}
		*out = '\0';
		return ret;
	}
	gap = find_gap(addr->bytes, &end);
	for (int i = 0; i < 8; i++) {
		if (i == gap) {
			*out++ = ':';
			*out++ = ':';
			i = end - 1;
			continue;
		}
		if (i > 0 && i != end)
			*out++ = ':';
		out = put_group(out, addr->bytes + 2 * i);
	}
	*out = '\0';
	return ret;
}

static bool has_prefix(const uint8_t *bytes, const uint8_t *net, unsigned prefix)
{
	unsigned whole = prefix / 8, rest = prefix % 8;

	if (memcmp(bytes, net, whole) != 0)
		return false;
	return rest == 0 || ((bytes[whole] ^ net[whole]) & (0xff00 >> rest & 0xff)) == 0;
}

bool net_addr_equal(const struct net_addr *a, const struct net_addr *b)
{
	return !a->is_v6 == !b->is_v6 && memcmp(a->bytes, b->bytes, a->is_v6 ? 16 : 4) == 0;
}

bool net_addr_is_in(const struct net_addr *addr, const struct net_addr *net, unsigned prefix)
{
	return !addr->is_v6 == !net->is_v6 && prefix <= (addr->is_v6 ? 128U : 32U) &&
	       has_prefix(addr->bytes, net->bytes, prefix);
}

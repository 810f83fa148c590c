/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp)
{
	static const uint32_t smallest[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	size_t need, i;
	uint32_t cp;

	if (len == 0)
		return 0;
	if (p[0] < 0x80) {
		*ret_cp = p[0];
		return 1;
	}
	if ((p[0] & 0xe0) == 0xc0) {
		need = 2;
		cp = p[0] & 0x1fu;
	} else if ((p[0] & 0xf0) == 0xe0) {
		need = 3;
		cp = p[0] & 0x0fu;
	} else if ((p[0] & 0xf8) == 0xf0) {
		need = 4;
		cp = p[0] & 0x07u;
	} else {
		return 0;
	}
	if (len < need)
		return 0;
	for (i = 1; i < need; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = (cp << 6) | (p[i] & 0x3fu);
	}
	if (cp < smallest[need] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return 0;
	*ret_cp = cp;
	return need;
}

size_t utf8_encode(uint32_t cp, char ret[UTF8_MAX])
{
	if (cp < 0x80) {
		ret[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		ret[0] = (char)(0xc0 | cp >> 6);
		ret[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		ret[0] = (char)(0xe0 | cp >> 12);
		ret[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | cp >> 18);
	ret[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

int utf8_is_control(uint32_t cp)
{
	/* Joiners, which letters of some scripts and emoji need, are not among them. */
	return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0x61c || cp == 0x200b ||
	       cp == 0x200e || cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) ||
	       (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff;
}

size_t utf8_escape(const char *s, size_t len, char ret[UTF8_ESCAPED_MAX], size_t *ret_len)
{
	uint32_t cp = 0;
	size_t n = utf8_decode(s, len, &cp);

	if (n > 0 && !utf8_is_control(cp)) {
		memcpy(ret, s, n);
		*ret_len = n;
		return n;
	}
	ret[0] = '\\';
	if (n > 1) {
		ret[1] = 'u';
		ret[2] = hex_digits[(cp >> 12) & 15];
		ret[3] = hex_digits[(cp >> 8) & 15];
		ret[4] = hex_digits[(cp >> 4) & 15];
		ret[5] = hex_digits[cp & 15];
		*ret_len = 6;
		return n;
	}
	ret[1] = 'x';
	ret[2] = hex_digits[((unsigned char)s[0] >> 4) & 15];
	ret[3] = hex_digits[(unsigned char)s[0] & 15];
	*ret_len = 4;
	return 1;
}

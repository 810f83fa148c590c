/* SPDX-License-Identifier: Apache-2.0 */
#include "base/termclean.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum {
	TEXT = 0,
	ESCAPE,	      /* after ESC */
	INTERMEDIATE, /* after ESC and one of the bytes 0x20 to 0x2f: ESC ( B */
	CSI,	      /* after ESC [ */
	STRING,	      /* in the body of OSC, DCS, APC, PM or SOS */
};

#define ESC 0x1b
#define BEL 0x07
#define CAN 0x18
#define SUB 0x1a

static size_t put_escaped(const char *s, size_t len, char *out)
{
	size_t used = 0, n;

	while (len > 0) {
		size_t taken = utf8_escape(s, len, out + used, &n);

		used += n;
		s += taken;
		len -= taken;
	}
	return used;
}

/* Can the @n bytes at @s still become a well-formed character? */
static int is_prefix(const char *s, size_t n)
{
	static const char low[3] = { (char)0x80, (char)0x80, (char)0x80 };
	static const char high[3] = { (char)0xbf, (char)0xbf, (char)0xbf };
	char whole[4] = { 0 };
	uint32_t cp;
	size_t need;

	switch ((unsigned char)s[0] >> 4) {
	case 0xc:
	case 0xd:
		need = 2;
		break;
	case 0xe:
		need = 3;
		break;
	case 0xf:
		need = 4;
		break;
	default:
		return 0;
	}
	if (n >= need)
		return 0;
	/* The allowed range of the second byte reaches one of its ends for each lead byte. */
	memcpy(whole, s, n);
	memcpy(whole + n, low, need - n);
	if (utf8_decode(whole, need, &cp) == need)
		return 1;
	memcpy(whole + n, high, need - n);
	return utf8_decode(whole, need, &cp) == need;
}

/*
 * One byte of text. At most TERMCLEAN_OUT_SIZE(1) bytes come out: 3 pending ones and this one, as
 * \xNN each.
 */
static size_t feed_text(struct termclean *tc, unsigned char c, char *out)
{
	char ch = (char)c;
	size_t used = 0;
	uint32_t cp;

	if (tc->n_pending > 0) {
		tc->pending[tc->n_pending++] = ch;
		if (is_prefix(tc->pending, tc->n_pending))
			return 0;
		if (utf8_decode(tc->pending, tc->n_pending, &cp) == tc->n_pending) {
			used = put_escaped(tc->pending, tc->n_pending, out);
			tc->n_pending = 0;
			return used;
		}
		/* Broken by this byte, which may start another character. */
		used = put_escaped(tc->pending, tc->n_pending - 1u, out);
		tc->n_pending = 0;
	}
	if (c == ESC) {
		tc->state = ESCAPE;
		tc->taken = 0;
	} else if (c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0x7f)) {
		out[used++] = ch;
	} else if (is_prefix(&ch, 1)) {
		tc->pending[0] = ch;
		tc->n_pending = 1;
	} else {
		used += put_escaped(&ch, 1, out + used);
	}
	return used;
}

static size_t back_to_text(struct termclean *tc, unsigned char c, char *out)
{
	tc->state = TEXT;
	return feed_text(tc, c, out);
}

static size_t feed_escape(struct termclean *tc, unsigned char c, char *out)
{
	if (c == '[')
		tc->state = CSI;
	else if (c && strchr("]P_^X", c))
		tc->state = STRING;
	else if (c >= 0x20 && c <= 0x2f)
		tc->state = INTERMEDIATE;
	else if (c >= 0x30 && c <= 0x7e)
		tc->state = TEXT;
	else
		return back_to_text(tc, c, out);
	return 0;
}

/* Parameters and intermediates are 0x20 to 0x3f for CSI, 0x20 to 0x2f otherwise. */
static size_t feed_sequence(struct termclean *tc, unsigned char c, char *out)
{
	unsigned char last = tc->state == CSI ? 0x3f : 0x2f;

	if (c > last && c <= 0x7e)
		tc->state = TEXT;
	else if (c == CAN || c == SUB)
		tc->state = TEXT;
	else if (c < 0x20 || c > last || ++tc->taken > TERMCLEAN_SEQUENCE_MAX)
		return back_to_text(tc, c, out);
	return 0;
}

static size_t feed_string(struct termclean *tc, unsigned char c, char *out)
{
	/* ESC \ ends a string and is itself a sequence; so is whatever else follows an ESC. */
	if (c == ESC || c == '\n' || c == '\r')
		return back_to_text(tc, c, out);
	if (c == BEL || c == CAN || c == SUB || ++tc->taken >= TERMCLEAN_STRING_MAX)
		tc->state = TEXT;
	return 0;
}

size_t termclean_feed(struct termclean *tc, const char *in, size_t n, char *out)
{
	size_t used = 0, i;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)in[i];

		switch (tc->state) {
		case ESCAPE:
			used += feed_escape(tc, c, out + used);
			break;
		case INTERMEDIATE:
		case CSI:
			used += feed_sequence(tc, c, out + used);
			break;
		case STRING:
			used += feed_string(tc, c, out + used);
			break;
		default:
			used += feed_text(tc, c, out + used);
			break;
		}
	}
	return used;
}

size_t termclean_finish(struct termclean *tc, char *out)
{
	size_t used = put_escaped(tc->pending, tc->n_pending, out);

	memset(tc, 0, sizeof(*tc));
	return used;
}

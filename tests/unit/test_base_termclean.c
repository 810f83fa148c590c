/* SPDX-License-Identifier: Apache-2.0 */
#include "base/termclean.h"
#include "tap.h"

struct row {
	const char *in;
	size_t len;
	const char *want;
};

#define ROW(in, want) { in, sizeof(in) - 1, want }

static const struct row rows[] = {
	ROW("plain text\r\n\tok", "plain text\r\n\tok"),
	ROW("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
	    "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
	/* Controls. */
	ROW("a\0b\x07\x08\x0b\x0c\x0e\x7f", "a\\x00b\\x07\\x08\\x0b\\x0c\\x0e\\x7f"),
	/* CSI: colours, screen modes, reports. */
	ROW("\x1b[31mred\x1b[0m", "red"),
	ROW("\x1b[?1049h\x1b[21tx", "x"),
	ROW("\x1b[1;2;3 q.", "."),
	ROW("\x1b[31\nm", "\nm"),
	ROW("\x1b[3\x1b[1mx", "x"),
	ROW("\x1b[3\x18x", "x"),
	ROW("\x1b[3\xc3\xbcx", "\xc3\xbcx"),
	/* OSC: clipboard, links, titles; both ends. */
	ROW("\x1b]52;c;QUJD\x07x", "x"),
	ROW("\x1b]52;c;QUJD\x1b\\x", "x"),
	ROW("\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\", "link"),
	ROW("\x1b]0;t\xe2\x9c\x93t\x07x", "x"),
	ROW("\x1b]0;title\x1b[31mred", "red"),
	ROW("\x1b]0;never ended\nnext line", "\nnext line"),
	/* DCS, APC, PM, SOS. */
	ROW("\x1bP$q\"p\x1b\\x", "x"),
	ROW("\x1b_Gf=1;AAAA\x1b\\x", "x"),
	ROW("\x1b^pm\x1b\\x", "x"),
	ROW("\x1bXsos\x1b\\x", "x"),
	/* Short escapes. */
	ROW("\x1b"
	    "cx\x1b(Bx\x1b#8x\x1b"
	    "7x",
	    "xxxx"),
	ROW("\x1b\x1b[1mx", "x"),
	ROW("\x1b\nx", "\nx"),
	ROW("\x1b(\nx", "\nx"),
	ROW("\x1b\xc3\xbc", "\xc3\xbc"),
	ROW("\x1b", ""),
	/* C1, raw and as UTF-8. */
	ROW("\x9b"
	    "31mx\x9d"
	    "0;t\x9c",
	    "\\x9b31mx\\x9d0;t\\x9c"),
	ROW("\xc2\x9b"
	    "31m\xc2\x85",
	    "\\u009b31m\\u0085"),
	/* Broken UTF-8. */
	ROW("\xff\xfe", "\\xff\\xfe"),
	ROW("\xc3(", "\\xc3("),
	ROW("\xe2\x82(", "\\xe2\\x82("),
	ROW("\xe2\x82\xe2\x82\xac", "\\xe2\\x82\xe2\x82\xac"),
	ROW("\xf0\x9f\x98\x1b[1mx", "\\xf0\\x9f\\x98x"),
	ROW("\xc0\xaf\xe0\x80\xaf\xed\xa0\x80", "\\xc0\\xaf\\xe0\\x80\\xaf\\xed\\xa0\\x80"),
	ROW("\xf4\x90\x80\x80\xf5", "\\xf4\\x90\\x80\\x80\\xf5"),
	ROW("\xf0\x80\x80\x80", "\\xf0\\x80\\x80\\x80"),
	ROW("end\xe2\x82", "end\\xe2\\x82"),
	/* Text that reorders its surroundings. */
	ROW("a\xe2\x80\xae"
	    "b\xe2\x80\xac\xe2\x81\xa6\xe2\x81\xa9",
	    "a\\u202eb\\u202c\\u2066\\u2069"),
};

static size_t clean(const char *in, size_t len, size_t cut1, size_t cut2, char *out)
{
	struct termclean tc = { 0 };
	size_t n;

	n = termclean_feed(&tc, in, cut1, out);
	n += termclean_feed(&tc, in + cut1, cut2 - cut1, out + n);
	n += termclean_feed(&tc, in + cut2, len - cut2, out + n);
	n += termclean_finish(&tc, out + n);
	out[n] = '\0';
	return n;
}

static void test_table(void)
{
	char out[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		clean(rows[i].in, rows[i].len, 0, 0, out);
		CHECK_STR(out, rows[i].want);
	}
}

static void test_cuts_change_nothing(void)
{
	char out[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t a = 0; a <= rows[i].len; a++)
			for (size_t b = a; b <= rows[i].len; b++) {
				clean(rows[i].in, rows[i].len, a, b, out);
				CHECK_MSG(strcmp(out, rows[i].want) == 0, "row %zu cut at %zu, %zu",
					  i, a, b);
			}
}

static void test_unended_strings_are_bounded(void)
{
	static const char *const starts[] = { "\x1b]0;", "\x1bP", "\x1b_", "\x1b^", "\x1bX" };
	size_t len = 3 * TERMCLEAN_STRING_MAX;
	char *in = malloc(len), *out = malloc(TERMCLEAN_OUT_SIZE(len));

	REQUIRE(in && out);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct termclean tc = { 0 };
		size_t n;

		memset(in, 'x', len);
		memcpy(in, starts[i], strlen(starts[i]));
		n = termclean_feed(&tc, in, len, out);
		CHECK_INT(n, len - 2 - TERMCLEAN_STRING_MAX);
	}
	/* A CSI of parameters without end. */
	struct termclean tc = { 0 };

	memset(in, '1', len);
	in[0] = '\x1b';
	in[1] = '[';
	CHECK_INT(termclean_feed(&tc, in, len, out), len - 2 - TERMCLEAN_SEQUENCE_MAX);
	free(in);
	free(out);
}

/* Whatever comes in: no control byte comes out but the three allowed, and it fits. */
static void test_random_input(void)
{
	uint32_t seed = 12345;
	char in[256], *out = malloc(TERMCLEAN_OUT_SIZE(sizeof(in)));
	struct termclean tc = { 0 };

	REQUIRE(out);
	for (int round = 0; round < 20000; round++) {
		size_t len, n;

		seed = seed * 1664525u + 1013904223u;
		len = (seed >> 16) % sizeof(in);
		for (size_t i = 0; i < len; i++) {
			static const char likely[] =
				"\x1b[]P_^X\\;0m\x07\n\xc2\x9b\xe2\x80\xae\xf0\x9f";

			seed = seed * 1664525u + 1013904223u;
			in[i] = seed >> 31 ? likely[(seed >> 8) % (sizeof(likely) - 1)]
					   : (char)(seed >> 16);
		}
		n = termclean_feed(&tc, in, len, out);
		CHECK(n <= TERMCLEAN_OUT_SIZE(len));
		for (size_t i = 0; i < n; i++) {
			unsigned char c = (unsigned char)out[i];

			CHECK(c >= 0x20 || c == '\t' || c == '\n' || c == '\r');
			CHECK(c != 0x7f);
			CHECK(c != 0xc2 || i + 1 >= n || (unsigned char)out[i + 1] >= 0xa0);
		}
	}
	free(out);
}

TAP_MAIN(test_table, test_cuts_change_nothing, test_unended_strings_are_bounded, test_random_input)

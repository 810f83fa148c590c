/* SPDX-License-Identifier: Apache-2.0 */
/* Durations, sizes, counts: what is read, what is refused and with which words. */
#include "base/units.h"
#include "tap.h"

typedef int parse_fn(const char *text, int64_t *ret, struct cordon_error *err);

struct row {
	const char *text;
	int64_t value;
	const char *message; /* NULL = accepted */
};

static void check_rows(parse_fn *parse, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct cordon_error err = CORDON_ERROR_INIT;
		int64_t value = -77;
		int r = parse(rows[i].text, &value, &err);

		if (rows[i].message) {
			CHECK_MSG(r == -CORDON_E_POLICY, "'%s' gave %d", rows[i].text, r);
			CHECK_STR(err.msg, rows[i].message);
			CHECK_INT(value, -77);
			CHECK_INT(parse(rows[i].text, &value, NULL), -CORDON_E_POLICY);
		} else {
			CHECK_MSG(r == 0, "'%s' gave %d: %s", rows[i].text, r, err.msg);
			CHECK_INT(value, rows[i].value);
			CHECK_STR(err.msg, "");
		}
	}
}

static void test_durations(void)
{
	static const struct row rows[] = {
		{ "500ms", 500, NULL },
		{ "30s", 30000, NULL },
		{ "30", 30000, NULL },
		{ "5m", 300000, NULL },
		{ "1h", 3600000, NULL },
		{ "1.5s", 1500, NULL },
		{ "0.25", 250, NULL },
		{ "0.5ms", 0, NULL },
		{ "1.999999999s", 1999, NULL },
		{ "0", 0, NULL },
		{ "007s", 7000, NULL },
		{ "9223372036854775807ms", INT64_MAX, NULL },
		{ "", 0, "a duration is missing (such as 500ms, 30s or 5m)" },
		{ "-1s", 0, "'-1s' is not a duration: it must not be negative" },
		{ "+1s", 0, "'+1s' is not a duration: a sign is not allowed" },
		{ " 1s", 0, "' 1s' is not a duration: spaces are not allowed" },
		{ "1 s", 0, "'1 s' is not a duration: spaces are not allowed" },
		{ "1s\n", 0, "'1s\\x0a' is not a duration: spaces are not allowed" },
		{ "0x10", 0, "'0x10' is not a duration: it must be decimal, not hexadecimal" },
		{ "nan", 0, "'nan' is not a duration: it must be finite" },
		{ "Infinity", 0, "'Infinity' is not a duration: it must be finite" },
		{ "abc", 0, "'abc' is not a duration: it must start with a digit" },
		{ ".5s", 0, "'.5s' is not a duration: it must start with a digit" },
		{ "5.s", 0, "'5.s' is not a duration: a digit must follow the point" },
		{ "1,5s", 0,
		  "'1,5s' is not a duration: the decimal separator is a point, and digits are not "
		  "grouped" },
		{ "1.0000000001s", 0,
		  "'1.0000000001s' is not a duration: it has more than 9 decimals" },
		{ "1e3", 0,
		  "'1e3' is not a duration: unknown unit 'e3' (units are ms, s, m and h)" },
		{ "5d", 0, "'5d' is not a duration: unknown unit 'd' (units are ms, s, m and h)" },
		{ "1S", 0, "'1S' is not a duration: unknown unit 'S' (units are ms, s, m and h)" },
		{ "1m30s", 0,
		  "'1m30s' is not a duration: unknown unit 'm30s' (units are ms, s, m and h)" },
		{ "9223372036854775808ms", 0,
		  "'9223372036854775808ms' is not a duration: it is too large" },
		{ "9223372036854775807h", 0,
		  "'9223372036854775807h' is not a duration: it is too large" },
		{ "9223372036854775.808s", 0,
		  "'9223372036854775.808s' is not a duration: it is too large" },
	};

	check_rows(units_parse_duration, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_sizes(void)
{
	static const struct row rows[] = {
		{ "4096", 4096, NULL },
		{ "64K", 65536, NULL },
		{ "64k", 65536, NULL },
		{ "1M", 1 << 20, NULL },
		{ "1.5G", 3LL << 29, NULL },
		{ "2GiB", 2LL << 30, NULL },
		{ "2gib", 2LL << 30, NULL },
		{ "1TiB", 1LL << 40, NULL },
		{ "100B", 100, NULL },
		{ "1.3K", 1331, NULL },
		{ "0.999999999T", 1099511626676, NULL },
		{ "0", 0, NULL },
		{ "8388607T", 8388607LL << 40, NULL },
		{ "8388608T", 0, "'8388608T' is not a size: it is too large" },
		{ "1MB", 0,
		  "'1MB' is not a size: 'MB' can mean two things, write 'M' or 'MiB' "
		  "(1024-based)" },
		{ "1kb", 0,
		  "'1kb' is not a size: 'kb' can mean two things, write 'K' or 'KiB' "
		  "(1024-based)" },
		{ "1X", 0,
		  "'1X' is not a size: unknown unit 'X' (units are K, M, G and T, or KiB, MiB, GiB "
		  "and "
		  "TiB)" },
		{ "", 0, "a size is missing (such as 64K, 1M or 2G)" },
		{ "-1", 0, "'-1' is not a size: it must not be negative" },
		{ "M", 0, "'M' is not a size: it must start with a digit" },
	};

	check_rows(units_parse_size, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_counts(void)
{
	static const struct row rows[] = {
		{ "64", 64, NULL },
		{ "0", 0, NULL },
		{ "9223372036854775807", INT64_MAX, NULL },
		{ "9223372036854775808", 0,
		  "'9223372036854775808' is not a number: it is too large" },
		{ "1.5", 0, "'1.5' is not a number: it must be a whole number" },
		{ "64K", 0, "'64K' is not a number: only digits are allowed" },
		{ "", 0, "a number is missing (such as 64)" },
		{ "-3", 0, "'-3' is not a number: it must not be negative" },
		{ "0x4", 0, "'0x4' is not a number: it must be decimal, not hexadecimal" },
		{ "\x1b[1m", 0, "'\\x1b[1m' is not a number: it must start with a digit" },
	};

	check_rows(units_parse_count, rows, sizeof(rows) / sizeof(rows[0]));
}

static void test_format(void)
{
	static const int64_t values[] = { 0,	     1,		999,	   1000,
					  1500,	     60000,	90000,	   3600000,
					  86400000,  1024,	1025,	   1 << 20,
					  3LL << 29, 1LL << 40, INT64_MAX, INT64_MAX - 1,
					  4096,	     65536 };
	char text[UNITS_TEXT_MAX];
	int64_t back;

	CHECK_STR(units_format_duration(0, text), "0ms");
	CHECK_STR(units_format_duration(1500, text), "1500ms");
	CHECK_STR(units_format_duration(90000, text), "90s");
	CHECK_STR(units_format_duration(3600000, text), "1h");
	CHECK_STR(units_format_size(0, text), "0");
	CHECK_STR(units_format_size(1000, text), "1000");
	CHECK_STR(units_format_size(1 << 20, text), "1M");
	CHECK_STR(units_format_size(3LL << 29, text), "1536M");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		back = -1;
		CHECK_INT(units_parse_duration(units_format_duration(values[i], text), &back, NULL),
			  0);
		CHECK_INT(back, values[i]);
		back = -1;
		CHECK_INT(units_parse_size(units_format_size(values[i], text), &back, NULL), 0);
		CHECK_INT(back, values[i]);
	}
}

TAP_MAIN(test_durations, test_sizes, test_counts, test_format)

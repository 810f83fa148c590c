/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/err.h"

struct unit {
	const char *name;
	int64_t factor;
};

static const struct unit duration_units[] = {
	{ "h", 3600000 },
	{ "m", 60000 },
	{ "s", 1000 },
	{ "ms", 1 },
};

static const struct unit size_units[] = {
	{ "T", 1LL << 40 },   { "G", 1LL << 30 },   { "M", 1LL << 20 },
	{ "K", 1LL << 10 },   { "B", 1 },	    { "TiB", 1LL << 40 },
	{ "GiB", 1LL << 30 }, { "MiB", 1LL << 20 }, { "KiB", 1LL << 10 },
};

/* What one kind of quantity looks like; everything the messages need. */
struct grammar {
	const char *kind, *example, *unit_list;
	const struct unit *units;
	size_t n_units;
	int64_t bare_factor;
	int fractions, any_case;
};

static const struct grammar durations = {
	.kind = "duration",
	.example = "500ms, 30s or 5m",
	.unit_list = "ms, s, m and h",
	.units = duration_units,
	.n_units = ARRAY_SIZE(duration_units),
	.bare_factor = 1000,
	.fractions = 1,
};

static const struct grammar sizes = {
	.kind = "size",
	.example = "64K, 1M or 2G",
	.unit_list = "K, M, G and T, or KiB, MiB, GiB and TiB",
	.units = size_units,
	.n_units = ARRAY_SIZE(size_units),
	.bare_factor = 1,
	.fractions = 1,
	.any_case = 1,
};

static const struct grammar shares = {
	.kind = "number of CPUs",
	.example = "0.5 or 2",
	.bare_factor = 1000,
	.fractions = 1,
};

static const struct grammar counts = {
	.kind = "number",
	.example = "64",
	.bare_factor = 1,
};

static int bad(const struct grammar *g, const char *text, const char *why, struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_POLICY, 0, "'%.64s' is not a %s: %s", text, g->kind, why);
}

/* Mistakes that deserve a message of their own, found before parsing. */
static const char *find_misuse(const char *text)
{
	const char *p;

	if (text[0] == '-')
		return "it must not be negative";
	if (text[0] == '+')
		return "a sign is not allowed";
	for (p = text; *p; p++) {
		if (*p == ' ' || (*p >= '\t' && *p <= '\r'))
			return "spaces are not allowed";
		if (*p == ',')
			return "the decimal separator is a point, and digits are not grouped";
	}
	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return "it must be decimal, not hexadecimal";
	if (strcasecmp(text, "nan") == 0 || strcasecmp(text, "inf") == 0 ||
	    strcasecmp(text, "infinity") == 0)
		return "it must be finite";
	if (!ascii_is_digit(text[0]))
		return "it must start with a digit";
	return NULL;
}

static int find_factor(const struct grammar *g, const char *text, const char *unit,
		       int64_t *ret_factor, struct cordon_error *err)
{
	size_t i;

	if (!*unit) {
		*ret_factor = g->bare_factor;
		return 0;
	}
	for (i = 0; i < g->n_units; i++) {
		const char *name = g->units[i].name;

		if (strcmp(unit, name) == 0 || (g->any_case && strcasecmp(unit, name) == 0)) {
			*ret_factor = g->units[i].factor;
			return 0;
		}
	}
	if (g->n_units == 0)
		return bad(g, text,
			   g->fractions ? "only digits and a point are allowed"
					: "only digits are allowed",
			   err);
	/* 1000 or 1024 bytes? Do not guess. */
	if (g == &sizes && strlen(unit) == 2 && strchr("KMGTkmgt", unit[0]) &&
	    (unit[1] == 'B' || unit[1] == 'b'))
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "'%.64s' is not a %s: '%s' can mean two things, write '%c' or "
				  "'%ciB' (1024-based)",
				  text, g->kind, unit, unit[0] & ~0x20, unit[0] & ~0x20);
	return cordon_err(err, CORDON_E_POLICY, 0,
			  "'%.64s' is not a %s: unknown unit '%.16s' (units are %s)", text, g->kind,
			  unit, g->unit_list);
}

static int parse(const struct grammar *g, const char *text, int64_t *ret, struct cordon_error *err)
{
	int64_t whole = 0, fraction = 0, scale = 1, factor = 0, value;
	const char *p = text, *misuse;
	int r;

	if (!*text)
		return cordon_err(err, CORDON_E_POLICY, 0, "a %s is missing (such as %s)", g->kind,
				  g->example);
	misuse = find_misuse(text);
	if (misuse)
		return bad(g, text, misuse, err);
	for (; ascii_is_digit(*p); p++) {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *p - '0', &whole))
			return bad(g, text, "it is too large", err);
	}
	if (*p == '.') {
		if (!g->fractions)
			return bad(g, text, "it must be a whole number", err);
		if (!ascii_is_digit(*++p))
			return bad(g, text, "a digit must follow the point", err);
		for (; ascii_is_digit(*p); p++) {
			if (scale >= 1000000000)
				return bad(g, text, "it has more than 9 decimals", err);
			fraction = fraction * 10 + (*p - '0');
			scale *= 10;
		}
	}
	r = find_factor(g, text, p, &factor, err);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow(whole, factor, &whole))
		return bad(g, text, "it is too large", err);
	/* 10^9 decimals times the largest unit do not fit 64 bits. */
	fraction = (int64_t)((__int128)fraction * factor / scale);
	if (__builtin_add_overflow(whole, fraction, &value))
		return bad(g, text, "it is too large", err);
	*ret = value;
	return 0;
}

int units_parse_duration(const char *text, int64_t *ret_ms, struct cordon_error *err)
{
	return parse(&durations, text, ret_ms, err);
}

int units_parse_size(const char *text, int64_t *ret_bytes, struct cordon_error *err)
{
	return parse(&sizes, text, ret_bytes, err);
}

int units_parse_share(const char *text, int64_t *ret_milli, struct cordon_error *err)
{
	return parse(&shares, text, ret_milli, err);
}

int units_parse_count(const char *text, int64_t *ret, struct cordon_error *err)
{
	return parse(&counts, text, ret, err);
}

const char *units_format_duration(int64_t ms, char ret[UNITS_TEXT_MAX])
{
	size_t i = 0;

	while (i < ARRAY_SIZE(duration_units) - 1 &&
	       (ms == 0 || ms % duration_units[i].factor != 0))
		i++;
	snprintf(ret, UNITS_TEXT_MAX, "%" PRId64 "%s", ms / duration_units[i].factor,
		 duration_units[i].name);
	return ret;
}

const char *units_format_size(int64_t bytes, char ret[UNITS_TEXT_MAX])
{
	size_t i;

	for (i = 0; size_units[i].factor > 1; i++) {
		if (bytes > 0 && bytes % size_units[i].factor == 0) {
			snprintf(ret, UNITS_TEXT_MAX, "%" PRId64 "%s", bytes / size_units[i].factor,
				 size_units[i].name);
			return ret;
		}
	}
	snprintf(ret, UNITS_TEXT_MAX, "%" PRId64, bytes);
	return ret;
}

const char *units_format_share(int64_t milli, char ret[UNITS_TEXT_MAX])
{
	int n = snprintf(ret, UNITS_TEXT_MAX, "%" PRId64 ".%03" PRId64, milli / 1000, milli % 1000);

	while (n > 0 && ret[n - 1] == '0')
		ret[--n] = '\0';
	if (n > 0 && ret[n - 1] == '.')
		ret[n - 1] = '\0';
	return ret;
}

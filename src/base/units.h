/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations, sizes and counts as people write them.
 *
 * Strict: the whole text must be a number with at most one unit; no spaces, signs, exponents or
 * hex. On failure the message names the text and what is wrong with it (code CORDON_E_POLICY); the
 * caller puts the key or flag in front with cordon_err_prefix(). Zero is
 * accepted; a caller that cannot use it refuses it. Independent of the locale.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdint.h>

#include <cordon/error.h>

#include "base/macros.h"

/* "500ms", "30s", "1.5s", "5m", "1h"; without a unit: seconds. Rounded down to milliseconds. */
int units_parse_duration(const char *text, int64_t *ret_ms, struct cordon_error *err) CHECK_RESULT;

/* "4096", "64K", "1.5M", "2GiB"; a K is 1024; without a unit: bytes. Rounded down to bytes. */
int units_parse_size(const char *text, int64_t *ret_bytes, struct cordon_error *err) CHECK_RESULT;

/* "64": a whole number. */
int units_parse_count(const char *text, int64_t *ret, struct cordon_error *err) CHECK_RESULT;

/* "0.5", "2": a share of one CPU, in thousandths. Rounded down. */
int units_parse_share(const char *text, int64_t *ret_milli, struct cordon_error *err) CHECK_RESULT;

#define UNITS_TEXT_MAX 32

/* The shortest exact text with the largest fitting unit; reads back as the same value. @value must
 * not be negative. All return @ret. */
const char *units_format_duration(int64_t ms, char ret[UNITS_TEXT_MAX]);
const char *units_format_size(int64_t bytes, char ret[UNITS_TEXT_MAX]);
const char *units_format_share(int64_t milli, char ret[UNITS_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Text and numbers, for code without libc. */
#ifndef BARE_TEXT_H
#define BARE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/ascii.h"

#define NUMBER_DIGITS_MAX 20

/* In decimal, without a NUL; how many there are. */
static inline size_t put_digits(char *ret, uint64_t number)
{
	char digits[NUMBER_DIGITS_MAX];
	size_t n = 0, len = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (n)
		ret[len++] = digits[--n];
	return len;
}

/* Appends as much of @text as fits; there is always a NUL. Returns the new end. */
static inline size_t append_text(char *ret, size_t at, size_t cap, const char *text)
{
	while (*text && at + 1 < cap)
		ret[at++] = *text++;
	ret[at] = '\0';
	return at;
}

static inline size_t append_number(char *ret, size_t at, size_t cap, uint64_t number)
{
	char digits[NUMBER_DIGITS_MAX + 1];

	digits[put_digits(digits, number)] = '\0';
	return append_text(ret, at, cap, digits);
}

/* "@prefix@number" */
static inline size_t text_number(char *ret, size_t cap, const char *prefix, uint64_t number)
{
	return append_number(ret, append_text(ret, 0, cap, prefix), cap, number);
}

static inline bool starts_with(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return false;
	return true;
}

/* Decimal digits, as many as there are; returns what follows them. */
static inline const char *read_number(const char *s, uint64_t *ret)
{
	uint64_t value = 0;

	for (; ascii_is_digit(*s); s++)
		value = value * 10 + (uint64_t)(*s - '0');
	*ret = value;
	return s;
}

/* The same for hexadecimal ones. */
static inline const char *read_hex(const char *s, uint64_t *ret)
{
	uint64_t value = 0;

	for (; ascii_hex_value(*s) >= 0; s++)
		value = value << 4 | (uint64_t)ascii_hex_value(*s);
	*ret = value;
	return s;
}

#endif

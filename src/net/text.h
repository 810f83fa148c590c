/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the text of rules, ports and addresses. */
#ifndef NET_TEXT_H
#define NET_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "bare/text.h"
#include "base/ascii.h"

/* A decimal number of at most five digits without leading zeros, at most @max. -1 if it is none. */
static inline int text_parse_number(const char *text, size_t len, int max)
{
	int value = 0;

	if (len == 0 || len > 5 || (text[0] == '0' && len > 1))
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (!ascii_is_digit(text[i]))
			return -1;
		value = value * 10 + (text[i] - '0');
	}
	return value <= max ? value : -1;
}

/* Both return the new end; the caller has checked that there is room. */
static inline char *text_put(char *out, const char *text)
{
	while (*text)
		*out++ = *text++;
	return out;
}

static inline char *text_put_number(char *out, uint64_t value)
{
	return out + put_digits(out, value);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Putting text together, and what compilers and parsers call. */
#include "gateway/gateway.h"

#include "sys/freestanding.h"

/* Appends as much of @text as fits; there is always a NUL. Returns the new end. */
size_t text_put(char *ret, size_t at, size_t cap, const char *text)
{
	while (*text && at + 1 < cap)
		ret[at++] = *text++;
	ret[at] = '\0';
	return at;
}

size_t text_put_number(char *ret, size_t at, size_t cap, uint64_t number)
{
	char digits[21];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do {
		digits[--i] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return text_put(ret, at, cap, digits + i);
}

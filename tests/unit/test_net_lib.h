/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the network's parsers share: bytes put together one by one, and copies of them
 * that have nothing readable behind their end. */
#ifndef TESTS_UNIT_TEST_NET_LIB_H
#define TESTS_UNIT_TEST_NET_LIB_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX (128 << 10)

struct bytes {
	size_t len;
	uint8_t b[BYTES_MAX];
};

static inline void put_bytes(struct bytes *to, const void *from, size_t len)
{
	if (BYTES_MAX - to->len < len)
		abort();
	memcpy(to->b + to->len, from, len);
	to->len += len;
}

static inline void put_text(struct bytes *to, const char *text)
{
	put_bytes(to, text, strlen(text));
}

static inline void put_u8(struct bytes *to, unsigned value)
{
	put_bytes(to, &(uint8_t){ (uint8_t)value }, 1);
}

static inline void put_u16(struct bytes *to, unsigned value)
{
	put_u8(to, value >> 8);
	put_u8(to, value);
}

static inline void put_u32(struct bytes *to, uint32_t value)
{
	put_u16(to, value >> 16);
	put_u16(to, value);
}

/* An allocation of exactly this size, for the address sanitizer; the caller frees it. */
static inline void *exact_copy(const void *from, size_t len)
{
	void *copy = malloc(len ? len : 1);

	if (!copy)
		abort();
	memcpy(copy, from, len);
	return copy;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Big-endian numbers; the caller has checked the length. */
#ifndef NET_BYTES_H
#define NET_BYTES_H

#include <stdint.h>

static inline uint16_t be16_get(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t be32_get(const uint8_t *p)
{
	return (uint32_t)be16_get(p) << 16 | be16_get(p + 2);
}

static inline uint8_t *be16_put(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
	return p + 2;
}

static inline uint8_t *be32_put(uint8_t *p, uint32_t value)
{
	return be16_put(be16_put(p, (uint16_t)(value >> 16)), (uint16_t)value);
}

#endif

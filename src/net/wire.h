/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in network order; the caller has checked that the bytes are there. */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include <stdint.h>

static inline uint16_t wire_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t wire_u32(const uint8_t *p)
{
	return (uint32_t)wire_u16(p) << 16 | wire_u16(p + 2);
}

static inline uint8_t *wire_put_u16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
	return p + 2;
}

static inline uint8_t *wire_put_u32(uint8_t *p, uint32_t value)
{
	return wire_put_u16(wire_put_u16(p, (uint16_t)(value >> 16)), (uint16_t)value);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* As FIPS 180-4 describes it. */
#include "base/sha1.h"

#include <string.h>

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void expand(const unsigned char *block, uint32_t w[80])
{
	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
}

static void work(uint32_t h[5], const unsigned char *block)
{
	uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], w[80];

	expand(block, w);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f, k, t;

		if (i < 20) {
			f = (b & c) | (~b & d);
			k = 0x5a827999;
		} else if (i < 40) {
			f = b ^ c ^ d;
			k = 0x6ed9eba1;
		} else if (i < 60) {
			f = (b & c) | (b & d) | (c & d);
			k = 0x8f1bbcdc;
		} else {
			f = b ^ c ^ d;
			k = 0xca62c1d6;
		}
		t = rotate(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void sha1_start(struct sha1 *s)
{
	static const uint32_t first[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
					   0xc3d2e1f0 };

	memcpy(s->h, first, sizeof(first));
	s->len = 0;
}

void sha1_add(struct sha1 *s, const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t have = s->len % sizeof(s->block);

	s->len += len;
	while (len > 0) {
		size_t n = sizeof(s->block) - have;

		if (have == 0 && len >= sizeof(s->block)) {
			work(s->h, p);
			p += sizeof(s->block);
			len -= sizeof(s->block);
			continue;
		}
		if (n > len)
			n = len;
		memcpy(s->block + have, p, n);
		p += n;
		len -= n;
		have += n;
		if (have == sizeof(s->block)) {
			work(s->h, s->block);
			have = 0;
		}
	}
}

void sha1_end(struct sha1 *s, unsigned char ret[SHA1_SIZE])
{
	static const unsigned char pad[64] = { 0x80 };
	uint64_t bits = s->len * 8;
	unsigned char size[8];

	for (unsigned i = 0; i < sizeof(size); i++)
		size[i] = (unsigned char)(bits >> (56 - 8 * i));
	sha1_add(s, pad, 1 + (119 - s->len % 64) % 64);
	sha1_add(s, size, sizeof(size));
	for (unsigned i = 0; i < SHA1_SIZE; i++)
		ret[i] = (unsigned char)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

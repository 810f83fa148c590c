/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, for names that stand for content. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define SHA256_HEX (2 * SHA256_SIZE + 1)

struct sha256 {
	uint32_t h[8];
	uint64_t len;
	unsigned char block[64];
};

void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, unsigned char ret[SHA256_SIZE]);
/* The same as hexadecimal text. */
void sha256_end_hex(struct sha256 *s, char ret[SHA256_HEX]);

#endif

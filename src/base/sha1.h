/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1, for git's object names and to tell contents apart. Nothing's safety rests on it. */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define SHA1_SIZE 20

struct sha1 {
	uint32_t h[5];
	uint64_t len;
	unsigned char block[64];
};

void sha1_start(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *data, size_t len);
void sha1_end(struct sha1 *s, unsigned char ret[SHA1_SIZE]);

#endif

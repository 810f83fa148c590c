/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 against published vectors, and in pieces of every length. */
#include "base/sha1.h"

#include "tap.h"

static const char *hex(const void *data, size_t len)
{
	static char text[2 * SHA1_SIZE + 1];
	unsigned char sum[SHA1_SIZE];
	struct sha1 s;

	sha1_start(&s);
	sha1_add(&s, data, len);
	sha1_end(&s, sum);
	for (size_t i = 0; i < SHA1_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", sum[i]);
	return text;
}

static void test_vectors(void)
{
	static char million[1000000];
	const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

	CHECK_STR(hex("", 0), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	CHECK_STR(hex("abc", 3), "a9993e364706816aba3e25717850c26c9cd0d89d");
	CHECK_STR(hex(two, strlen(two)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
	memset(million, 'a', sizeof(million));
	CHECK_STR(hex(million, sizeof(million)), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
	/* What git calls an empty file. */
	CHECK_STR(hex("blob 0", 7), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

/* The padding has its own case for each length modulo 64; what comes in pieces is the same. */
static void test_pieces(void)
{
	unsigned char data[300], whole[SHA1_SIZE], parts[SHA1_SIZE];
	struct sha1 s;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7);
	for (size_t len = 0; len <= sizeof(data); len++) {
		sha1_start(&s);
		sha1_add(&s, data, len);
		sha1_end(&s, whole);
		for (size_t piece = 1; piece <= 130; piece += 43) {
			sha1_start(&s);
			for (size_t at = 0; at < len; at += piece)
				sha1_add(&s, data + at, piece < len - at ? piece : len - at);
			sha1_end(&s, parts);
			CHECK_MSG(memcmp(whole, parts, SHA1_SIZE) == 0,
				  "length %zu in pieces of %zu", len, piece);
		}
	}
}

TAP_MAIN(test_vectors, test_pieces)

/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 against published vectors, and in pieces of every length. */
#include "base/sha256.h"

#include "tap.h"

static const char *hex(const void *data, size_t len, size_t piece)
{
	static char text[SHA256_HEX];
	struct sha256 s;

	sha256_start(&s);
	for (size_t at = 0; at < len; at += piece)
		sha256_add(&s, (const char *)data + at, piece < len - at ? piece : len - at);
	sha256_end_hex(&s, text);
	return text;
}

static void test_vectors(void)
{
	static char million[1000000];
	const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

	CHECK_STR(hex("", 0, 1),
		  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	CHECK_STR(hex("abc", 3, 3),
		  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	CHECK_STR(hex(two, strlen(two), 64),
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(million, 'a', sizeof(million));
	CHECK_STR(hex(million, sizeof(million), 977),
		  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The padding has its own case for each length modulo 64; what comes in pieces is the same. */
static void test_pieces(void)
{
	char data[300], whole[SHA256_HEX];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	for (size_t len = 0; len <= sizeof(data); len++) {
		snprintf(whole, sizeof(whole), "%s", hex(data, len, sizeof(data)));
		for (size_t piece = 1; piece <= 130; piece += 43)
			CHECK_STR(hex(data, len, piece), whole);
	}
}

TAP_MAIN(test_vectors, test_pieces)

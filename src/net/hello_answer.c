/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server says to a hello. With TLS 1.3 it may ask for another one (HelloRetryRequest, which
 * is a ServerHello with one certain random value), and then the second is the one that counts.
 */
#include "net/hello.h"

#include <string.h>

#include "net/bytes.h"

#define RECORD_MAX (16 << 10)
#define RECORD_CHANGE_CIPHER 20
#define RECORD_HANDSHAKE 22
#define MAJOR_VERSION 3
#define MESSAGE_SERVER_HELLO 2
#define MESSAGE_HEADER_LEN 4
#define MESSAGE_MAX (64u << 10)

/* RFC 8446, 4.1.3: SHA-256 of "HelloRetryRequest". */
static const uint8_t retry_random[32] = {
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
	0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
	0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

/* Change of cipher, alert or handshake; nothing else comes within a handshake message. */
static bool header_is_sound(const struct hello_answer *a)
{
	size_t len;

	if (a->header[0] < RECORD_CHANGE_CIPHER || a->header[0] > RECORD_HANDSHAKE ||
	    (a->got > 0 && a->header[0] != RECORD_HANDSHAKE))
		return false;
	if (a->n_header >= 2 && a->header[1] != MAJOR_VERSION)
		return false;
	if (a->n_header < sizeof(a->header))
		return true;
	len = be16_get(a->header + 3);
	return len > 0 && len <= RECORD_MAX;
}

/* One more byte of the handshake message. */
static enum answer_result take_byte(struct hello_answer *a, uint8_t byte)
{
	if (a->got < sizeof(a->start))
		a->start[a->got] = byte;
	a->got++;
	if (a->got == 1 && byte != MESSAGE_SERVER_HELLO)
		return ANSWER_STRANGE;
	if (a->got == MESSAGE_HEADER_LEN) {
		a->total =
			MESSAGE_HEADER_LEN + ((uint32_t)a->start[1] << 16 | be16_get(a->start + 2));
		if (a->total <= sizeof(a->start) || a->total > MESSAGE_MAX)
			return ANSWER_STRANGE;
	}
	if (a->got == sizeof(a->start) &&
	    memcmp(a->start + MESSAGE_HEADER_LEN + 2, retry_random, sizeof(retry_random)) != 0)
		return ANSWER_HELLO;
	if (a->got < sizeof(a->start) || a->got < a->total)
		return ANSWER_MORE;
	a->got = 0;
	return ANSWER_RETRY;
}

enum answer_result hello_answer_read(struct hello_answer *a, const uint8_t *data, size_t len,
				     size_t *ret_used)
{
	enum answer_result r = ANSWER_MORE;
	size_t pos = 0;

	while (pos < len && r == ANSWER_MORE) {
		if (a->record_left > 0) {
			a->record_left--;
			if (a->header[0] == RECORD_HANDSHAKE)
				r = take_byte(a, data[pos]);
			pos++;
			continue;
		}
		a->header[a->n_header++] = data[pos++];
		if (!header_is_sound(a))
			r = ANSWER_STRANGE;
		if (a->n_header < sizeof(a->header))
			continue;
		a->record_left = (uint16_t)be16_get(a->header + 3);
		a->n_header = 0;
	}
	*ret_used = pos;
	return r;
}

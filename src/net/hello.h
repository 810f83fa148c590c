/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name in a TLS ClientHello. Called again with more bytes until it is decided, without state
 * between calls. The hello may be split over TLS records and may carry unknown extensions.
 */
#ifndef NET_HELLO_H
#define NET_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/name.h"

#define HELLO_MAX (16 << 10) /* bytes of records that are read */

enum hello_result {
	HELLO_OK = 0,
	HELLO_MORE,	/* not decided yet */
	HELLO_NOT_TLS,	/* the bytes are something else */
	HELLO_BROKEN,	/* TLS, but not well-formed, or ambiguous (two names) */
	HELLO_NO_NAME,	/* no server name in it */
	HELLO_BAD_NAME, /* a server name that is not a host name (name.h) */
	HELLO_TOO_LONG,
};

enum hello_result hello_read(const uint8_t *data, size_t len, char ret[NET_NAME_MAX + 1]);
/* How many of these bytes are the records of a hello that was read; 0 if it is not complete. */
size_t hello_length(const uint8_t *data, size_t len);

/* What the server says to it (hello_answer.c). All zeroes at first. */
struct hello_answer {
	uint8_t header[5], n_header; /* of the record */
	uint16_t record_left;
	uint32_t got, total; /* bytes of the message, with its header */
	uint8_t start[4 + 2 + 32];
};

enum answer_result {
	ANSWER_MORE = 0, /* not decided yet */
	ANSWER_HELLO,	 /* it goes on with this hello */
	ANSWER_RETRY,	 /* it wants another one; the next answer may be read with the same state */
	ANSWER_STRANGE,	 /* anything else */
};

/* Takes bytes as they come, as long as nothing is decided. *ret_used: how many. */
enum answer_result hello_answer_read(struct hello_answer *a, const uint8_t *data, size_t len,
				     size_t *ret_used);

#endif

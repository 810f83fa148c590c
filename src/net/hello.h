/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name in a TLS ClientHello. Called again with more bytes until it is decided, without state
 * between calls. The hello may be split over TLS records and may carry unknown extensions.
 */
#ifndef NET_HELLO_H
#define NET_HELLO_H

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

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS5 (RFC 1928): no authentication, CONNECT only. */
#ifndef NET_SOCKS_H
#define NET_SOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

enum socks_result {
	SOCKS_OK = 0,
	SOCKS_MORE,
	SOCKS_BAD,	   /* not SOCKS5: close */
	SOCKS_NO_METHOD,   /* greeting: wants authentication; answer 0xff */
	SOCKS_NO_COMMAND,  /* request: BIND or UDP ASSOCIATE; answer code 7 */
	SOCKS_BAD_ADDRESS, /* request: no host name by our grammar; answer code 8 or 2 */
};

/* *ret_used: bytes that were understood (SOCKS_OK and the answers above). */
enum socks_result socks_read_greeting(const uint8_t *data, size_t len, size_t *ret_used);
/* The port is never 0 on success. A name that is an IPv4 or IPv6 literal becomes an address. */
enum socks_result socks_read_request(const uint8_t *data, size_t len, size_t *ret_used,
				     struct http_host *ret);

#define SOCKS_REPLY_LEN 10
/* 0 succeeded, 2 not allowed, 4 host unreachable, 5 refused, 7 command, 8 address type. */
void socks_write_reply(uint8_t code, uint8_t ret[SOCKS_REPLY_LEN]);

#endif

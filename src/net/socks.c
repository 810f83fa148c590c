/* SPDX-License-Identifier: Apache-2.0 */
#include "net/socks.h"

#include <string.h>

#include "net/bytes.h"

#define VERSION 5
#define METHOD_NONE 0
#define COMMAND_CONNECT 1
#define FIXED_LEN 4 /* of a request, before its address */

enum address_type {
	ADDRESS_V4 = 1,
	ADDRESS_NAME = 3,
	ADDRESS_V6 = 4
};

enum socks_result socks_read_greeting(const uint8_t *data, size_t len, size_t *ret_used)
{
	size_t n;

	if (len >= 1 && data[0] != VERSION)
		return SOCKS_BAD;
	if (len < 2)
		return SOCKS_MORE;
	n = data[1];
	if (n == 0)
		return SOCKS_BAD;
	if (len - 2 < n)
		return SOCKS_MORE;
	*ret_used = 2 + n;
	for (size_t i = 0; i < n; i++) {
		if (data[2 + i] == METHOD_NONE)
			return SOCKS_OK;
	}
	return SOCKS_NO_METHOD;
}

/* Text that can be read as an address is one, so that the rules for addresses apply. */
static int read_name(const char *text, size_t len, struct http_host *ret)
{
	if (net_addr_parse(text, len, &ret->addr) == 0) {
		ret->is_addr = true;
		return 0;
	}
	return net_name_parse(text, len, ret->name);
}

/* How long is the address that begins at data[FIXED_LEN]? */
static enum socks_result measure(const uint8_t *data, size_t len, size_t *ret)
{
	switch (data[FIXED_LEN - 1]) {
	case ADDRESS_V4:
		*ret = 4;
		return SOCKS_OK;
	case ADDRESS_V6:
		*ret = 16;
		return SOCKS_OK;
	case ADDRESS_NAME:
		if (len <= FIXED_LEN)
			return SOCKS_MORE;
		*ret = 1u + data[FIXED_LEN];
		return SOCKS_OK;
	default:
		return SOCKS_BAD_ADDRESS;
	}
}

enum socks_result socks_read_request(const uint8_t *data, size_t len, size_t *ret_used,
				     struct http_host *ret)
{
	const uint8_t *address = data + FIXED_LEN;
	struct http_host host = { 0 };
	enum socks_result r;
	size_t address_len;

	if ((len >= 1 && data[0] != VERSION) || (len >= 3 && data[2] != 0))
		return SOCKS_BAD;
	if (len < FIXED_LEN)
		return SOCKS_MORE;
	r = measure(data, len, &address_len);
	if (r == SOCKS_BAD_ADDRESS) /* its length is unknown */
		*ret_used = FIXED_LEN;
	if (r != SOCKS_OK)
		return r;
	if (len - FIXED_LEN < address_len + 2)
		return SOCKS_MORE;
	*ret_used = FIXED_LEN + address_len + 2;
	if (data[1] != COMMAND_CONNECT)
		return SOCKS_NO_COMMAND;
	host.port = be16_get(address + address_len);
	if (host.port == 0)
		return SOCKS_BAD_ADDRESS;
	if (data[FIXED_LEN - 1] == ADDRESS_NAME) {
		if (read_name((const char *)address + 1, address_len - 1, &host) < 0)
			return SOCKS_BAD_ADDRESS;
	} else {
		host.is_addr = true;
		if (address_len == 4)
			net_addr_from_v4(address, &host.addr);
		else
			net_addr_from_v6(address, &host.addr);
	}
	*ret = host;
	return SOCKS_OK;
}

void socks_write_reply(uint8_t code, uint8_t ret[SOCKS_REPLY_LEN])
{
	/* The guest does not need to know our address: 0.0.0.0, port 0. */
	memset(ret, 0, SOCKS_REPLY_LEN);
	ret[0] = VERSION;
	ret[1] = code;
	ret[3] = ADDRESS_V4;
}

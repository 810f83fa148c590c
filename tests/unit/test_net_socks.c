/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS5: greetings, requests, and the reply. */
#include "net/socks.h"
#include "tap.h"
#include "test_net_lib.h"

#define BYTES(text) (text), sizeof(text) - 1

struct row {
	const char *data;
	size_t len;
	enum socks_result want;
	size_t used;	  /* if it is one of the answers */
	const char *host; /* SOCKS_OK, of a request */
	uint16_t port;
};

static enum socks_result read_row(const struct row *row, bool is_request, size_t len, size_t *used,
				  struct http_host *host)
{
	uint8_t *copy = exact_copy(row->data, len);
	enum socks_result r = is_request ? socks_read_request(copy, len, used, host)
					 : socks_read_greeting(copy, len, used);

	free(copy);
	return r;
}

static void check_row(const struct row *row, size_t index, bool is_request)
{
	bool is_decided = false;

	for (size_t len = 0; len <= row->len; len++) {
		struct http_host host = { .port = 7 };
		char text[NET_ADDR_TEXT_MAX];
		size_t used = 0;
		enum socks_result r = read_row(row, is_request, len, &used, &host);

		if (!is_decided && r == SOCKS_MORE && len < row->len)
			continue;
		is_decided = true;
		CHECK_MSG(r == row->want, "row %zu: %d after %zu bytes, expected %d", index, (int)r,
			  len, (int)row->want);
		CHECK_INT(used, row->used);
		CHECK(r != SOCKS_OK || used <= len);
		if (r == SOCKS_OK && is_request) {
			CHECK_STR(host.is_addr ? net_addr_format(&host.addr, text) : host.name,
				  row->host);
			CHECK_INT(host.port, row->port);
		} else {
			CHECK_INT(host.port, 7);
		}
	}
}

static void test_greetings(void)
{
	static const struct row rows[] = {
		{ BYTES("\5\1\0"), SOCKS_OK, 3 },
		{ BYTES("\5\3\2\1\0"), SOCKS_OK, 5 },
		{ BYTES("\5\2\0\2more"), SOCKS_OK, 4 },
		{ BYTES("\5\1\2"), SOCKS_NO_METHOD, 3 },
		{ BYTES("\5\2\1\2\0"), SOCKS_NO_METHOD, 4 },
		{ BYTES("\5\0"), SOCKS_BAD },
		{ BYTES("\4\1\0\x50\0\0\0\1\0"), SOCKS_BAD },
		{ BYTES("GET / HTTP/1.1\r\n"), SOCKS_BAD },
		{ BYTES(""), SOCKS_MORE },
		{ BYTES("\5"), SOCKS_MORE },
		{ BYTES("\5\2\0"), SOCKS_MORE },
	};
	char all[2 + 255] = "\5\xff";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_row(&rows[i], i, false);
	memset(all + 2, 1, 255);
	check_row(&(struct row){ all, sizeof(all), SOCKS_NO_METHOD, sizeof(all) }, 100, false);
	all[256] = 0;
	check_row(&(struct row){ all, sizeof(all), SOCKS_OK, sizeof(all) }, 101, false);
}

static void test_requests(void)
{
	static const struct row rows[] = {
		{ BYTES("\5\1\0\1\xc0\0\2\1\1\xbb"), SOCKS_OK, 10, "192.0.2.1", 443 },
		{ BYTES("\5\1\0\3\013Example.COM\0\x50"), SOCKS_OK, 18, "example.com", 80 },
		{ BYTES("\5\1\0\3\014example.com.\0\x50more"), SOCKS_OK, 19, "example.com", 80 },
		{ BYTES("\5\1\0\3\t127.0.0.1\0\x50"), SOCKS_OK, 16, "127.0.0.1", 80 },
		{ BYTES("\5\1\0\3\3::1\xff\xff"), SOCKS_OK, 10, "::1", 65535 },
		{ BYTES("\5\1\0\3\x10::ffff:127.0.0.1\0\x50"), SOCKS_OK, 23, "127.0.0.1", 80 },
		{ BYTES("\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\x50"), SOCKS_OK, 22,
		  "2001:db8::1", 80 },
		{ BYTES("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1\0\x50"), SOCKS_OK, 22,
		  "127.0.0.1", 80 },
		{ BYTES("\5\2\0\1\xc0\0\2\1\1\xbb"), SOCKS_NO_COMMAND, 10 },
		{ BYTES("\5\3\0\3\3a.b\1\xbb"), SOCKS_NO_COMMAND, 10 },
		{ BYTES("\5\0\0\1\xc0\0\2\1\1\xbb"), SOCKS_NO_COMMAND, 10 },
		{ BYTES("\5\1\0\1\xc0\0\2\1\0\0"), SOCKS_BAD_ADDRESS, 10 },
		{ BYTES("\5\1\0\2\1\1"), SOCKS_BAD_ADDRESS, 4 },
		{ BYTES("\5\1\0\0"), SOCKS_BAD_ADDRESS, 4 },
		{ BYTES("\5\1\0\3\0\0\x50"), SOCKS_BAD_ADDRESS, 7 },
		{ BYTES("\5\1\0\3\4a\0.b\0\x50"), SOCKS_BAD_ADDRESS, 11 },
		{ BYTES("\5\1\0\3\022evil.com\0.good.com\0\x50"), SOCKS_BAD_ADDRESS, 25 },
		{ BYTES("\5\1\0\3\005127.1\0\x50"), SOCKS_BAD_ADDRESS, 12 },
		{ BYTES("\5\1\0\3\0122130706433\0\x50"), SOCKS_BAD_ADDRESS, 17 },
		{ BYTES("\5\1\0\3\0060x7f.1\0\x50"), SOCKS_BAD_ADDRESS, 13 },
		{ BYTES("\5\1\0\3\5[::1]\0\x50"), SOCKS_BAD_ADDRESS, 12 },
		{ BYTES("\5\1\0\3\5a@b.c\0\x50"), SOCKS_BAD_ADDRESS, 12 },
		{ BYTES("\5\1\0\3\006a.b:80\0\x50"), SOCKS_BAD_ADDRESS, 13 },
		{ BYTES("\5\1\0\3\004a..b\0\x50"), SOCKS_BAD_ADDRESS, 11 },
		{ BYTES("\5\1\0\3\011fe80::1%1\0\x50"), SOCKS_BAD_ADDRESS, 16 },
		{ BYTES("\4\1\0\x50"), SOCKS_BAD },
		{ BYTES("\5\1\1\1\xc0\0\2\1\1\xbb"), SOCKS_BAD },
		{ BYTES("\5\1\0\1\xc0\0\2\1\1"), SOCKS_MORE },
		{ BYTES("\5\1\0\3"), SOCKS_MORE },
	};
	char longest[4 + 1 + 255 + 2] = "\5\1\0\3\xff";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check_row(&rows[i], i, true);
	memset(longest + 5, 'a', 257);
	check_row(&(struct row){ longest, sizeof(longest), SOCKS_BAD_ADDRESS, sizeof(longest) },
		  100, true);
}

static void test_reply(void)
{
	uint8_t reply[SOCKS_REPLY_LEN];

	memset(reply, 0xee, sizeof(reply));
	socks_write_reply(2, reply);
	CHECK(!memcmp(reply, "\5\2\0\1\0\0\0\0\0\0", SOCKS_REPLY_LEN));
}

TAP_MAIN(test_greetings, test_requests, test_reply)

/* SPDX-License-Identifier: Apache-2.0 */
/* What the broker of level landlock makes of the address in connect() and of lines in /proc. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Part of the freestanding init, in no library; nothing in it needs one. */
#include "init/broker/addr.c"

#include "base/macros.h"
#include "tests/lib/tap.h"

#define PORT 0x9ac3
#define LEN_MAX 200

/* As the kernel lays them out. */
static const uint8_t v4[16] = { 2, 0, 0x9a, 0xc3, 127, 0, 0, 1 };
static const uint8_t v6[28] = { 10, 0, 0x9a, 0xc3, 1,	 2,    3,   4, 0, 0, 0, 0, 0, 0,
				0,  0, 0,    0,	   0xff, 0xff, 127, 0, 0, 1, 5, 6, 7, 8 };

/* In memory of exactly this size, so that a sanitizer sees any byte read behind it. */
static long read_exactly(const uint8_t *address, size_t known, size_t len, int rest)
{
	uint8_t *copy = malloc(len ? len : 1);
	long r;

	if (!copy)
		return -ENOMEM;
	memset(copy, rest, len);
	memcpy(copy, address, known < len ? known : len);
	r = broker_read_destination(copy, len, PORT);
	free(copy);
	return r;
}

static void test_lengths(void)
{
	for (size_t len = 0; len <= LEN_MAX; len++) {
		for (int rest = 0; rest < 256; rest += 85) {
			int bad = len < 2 || len > 128;

			CHECK_INT(read_exactly(v4, sizeof(v4), len, rest),
				  bad || len < 16 ? -EINVAL : BROKER_TO_PROXY);
			CHECK_INT(read_exactly(v6, sizeof(v6), len, rest),
				  bad || len < 24 ? -EINVAL : BROKER_TO_PROXY);
			CHECK_INT(read_exactly((const uint8_t *)"\1", 2, len, rest),
				  bad ? -EINVAL : BROKER_TO_OTHER_FAMILY);
		}
	}
	CHECK_INT(broker_read_destination(v4, (size_t)-1, PORT), -EINVAL);
}

static void test_families(void)
{
	uint8_t address[28] = { 0 };

	for (unsigned family = 0; family < 65536; family++) {
		long want = BROKER_TO_OTHER_FAMILY;

		memcpy(address, v4, sizeof(v4));
		address[0] = (uint8_t)family;
		address[1] = (uint8_t)(family >> 8);
		if (family == 2)
			want = BROKER_TO_PROXY;
		if (family == 10)
			want = BROKER_TO_NOWHERE; /* the bytes of an IPv4 address mean another */
		CHECK_INT(broker_read_destination(address, sizeof(address), PORT), want);
	}
}

/* An address that differs from the proxy's in one significant bit is refused. */
static void test_bits(void)
{
	for (size_t bit = 16; bit < 8 * sizeof(v6); bit++) {
		uint8_t address[sizeof(v6)] = { 0 };
		size_t byte = bit / 8;

		memcpy(address, v4, sizeof(v4));
		address[byte] ^= (uint8_t)(1u << bit % 8);
		CHECK_INT(broker_read_destination(address, sizeof(address), PORT),
			  byte < 8 ? BROKER_TO_NOWHERE : BROKER_TO_PROXY);
		memcpy(address, v6, sizeof(v6));
		address[byte] ^= (uint8_t)(1u << bit % 8);
		/* not the flow label, not the scope */
		CHECK_INT(broker_read_destination(address, sizeof(address), PORT),
			  (byte >= 4 && byte < 8) || byte >= 24 ? BROKER_TO_PROXY
								: BROKER_TO_NOWHERE);
	}
}

static void test_addresses(void)
{
	static const struct {
		uint8_t address[28];
	} elsewhere[] = {
		{ { 2, 0, 0x9a, 0xc3, 0, 0, 0, 0 } },	/* any: a server's 127.0.0.1 */
		{ { 2, 0, 0x9a, 0xc3, 127, 0, 0, 2 } }, /* loopback, too */
		{ { 2, 0, 0xc3, 0x9a, 127, 0, 0, 1 } }, /* the port the wrong way round */
		{ { 2, 0, 0, 0, 127, 0, 0, 1 } },
		{ { 10, 0, 0x9a, 0xc3 } },			 /* :: */
		{ { 10, 0, 0x9a, 0xc3, [23] = 1 } },		 /* ::1 */
		{ { 10, 0, 0x9a, 0xc3, [20] = 127, [23] = 1 } }, /* ::127.0.0.1 */
		{ { 10, 0, 0x9a, 0xc3, 0, 0, 0, 0, 0, 0x64, 0xff, 0x9b, [20] = 127, [23] = 1 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++)
		CHECK_INT(broker_read_destination(elsewhere[i].address, 28, PORT),
			  BROKER_TO_NOWHERE);
}

static void test_links(void)
{
	static const struct {
		const char *link;
		int is_socket;
	} links[] = {
		{ "socket:[12345]", 1 },
		{ "socket:[", 1 },
		{ "socket:", 0 },
		{ "socket", 0 },
		{ "", 0 },
		{ "pipe:[12345]", 0 },
		{ "/tmp/socket:[1]", 0 },
		{ "anon_inode:[eventpoll]", 0 },
		{ "/dev/null", 0 },
		{ "Socket:[1]", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		CHECK_INT(broker_is_socket(links[i].link, strlen(links[i].link)),
			  links[i].is_socket);
	CHECK_INT(broker_is_socket("socket:[1]", 3), 0);
}

static void test_flags(void)
{
	static const struct {
		const char *text;
		long flags;
	} infos[] = {
		{ "pos:\t0\nflags:\t02\nmnt_id:\t10\nino:\t1\n", 0 },
		{ "pos:\t0\nflags:\t02004002\nmnt_id:\t10\n", O_NONBLOCK | O_CLOEXEC },
		{ "flags:\t02000002\n", O_CLOEXEC },
		{ "pos:\t0\nflags:\t04002\n", O_NONBLOCK },
		{ "pos:\t0\nflags:\t0\n", 0 },
		{ "", -EBADF },
		{ "flags:\t", -EBADF },
		{ "flags:\t\n", -EBADF },
		{ "flags:\t02004", -EBADF }, /* cut off */
		{ "flags:\t9\n", -EBADF },
		{ "flags:\t02x\n", -EBADF },
		{ "flags:\t77777777777777777777777\n", -EBADF },
		{ "xflags:\t02\n", -EBADF },
		{ "pos:\t0 flags:\t02\n", -EBADF },
		{ "pos:\t0\nflags: 02\n", -EBADF },
		{ "\n\n\nflags:\t04000\n", O_NONBLOCK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(infos); i++) {
		size_t n = strlen(infos[i].text);
		char *copy = malloc(n ? n : 1);

		REQUIRE(copy);
		memcpy(copy, infos[i].text, n); /* without its end */
		CHECK_MSG(broker_read_flags(copy, n) == infos[i].flags, "%zu: %s", i,
			  infos[i].text);
		free(copy);
	}
}

TAP_MAIN(test_lengths, test_families, test_bits, test_addresses, test_links, test_flags)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the broker's connect() that makes no system call: what an address and a line of
 * /proc mean. Tested as a unit.
 */
#include "init/broker/parts.h"

#include <linux/errno.h>
#include <linux/fcntl.h>

#define FAMILY_INET 2
#define FAMILY_INET6 10
#define INET_BYTES 16 /* struct sockaddr_in */
#define INET6_BYTES                                                                                \
	24 /* struct sockaddr_in6 without the scope, which the kernel does not insist on */

/* 127.0.0.1 as the last four bytes of either kind, and what is before them in IPv6. */
static const uint8_t loopback[4] = { 127, 0, 0, 1 };
static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

static int is_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
	while (n > 0 && *a == *b) {
		a++;
		b++;
		n--;
	}
	return n == 0;
}

long broker_read_destination(const uint8_t *address, size_t len, uint16_t proxy_port)
{
	unsigned family, port;
	int is_here;

	if (len < 2 || len > BROKER_ADDRESS_MAX)
		return -EINVAL;
	family = address[0] | (unsigned)address[1] << 8;
	if (family != FAMILY_INET && family != FAMILY_INET6)
		return BROKER_TO_OTHER_FAMILY;
	if (len < (family == FAMILY_INET ? INET_BYTES : INET6_BYTES))
		return -EINVAL;
	port = (unsigned)address[2] << 8 | address[3];
	if (family == FAMILY_INET)
		is_here = is_equal(address + 4, loopback, sizeof(loopback));
	else
		is_here = is_equal(address + 8, mapped, sizeof(mapped)) &&
			  is_equal(address + 20, loopback, sizeof(loopback));
	return is_here && port == proxy_port ? BROKER_TO_PROXY : BROKER_TO_NOWHERE;
}

/* What follows @prefix at the start of @text, NULL if it starts otherwise. */
static const char *skip_prefix(const char *text, size_t n, const char *prefix)
{
	size_t i = 0;

	while (prefix[i]) {
		if (i == n || text[i] != prefix[i])
			return NULL;
		i++;
	}
	return text + i;
}

int broker_is_socket(const char *link, size_t n)
{
	return skip_prefix(link, n, "socket:[") != NULL;
}

long broker_read_flags(const char *text, size_t n)
{
	const char *end = text + n, *digit = NULL;
	long flags = 0;

	for (const char *line = text; !digit && line < end; line++) {
		digit = skip_prefix(line, (size_t)(end - line), "flags:\t");
		while (line < end && *line != '\n')
			line++;
	}
	if (!digit || digit == end || *digit < '0' || *digit > '7')
		return -EBADF;
	for (; digit < end && *digit >= '0' && *digit <= '7'; digit++) {
		if (flags > INT32_MAX / 8)
			return -EBADF;
		flags = flags * 8 + (*digit - '0');
	}
	/* A number that is cut off is not the number. */
	return digit < end && *digit == '\n' ? flags & (O_NONBLOCK | O_CLOEXEC) : -EBADF;
}

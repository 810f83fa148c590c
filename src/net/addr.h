/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: parsing, formatting, and which of them are special. */
#ifndef NET_ADDR_H
#define NET_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/net_rule.h"

#define NET_ADDR_TEXT_MAX 46 /* with the NUL */

/*
 * Strict: dotted quads of four decimal numbers without leading zeros, and RFC 4291 text for IPv6
 * (no brackets, no zone). 0, or -1. An IPv4-mapped address (::ffff:a.b.c.d) becomes the IPv4 one.
 */
int net_addr_parse(const char *text, size_t len, struct net_addr *ret);

/* From the bytes of a socket address or a DNS record; a mapped one becomes the IPv4 one. */
void net_addr_from_v4(const uint8_t bytes[4], struct net_addr *ret);
void net_addr_from_v6(const uint8_t bytes[16], struct net_addr *ret);

/* Canonical text (RFC 5952); returns @ret. */
char *net_addr_format(const struct net_addr *addr, char ret[NET_ADDR_TEXT_MAX]);

bool net_addr_equal(const struct net_addr *a, const struct net_addr *b);

/* Is @addr in the network of the first @prefix bits of @net? Never across families. */
bool net_addr_is_in(const struct net_addr *addr, const struct net_addr *net, unsigned prefix);

bool net_addr_is_loopback(const struct net_addr *addr); /* 127.0.0.0/8, ::1 */

/*
 * The IPv4 address that packets to the IPv6 address @addr may really go to: mapped, compatible,
 * NAT64 (64:ff9b::/96), 6to4, Teredo (the client's), ISATAP.
 */
bool net_addr_embedded(const struct net_addr *addr, struct net_addr *ret);

/*
 * Why @addr is not a host on the public internet, or NULL if it is one: "loopback", "private",
 * "link-local", "site-local", "shared" (CGNAT), "unique-local", "multicast", "documentation",
 * "benchmarking", "unspecified", "broadcast", "discard", "reserved", "metadata". IPv4 inside IPv6
 * (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) is judged by what is inside, and refused
 * ("embedded") where a translator could lead anywhere.
 */
const char *net_addr_special(const struct net_addr *addr);

/*
 * The same, and the prefix length of the special network that @addr lies in. A rule for a network
 * with fewer bits does not cover it: 0.0.0.0/0 does not ask for the loopback. NET_ADDR_NEVER: no
 * network covers it.
 */
#define NET_ADDR_NEVER 255
const char *net_addr_special_net(const struct net_addr *addr, unsigned *ret_prefix);

#endif

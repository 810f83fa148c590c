/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of net.publish: a port inside that the host can reach.
 *
 * [[ADDRESS:]HOSTPORT:]PORT[/tcp|/udp]. ADDRESS is the host's, IPv4 or IPv6 in brackets; without it
 * 127.0.0.1. HOSTPORT 0 means any that is free, none means PORT. Without a protocol both are meant.
 */
#ifndef NET_PUBLISH_H
#define NET_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

struct net_publish {
	struct net_addr addr; /* 127.0.0.1 if it was not given */
	bool has_addr;
	uint16_t host_port; /* 0 = any; PORT if it was not given */
	bool has_host_port;
	uint16_t port; /* inside */
	bool tcp, udp;
};

/* As net_rule_parse(): 0, or -1 and what is wrong. Both texts are constants. */
int net_publish_parse(const char *text, struct net_publish *ret, const char **ret_why,
		      const char **ret_hint);

/* The shortest text that means the same. Returns @ret. */
#define NET_PUBLISH_TEXT_MAX (NET_ADDR_TEXT_MAX + 24)
char *net_publish_format(const struct net_publish *publish, char ret[NET_PUBLISH_TEXT_MAX]);

#endif

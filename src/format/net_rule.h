/* SPDX-License-Identifier: Apache-2.0 */
/* A network rule as the gateway's config carries it. How it is written and applied: net/rule.h. */
#ifndef FORMAT_NET_RULE_H
#define FORMAT_NET_RULE_H

#include <stdint.h>

#define NET_NAME_MAX 253
#define NET_RULE_PORTS_MAX 16
#define NET_RULES_MAX 256 /* of each kind */
#define NET_PORTS_MAX 64  /* different ones in all rules to allow */

enum net_rule_type {
	NET_RULE_NAME = 1,
	NET_RULE_BELOW,	    /* *.name */
	NET_RULE_NETWORK,   /* an address, or all that share its first bits */
	NET_RULE_LOCALHOST, /* by that name, and the addresses 127.0.0.1 and ::1 */
};

struct net_addr {
	uint8_t is_v6;	   /* else only the first four bytes count, the others are 0 */
	uint8_t bytes[16]; /* in network order */
};

struct net_rule {
	uint8_t type; /* enum net_rule_type */
	uint8_t prefix;
	uint8_t n_ports; /* 0 = all (rules to deny only) */
	uint8_t pad;
	uint16_t ports[NET_RULE_PORTS_MAX];
	struct net_addr addr;
	char name[NET_NAME_MAX + 1]; /* canonical; of "*.name" what follows the dot */
};

#endif

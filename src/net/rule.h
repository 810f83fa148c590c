/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of net.allow and net.deny, and the one function that decides by them.
 *
 * HOST[:PORT[,PORT...]]. HOST is a name, *.NAME (one or more labels below, not NAME itself), an
 * IPv4 address, an IPv6 address, a network in CIDR notation with no bits beyond its prefix, or
 * localhost (the host's loopback). IPv6 is written in brackets if ports follow: [::1]:443,
 * [2001:db8::/32]:443. Without ports a rule to allow means 80 and 443, one to deny means all.
 *
 * A network that is to be allowed covers special addresses (net_addr_special()) only if it lies
 * within their network: 10.0.0.0/8 is the private one, 0.0.0.0/0 is the public internet, and a
 * metadata service has to be named by its address. A network to deny covers all it contains, also
 * embedded in IPv6 addresses that lead to IPv4.
 */
#ifndef NET_RULE_H
#define NET_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/net_rule.h"
#include "net/addr.h"
#include "net/name.h"

struct net_rules {
	const struct net_rule *allow, *deny;
	size_t n_allow, n_deny;
};

/*
 * 0, or -1 and *ret_why says what is wrong, as the end of a sentence about the rule ("is not a host
 * name or address"). *ret_hint: a remedy or NULL; it may lie in *ret.
 */
int net_rule_parse(const char *text, bool is_deny, struct net_rule *ret, const char **ret_why,
		   const char **ret_hint);

/* "HOST:PORT,..." in its shortest form; @ret has room for NET_RULE_TEXT_MAX bytes. */
#define NET_RULE_TEXT_MAX (NET_NAME_MAX + 8 + 6 * NET_RULE_PORTS_MAX)
char *net_rule_format(const struct net_rule *rule, char ret[NET_RULE_TEXT_MAX]);

enum net_verdict {
	NET_ALLOWED = 0,
	NET_NOT_LISTED, /* no rule allows it */
	NET_DENIED,	/* a rule denies it */
	NET_OTHER_PORT, /* only other ports of it are allowed */
	NET_SPECIAL,	/* not a public address, and no rule names it */
};

/* A host by its canonical name; @port 0 = any of the ports that a rule names. */
enum net_verdict net_judge_name(const struct net_rules *rules, const char *name, uint16_t port);
/* An address that was asked for directly, or that localhost leads to. */
enum net_verdict net_judge_address(const struct net_rules *rules, const struct net_addr *addr,
				   uint16_t port);
/* An address that an allowed name turned out to have. */
enum net_verdict net_judge_resolved(const struct net_rules *rules, const struct net_addr *addr,
				    uint16_t port);

#endif

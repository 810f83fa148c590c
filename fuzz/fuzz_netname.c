/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names and addresses. Whatever the bytes are: no crash, nothing is both, what was read is
 * written in one way only and read back as the same, and the rules treat it alike.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/addr.h"
#include "net/name.h"
#include "net/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_name(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
	char again[NET_NAME_MAX + 1], below[2 * NET_NAME_MAX];
	size_t len = strlen(name);

	check(len >= 1 && len <= NET_NAME_MAX && strspn(name, allowed) == len);
	check(name[0] != '.' && name[len - 1] != '.' && !strstr(name, ".."));
	check(net_name_parse(name, len, again) == 0 && net_name_equal(name, again));
	check(!net_name_is_below(name, name));
	snprintf(below, sizeof(below), "x.%s", name);
	check(net_name_is_below(below, name) && !net_name_is_below(name, below));
	snprintf(below, sizeof(below), "x%s", name);
	check(!net_name_is_below(below, name));
}

static void check_addr(const struct net_addr *addr)
{
	char text[NET_ADDR_TEXT_MAX], twice[NET_ADDR_TEXT_MAX];
	struct net_addr again, inside;
	unsigned prefix;

	memset(text, 'x', sizeof(text));
	net_addr_format(addr, text);
	check(strnlen(text, sizeof(text)) < sizeof(text));
	check(net_addr_parse(text, strlen(text), &again) == 0 && net_addr_equal(addr, &again));
	check(strcmp(net_addr_format(&again, twice), text) == 0);
	for (unsigned bits = 0; bits <= (addr->is_v6 ? 128U : 32U); bits++)
		check(net_addr_is_in(addr, &again, bits));
	if (net_addr_is_loopback(addr))
		check(net_addr_special(addr) != NULL);
	/* Nothing that is special by itself is public by being wrapped. */
	if (net_addr_embedded(addr, &inside) && net_addr_special(&inside))
		check(net_addr_special(addr) != NULL);
	check(net_addr_special(addr) == net_addr_special_net(addr, &prefix));
}

static void check_rule(const char *host, int type)
{
	struct net_rule rule;
	struct net_rules rules = { .allow = &rule, .n_allow = 1 };
	const char *why, *hint;
	struct net_addr addr;

	if (net_rule_parse(host, false, &rule, &why, &hint)) {
		/* Only the unspecified address is no host. */
		check(net_addr_parse(host, strlen(host), &addr) == 0 && net_addr_special(&addr));
		return;
	}
	check(rule.type == type || (rule.type == NET_RULE_LOCALHOST && type == NET_RULE_NAME));
	if (type == NET_RULE_NAME) {
		check(net_judge_name(&rules, host, 443) == NET_ALLOWED);
		check(net_judge_name(&rules, host, 22) == NET_OTHER_PORT);
		return;
	}
	check(net_judge_address(&rules, &rule.addr, 443) == NET_ALLOWED);
	check(net_judge_resolved(&rules, &rule.addr, 443) == NET_ALLOWED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Nothing readable behind the end. */
	char *text = malloc(size ? size : 1), name[NET_NAME_MAX + 1];
	char addr_text[NET_ADDR_TEXT_MAX];
	struct net_addr addr;
	int is_name, is_addr;

	if (!text)
		abort();
	memcpy(text, data, size);
	is_name = net_name_parse(text, size, name) == 0;
	is_addr = net_addr_parse(text, size, &addr) == 0;
	check(!is_name || !is_addr);
	if (is_name) {
		check(!memchr(text, '\0', size));
		check_name(name);
		check_rule(name, NET_RULE_NAME);
	}
	if (is_addr) {
		check_addr(&addr);
		check_rule(net_addr_format(&addr, addr_text), NET_RULE_NETWORK);
	}
	/* Any sixteen bytes are an address as well. */
	if (size >= 16) {
		net_addr_from_v6(data, &addr);
		check_addr(&addr);
	}
	free(text);
	return 0;
}

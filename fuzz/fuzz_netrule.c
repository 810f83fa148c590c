/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules. Whatever the bytes are: no crash; a refusal says why; what was read is written in one way
 * only and read back as the same rule; a rule to deny undoes the same rule to allow.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_text(const char *text)
{
	for (; *text; text++)
		check(*text >= ' ' && *text < 0x7f);
}

static int read_rule(const char *text, bool is_deny, struct net_rule *ret)
{
	const char *why = NULL, *hint = NULL;

	if (net_rule_parse(text, is_deny, ret, &why, &hint)) {
		check(why && *why);
		check_text(why);
		if (hint)
			check_text(hint);
		return -1;
	}
	check(ret->type >= NET_RULE_NAME && ret->type <= NET_RULE_LOCALHOST);
	check(ret->n_ports <= NET_RULE_PORTS_MAX && (is_deny || ret->n_ports > 0));
	for (size_t i = 0; i < ret->n_ports; i++)
		check(ret->ports[i] > (i ? ret->ports[i - 1] : 0));
	return 0;
}

static void check_round_trip(const struct net_rule *rule, bool is_deny)
{
	char text[NET_RULE_TEXT_MAX], twice[NET_RULE_TEXT_MAX];
	struct net_rule again;

	memset(text, 'x', sizeof(text));
	net_rule_format(rule, text);
	check(strnlen(text, sizeof(text)) < sizeof(text));
	check_text(text);
	check(read_rule(text, is_deny, &again) == 0);
	check(rule->type == again.type && rule->prefix == again.prefix &&
	      rule->n_ports == again.n_ports && net_addr_equal(&rule->addr, &again.addr) &&
	      memcmp(rule->ports, again.ports, sizeof(again.ports)) == 0 &&
	      strcmp(rule->name, again.name) == 0);
	check(strcmp(net_rule_format(&again, twice), text) == 0);
}

/* What @rule itself names. */
static enum net_verdict judge(const struct net_rules *rules, const struct net_rule *rule,
			      uint16_t port)
{
	char name[NET_NAME_MAX + 3] = "x.";

	if (rule->type == NET_RULE_NETWORK)
		return net_judge_address(rules, &rule->addr, port);
	memcpy(name + 2, rule->name, sizeof(rule->name));
	return net_judge_name(rules, rule->type == NET_RULE_BELOW ? name : name + 2, port);
}

static void check_verdicts(const struct net_rule *allow, const struct net_rule *deny)
{
	struct net_rules rules = { .allow = allow, .n_allow = 1 };
	enum net_verdict verdict = judge(&rules, allow, allow->ports[0]);
	struct net_rules none = { 0 };

	/* The first address of a wide network may be a special one. */
	check(verdict == NET_ALLOWED ||
	      (verdict == NET_SPECIAL && allow->type == NET_RULE_NETWORK));
	check(judge(&none, allow, allow->ports[0]) == NET_NOT_LISTED);
	rules.deny = deny;
	rules.n_deny = 1;
	check(judge(&rules, allow, allow->ports[0]) == NET_DENIED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct net_rule allow, deny;
	char *text = malloc(size + 1);
	int may_allow, may_deny;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	may_allow = read_rule(text, false, &allow) == 0;
	may_deny = read_rule(text, true, &deny) == 0;
	check(may_deny || !may_allow);
	if (may_deny)
		check_round_trip(&deny, true);
	if (may_allow) {
		check_round_trip(&allow, false);
		check_verdicts(&allow, &deny);
	}
	free(text);
	return 0;
}

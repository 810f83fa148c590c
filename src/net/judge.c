/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules say about a host. A rule that denies always wins. */
#include "net/rule.h"

/* What is asked for: a name, or an address and the one embedded in it. */
struct subject {
	const char *name;
	struct net_addr addr, inside;
	bool has_inside;
};

static bool is_localhost_addr(const struct net_addr *addr)
{
	static const struct net_addr v4 = { .bytes = { 127, 0, 0, 1 } };

	return net_addr_is_loopback(addr) && (addr->is_v6 || net_addr_equal(addr, &v4));
}

static bool matches_name(const struct net_rule *rule, const char *name)
{
	/* Only a rule that names localhost covers the host's loopback. */
	if (net_name_equal(name, "localhost"))
		return rule->type == NET_RULE_LOCALHOST;
	if (rule->type == NET_RULE_NAME)
		return net_name_equal(name, rule->name);
	return rule->type == NET_RULE_BELOW && net_name_is_below(name, rule->name);
}

static bool matches(const struct net_rule *rule, const struct subject *s)
{
	if (s->name)
		return matches_name(rule, s->name);
	if (rule->type == NET_RULE_LOCALHOST)
		return is_localhost_addr(&s->addr);
	return rule->type == NET_RULE_NETWORK &&
	       net_addr_is_in(&s->addr, &rule->addr, rule->prefix);
}

static bool has_port(const struct net_rule *rule, uint16_t port)
{
	for (size_t i = 0; i < rule->n_ports; i++) {
		if (rule->ports[i] == port)
			return true;
	}
	return false;
}

/* Is @port denied? 0: all of them. */
static bool is_denied(const struct net_rules *rules, const struct subject *s, uint16_t port)
{
	for (size_t i = 0; i < rules->n_deny; i++) {
		const struct net_rule *rule = &rules->deny[i];

		if (rule->n_ports > 0 && !has_port(rule, port))
			continue;
		if (matches(rule, s))
			return true;
		/* A translator (NAT64 and the like) must not lead around a rule. */
		if (s->has_inside && rule->type == NET_RULE_NETWORK &&
		    net_addr_is_in(&s->inside, &rule->addr, rule->prefix))
			return true;
	}
	return false;
}

/* Is at least one port of this rule left to use? */
static bool has_free_port(const struct net_rules *rules, const struct net_rule *rule,
			  const struct subject *s)
{
	for (size_t i = 0; i < rule->n_ports; i++) {
		if (!is_denied(rules, s, rule->ports[i]))
			return true;
	}
	return false;
}

enum net_verdict net_judge_name(const struct net_rules *rules, const char *name, uint16_t port)
{
	const struct subject s = { .name = name };
	enum net_verdict verdict = NET_NOT_LISTED;

	if (is_denied(rules, &s, port))
		return NET_DENIED;
	for (size_t i = 0; i < rules->n_allow; i++) {
		const struct net_rule *rule = &rules->allow[i];

		if (!matches_name(rule, name))
			continue;
		if (port ? has_port(rule, port) : has_free_port(rules, rule, &s))
			return NET_ALLOWED;
		verdict = port ? NET_OTHER_PORT : NET_DENIED;
	}
	return verdict;
}

static void set_address(struct subject *s, const struct net_addr *addr)
{
	s->name = NULL;
	s->addr = *addr;
	if (addr->is_v6)
		net_addr_from_v6(addr->bytes, &s->addr);
	s->has_inside = net_addr_embedded(&s->addr, &s->inside);
}

/* Decides by the rules that allow; those that deny came first. */
static enum net_verdict find_network(const struct net_rules *rules, const struct subject *s,
				     uint16_t port, bool with_localhost)
{
	unsigned prefix = 0;
	const char *special = net_addr_special_net(&s->addr, &prefix);
	enum net_verdict verdict = NET_NOT_LISTED;

	for (size_t i = 0; i < rules->n_allow; i++) {
		const struct net_rule *rule = &rules->allow[i];

		if (!matches(rule, s) || (rule->type == NET_RULE_LOCALHOST && !with_localhost))
			continue;
		if (special && rule->type == NET_RULE_NETWORK && rule->prefix < prefix) {
			if (verdict == NET_NOT_LISTED)
				verdict = NET_SPECIAL;
			continue;
		}
		if (has_port(rule, port))
			return NET_ALLOWED;
		verdict = NET_OTHER_PORT;
	}
	return verdict;
}

enum net_verdict net_judge_address(const struct net_rules *rules, const struct net_addr *addr,
				   uint16_t port)
{
	struct subject s;

	set_address(&s, addr);
	if (is_denied(rules, &s, port))
		return NET_DENIED;
	return find_network(rules, &s, port, true);
}

enum net_verdict net_judge_resolved(const struct net_rules *rules, const struct net_addr *addr,
				    uint16_t port)
{
	struct subject s;

	set_address(&s, addr);
	if (is_denied(rules, &s, port))
		return NET_DENIED;
	if (!net_addr_special(&s.addr))
		return NET_ALLOWED;
	return find_network(rules, &s, port, false) == NET_ALLOWED ? NET_ALLOWED : NET_SPECIAL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the group "net": rules and published ports, checked and kept in their shortest form. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "format/gateway.h"
#include "net/publish.h"
#include "net/rule.h"
#include "policy/policy_internal.h"

static int refuse(const struct policy_key *key, const char *text, const char *why, const char *hint,
		  struct cordon_error *err)
{
	cordon_err(err, CORDON_E_POLICY, 0, "%s: '%.80s' %s", key->name, text, why);
	if (hint)
		cordon_err_hint(err, "%s", hint);
	return -CORDON_E_POLICY;
}

/* Different ports seen so far. */
struct ports {
	uint16_t v[NET_PORTS_MAX];
	size_t n;
};

/* -1: there are too many. */
static int add_port(struct ports *ports, unsigned long port)
{
	for (size_t i = 0; i < ports->n; i++) {
		if (ports->v[i] == port)
			return 0;
	}
	if (ports->n == NET_PORTS_MAX)
		return -1;
	ports->v[ports->n++] = (uint16_t)port;
	return 0;
}

/* The gateway listens on each port that some rule allows, whatever the host. */
static int check_ports(const struct strlist *rules, const struct net_rule *rule,
		       const struct policy_key *key, struct cordon_error *err)
{
	struct ports ports = { .n = 0 };
	int r = 0;

	/* Kept rules end in ":PORT,PORT", so they need not be parsed again. */
	for (size_t i = 0; i < rules->n && r == 0; i++) {
		const char *at = strrchr(rules->v[i], ':');

		for (; at && *at && r == 0; at += strcspn(at, ","))
			r = add_port(&ports, strtoul(++at, NULL, 10));
	}
	for (size_t i = 0; i < rule->n_ports && r == 0; i++)
		r = add_port(&ports, rule->ports[i]);
	if (r == 0)
		return 0;
	return cordon_err(err, CORDON_E_POLICY, 0,
			  "%s: the rules name more than %d different ports", key->name,
			  NET_PORTS_MAX);
}

int policy_put_net_rule(struct cordon_policy *policy, const struct policy_key *key,
			const char *text, struct cordon_error *err)
{
	struct strlist *list = policy_list(policy, key);
	bool is_deny = list == &policy->net_deny;
	char best[NET_RULE_TEXT_MAX];
	const char *why, *hint;
	struct net_rule rule;
	int r;

	if (net_rule_parse(text, is_deny, &rule, &why, &hint))
		return refuse(key, text, why, hint, err);
	net_rule_format(&rule, best);
	if (strlist_has(list, best))
		return 0;
	if (list->n >= NET_RULES_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s has more than %d rules", key->name,
				  NET_RULES_MAX);
	if (!is_deny) {
		r = check_ports(list, &rule, key, err);
		if (r < 0)
			return r;
	}
	return policy_add_entry(policy, key, best, err);
}

int policy_put_publish(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		       struct cordon_error *err)
{
	const struct strlist *list = policy_list(policy, key);
	char best[NET_PUBLISH_TEXT_MAX];
	struct net_publish publish;
	const char *why, *hint;
	size_t n_sockets;

	if (net_publish_parse(text, &publish, &why, &hint))
		return refuse(key, text, why, hint, err);
	net_publish_format(&publish, best);
	if (strlist_has(list, best))
		return 0;
	n_sockets = (publish.tcp ? 1 : 0) + (publish.udp ? 1 : 0);
	for (size_t i = 0; i < list->n; i++)
		n_sockets += strchr(list->v[i], '/') ? 1 : 2;
	if (n_sockets > GATEWAY_PUBLISH_MAX) {
		cordon_err(err, CORDON_E_POLICY, 0,
			   "%s has more than %d ports, TCP and UDP counted apart", key->name,
			   GATEWAY_PUBLISH_MAX);
		cordon_err_hint(err, "write /tcp or /udp where only one is needed");
		return -CORDON_E_POLICY;
	}
	return policy_add_entry(policy, key, best, err);
}

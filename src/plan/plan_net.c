/* SPDX-License-Identifier: Apache-2.0 */
/* net.*: what the gateway is told, what init opens for it, what the command is told of it. */
#include <string.h>

#include "format/gateway.h"
#include "net/publish.h"
#include "net/rule.h"
#include "plan/plan_internal.h"

bool plan_has_egress(const struct build *b)
{
	return b->policy->net_allow.n > 0;
}

static int bad_rule(struct build *b, const char *key, const char *text, const char *why)
{
	/* The policy was checked when it was set; this is a second line of defence. */
	return cordon_err(b->err, CORDON_E_POLICY, 0, "%s: '%.80s' %s", key, text, why);
}

static int add_rules(struct build *b, const struct strlist *list, const char *key, bool is_deny,
		     struct net_rule *ret)
{
	const char *why = "", *hint;

	for (size_t i = 0; i < list->n; i++) {
		if (net_rule_parse(list->v[i], is_deny, &ret[i], &why, &hint) < 0)
			return bad_rule(b, key, list->v[i], why);
	}
	return 0;
}

static int add_port(struct build *b, struct gateway_config *c, uint16_t port)
{
	for (uint32_t i = 0; i < c->n_ports; i++) {
		if (c->ports[i] == port)
			return 0;
	}
	if (c->n_ports == NET_PORTS_MAX)
		return cordon_err(b->err, CORDON_E_POLICY, 0,
				  "net.allow names more than %d different ports", NET_PORTS_MAX);
	c->ports[c->n_ports++] = port;
	return 0;
}

static int add_ports(struct build *b, struct gateway_config *c)
{
	int r = 0;

	for (uint32_t i = 0; i < c->n_allow; i++) {
		for (unsigned k = 0; r == 0 && k < c->rules[i].n_ports; k++)
			r = add_port(b, c, c->rules[i].ports[k]);
	}
	return r;
}

static int add_published(struct build *b, struct gateway_config *c, const struct net_publish *p,
			 enum gateway_protocol protocol)
{
	struct plan_publish *entry = PLAN_ADD(b, publish, n_publish, cap_publish);

	if (!entry)
		return plan_nomem(b);
	if (c->n_publish == GATEWAY_PUBLISH_MAX)
		return cordon_err(b->err, CORDON_E_POLICY, 0,
				  "net.publish has more than %d ports (each protocol counts)",
				  GATEWAY_PUBLISH_MAX);
	*entry = (struct plan_publish){ p->addr, p->host_port, p->port, protocol };
	c->publish[c->n_publish++] = (struct gateway_publish){ p->port, (uint16_t)protocol };
	return 0;
}

/* The gateway listens there, so the command could not. */
static int check_port(struct build *b, const struct gateway_config *c, uint16_t port)
{
	for (uint32_t i = 0; i < c->n_ports; i++) {
		if (c->ports[i] != port)
			continue;
		cordon_err(b->err, CORDON_E_POLICY, 0,
			   "port %u is both published and a port of net.allow", port);
		cordon_err_hint(b->err, "inside, the gateway listens on the ports that are "
					"allowed: let the command listen on another one");
		return -CORDON_E_POLICY;
	}
	return 0;
}

static int add_publish(struct build *b, struct gateway_config *c)
{
	const struct strlist *list = &b->policy->net_publish;
	struct net_publish p;
	const char *why = "", *hint;
	int r = 0;

	for (size_t i = 0; r == 0 && i < list->n; i++) {
		if (net_publish_parse(list->v[i], &p, &why, &hint) < 0)
			return bad_rule(b, "net.publish", list->v[i], why);
		r = check_port(b, c, p.port);
		/* One after the other: a port that is picked must be free for both. */
		if (r == 0 && p.tcp)
			r = add_published(b, c, &p, GATEWAY_TCP);
		if (r == 0 && p.udp)
			r = add_published(b, c, &p, GATEWAY_UDP);
	}
	return r;
}

/* Without a net namespace only Landlock can restrict the network. */
static int check_level(struct build *b)
{
	int r;

	if (b->in->level == PLAN_LEVEL_NAMESPACES)
		return 0;
	if (b->policy->net_publish.n > 0) {
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "net.publish (--publish) needs level namespaces");
		cordon_err_hint(b->err, "'cordon check' says what is in the way of namespaces");
		return r;
	}
	if (b->in->machine->landlock_abi < 4) {
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "net.allow (--net-allow) needs level namespaces, or Landlock ABI 4, "
			       "which is Linux 6.7");
		cordon_err_hint(b->err, "'cordon check' says what is in the way of namespaces");
		return r;
	}
	return 0;
}

static void set_ids(const struct build *b, struct gateway_config *c)
{
	c->uid = c->gid = GATEWAY_NO_ID;
	/* Never host root, whatever the sandbox itself has to be (level landlock). */
	if (b->is_root)
		c->uid = c->gid = NOBODY_ID;
}

int plan_build_net(struct build *b)
{
	const struct cordon_policy *p = b->policy;
	size_t n_deny = plan_has_egress(b) ? p->net_deny.n : 0, size;
	struct gateway_config *c;
	int r;

	if (!plan_has_egress(b) && p->net_publish.n == 0)
		return 0;
	r = check_level(b);
	if (r < 0)
		return r;
	size = sizeof(*c) + (p->net_allow.n + n_deny) * sizeof(c->rules[0]);
	c = arena_alloc(b->arena, size);
	if (!c)
		return plan_nomem(b);
	memset(c, 0, size);
	c->magic = GATEWAY_MAGIC;
	c->size = (uint32_t)size;
	c->flags = b->in->level == PLAN_LEVEL_LANDLOCK ? GATEWAY_PROXY : 0;
	c->handled_fs = b->in->machine->landlock_fs;
	/* Its answers to questions for names go to whatever port they came from. */
	c->handled_net = b->in->machine->landlock_net & LL_NET_TCP;
	c->scoped = b->in->machine->landlock_scoped;
	c->n_allow = (uint32_t)p->net_allow.n;
	c->n_deny = (uint32_t)n_deny;
	c->max_bytes = p->net_max_bytes < 0 ? 0 : (uint64_t)p->net_max_bytes;
	set_ids(b, c);
	r = add_rules(b, &p->net_allow, "net.allow", false, c->rules);
	if (r == 0 && n_deny)
		r = add_rules(b, &p->net_deny, "net.deny", true, c->rules + p->net_allow.n);
	if (r == 0)
		r = add_ports(b, c);
	if (r == 0)
		r = add_publish(b, c);
	if (r == 0)
		r = plan_list_add(b, &b->layers, "gateway");
	b->plan->gateway = c;
	return r;
}

void plan_net_header(const struct build *b, struct plan_header *h)
{
	const struct gateway_config *c = b->plan->gateway;

	if (!c || !plan_has_egress(b) || b->in->level != PLAN_LEVEL_NAMESPACES)
		return;
	h->flags |= PLAN_NET_ALLOW;
	h->n_net_ports = c->n_ports;
	memcpy(h->net_ports, c->ports, c->n_ports * sizeof(c->ports[0]));
}

static bool allows_loopback(const struct gateway_config *c)
{
	for (uint32_t i = 0; i < c->n_allow; i++) {
		if (c->rules[i].type == NET_RULE_LOCALHOST ||
		    (c->rules[i].type == NET_RULE_NETWORK &&
		     net_addr_is_loopback(&c->rules[i].addr)))
			return true;
	}
	return false;
}

/*
 * Level landlock: the environment presents the gateway as an HTTP proxy. Not as a SOCKS proxy: many
 * programs need a library for that, and do not even start without it.
 */
int plan_proxy_env(struct build *b)
{
	static const char *const names[] = { "HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
					     "https_proxy", "ALL_PROXY",  "all_proxy" };
	const char *url;
	int r = 0;

	if (!b->plan->gateway || b->in->level != PLAN_LEVEL_LANDLOCK)
		return 0;
	url = arena_printf(b->arena, "http://127.0.0.1:%u", b->in->proxy_port);
	if (!url)
		return plan_nomem(b);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = plan_env_set(b, names[i], url);
	/* The loopback of the host is behind the gateway as well, if a rule allows it. */
	url = allows_loopback(b->plan->gateway) ? "" : "localhost,127.0.0.1,::1";
	if (r == 0)
		r = plan_env_set(b, "NO_PROXY", url);
	if (r == 0)
		r = plan_env_set(b, "no_proxy", url);
	return r;
}

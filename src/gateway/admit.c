/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a connection may go. Every decision is made by net_judge_*(); a refusal is recorded with
 * what would have to be allowed.
 */
#include "gateway/conn.h"

#include <linux/errno.h>

#include "net/hello.h"

bool admit_target(struct gateway *g, struct conn *c)
{
	enum net_verdict verdict = c->name ? net_judge_name(&g->rules, c->name->text, c->port)
					   : net_judge_address(&g->rules, &c->addr, c->port);

	if (verdict == NET_ALLOWED && bytes_left(g) == 0)
		conn_refuse(g, c, GATEWAY_R_BYTES, NULL);
	else if (verdict != NET_ALLOWED)
		conn_refuse(g, c, reason_of(verdict), NULL);
	return c->verdict == NULL;
}

bool admit_name(struct gateway *g, const struct conn *c, const char *name)
{
	if (c->name)
		return net_name_equal(c->name->text, name);
	/* The address is allowed as such; a name on it must be allowed, too. */
	return net_judge_name(&g->rules, name, c->port) == NET_ALLOWED;
}

bool admit_host(struct gateway *g, const struct conn *c, const struct http_host *host)
{
	if (host->port && host->port != c->port)
		return false;
	if (host->is_addr)
		return !c->name && net_addr_equal(&host->addr, &c->addr);
	return admit_name(g, c, host->name);
}

bool admit_hello(struct gateway *g, struct conn *c)
{
	char name[NET_NAME_MAX + 1];
	long n = conn_peek(c, scratch, HELLO_MAX);

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		c->verdict = "abandoned";
		conn_reset(g, c);
		return false;
	}
	switch (hello_read((const uint8_t *)scratch, (size_t)n, name)) {
	case HELLO_OK:
		if (admit_name(g, c, name))
			break;
		conn_refuse(g, c, GATEWAY_R_SNI, name);
		return false;
	case HELLO_MORE:
		return false;
	case HELLO_NO_NAME:
		if (!c->name)
			break;
		conn_refuse(g, c, GATEWAY_R_NO_SNI, NULL);
		return false;
	case HELLO_BAD_NAME:
		conn_refuse(g, c, GATEWAY_R_SNI, "a malformed name");
		return false;
	case HELLO_NOT_TLS:
	case HELLO_BROKEN:
	case HELLO_TOO_LONG:
		conn_refuse(g, c, GATEWAY_R_NOT_TLS, NULL);
		return false;
	}
	c->hello_len = (uint16_t)hello_length((const uint8_t *)scratch, (size_t)n);
	c->is_checked = c->hello_len > 0;
	return c->is_checked;
}

/*
 * One of the machine's own addresses leads to everything that listens here, whatever kind of
 * address it is; so does one behind a translator (NAT64) that has it inside.
 */
static bool is_own(struct gateway *g, const struct net_addr *addr, uint16_t port)
{
	struct net_addr inside;

	if (route_is_own(g, addr, port))
		return true;
	return net_addr_embedded(addr, &inside) && route_is_own(g, &inside, port);
}

/* Does a rule name this one address? */
static bool is_named(const struct net_rules *rules, const struct net_addr *addr)
{
	for (size_t i = 0; i < rules->n_allow; i++) {
		const struct net_rule *rule = &rules->allow[i];

		if (rule->type == NET_RULE_NETWORK && rule->prefix == (addr->is_v6 ? 128 : 32) &&
		    net_addr_equal(&rule->addr, addr))
			return true;
	}
	return false;
}

/*
 * Of an address that the rules allow. A rule for a network, or for all of them, does not mean what
 * listens on this machine; an address that is not public needs a rule that is narrow enough.
 */
static bool leads_away(struct gateway *g, const struct net_addr *addr, uint16_t port)
{
	return net_addr_special(addr) || is_named(&g->rules, addr) || !is_own(g, addr, port);
}

static bool address_is_allowed(struct gateway *g, const struct net_addr *addr, uint16_t port)
{
	return net_judge_resolved(&g->rules, addr, port) == NET_ALLOWED &&
	       leads_away(g, addr, port);
}

static const struct net_addr loopback[2] = {
	{ 0, { 127, 0, 0, 1 } },
	{ 1, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 } },
};

/*
 * localhost: both of the host's loopback addresses, the one that was asked for first. A program
 * that found one of them "connected" does not try the other by itself.
 */
static void add_loopback(struct gateway *g, struct conn *c)
{
	bool v6_first = !c->name && c->addr.is_v6;

	for (int i = 0; i < 2; i++) {
		const struct net_addr *addr = &loopback[i ? !v6_first : v6_first];

		if (net_judge_address(&g->rules, addr, c->port) == NET_ALLOWED)
			c->dial.addrs[c->dial.n_addrs++] = *addr;
	}
}

static bool is_localhost(struct gateway *g, const struct conn *c)
{
	if (c->name)
		return net_name_equal(c->name->text, "localhost");
	return (net_addr_equal(&c->addr, &loopback[0]) || net_addr_equal(&c->addr, &loopback[1])) &&
	       net_judge_name(&g->rules, "localhost", c->port) == NET_ALLOWED;
}

bool admit_addresses(struct gateway *g, struct conn *c)
{
	char text[NET_ADDR_TEXT_MAX];
	struct name *name = c->name;

	c->dial.n_addrs = c->dial.next = 0;
	if (is_localhost(g, c)) {
		add_loopback(g, c);
		if (c->dial.n_addrs == 0)
			conn_refuse(g, c, GATEWAY_R_DENIED, NULL);
		return c->dial.n_addrs > 0;
	}
	if (!name && leads_away(g, &c->addr, c->port)) {
		c->dial.addrs[c->dial.n_addrs++] = c->addr;
		return true;
	}
	if (!name) {
		conn_refuse(g, c, GATEWAY_R_SPECIAL, net_addr_format(&c->addr, text));
		return false;
	}
	if (name->n_addrs && name_is_denied(g, name, c->port)) {
		conn_refuse(g, c, GATEWAY_R_ALIAS, name->denied.text);
		return false;
	}
	for (unsigned i = 0; i < name->n_addrs; i++) {
		if (address_is_allowed(g, &name->addrs[i], c->port))
			c->dial.addrs[c->dial.n_addrs++] = name->addrs[i];
	}
	if (c->dial.n_addrs)
		return true;
	if (name->n_addrs)
		conn_refuse(g, c, GATEWAY_R_SPECIAL, net_addr_format(&name->addrs[0], text));
	else
		conn_unreachable(g, c, "unresolved");
	return false;
}

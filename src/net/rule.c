/* SPDX-License-Identifier: Apache-2.0 */
/* Rules as text. What they decide is in judge.c. */
#include "net/rule.h"

#include <string.h>

#include "net/text.h"

#define PORT_DNS 53

/* What is wrong, for the caller. */
struct refusal {
	const char **why, **hint;
};

static int refuse(const struct refusal *to, const char *why, const char *hint)
{
	*to->why = why;
	*to->hint = hint;
	return -1;
}

static size_t length(const char *text)
{
	size_t len = 0;

	while (text[len])
		len++;
	return len;
}

/* Where @c is in the text, @len if it is not. */
static size_t find(const char *text, size_t len, char c)
{
	size_t at = 0;

	while (at < len && text[at] != c)
		at++;
	return at;
}

static size_t count(const char *text, size_t len, char c)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += text[i] == c;
	return n;
}

/* Sorted, each once. Returns -1 if there is no room. */
static int add_port(struct net_rule *rule, uint16_t port)
{
	size_t at = 0;

	while (at < rule->n_ports && rule->ports[at] < port)
		at++;
	if (at < rule->n_ports && rule->ports[at] == port)
		return 0;
	if (rule->n_ports == NET_RULE_PORTS_MAX)
		return -1;
	memmove(rule->ports + at + 1, rule->ports + at,
		(rule->n_ports - at) * sizeof(rule->ports[0]));
	rule->ports[at] = port;
	rule->n_ports++;
	return 0;
}

static int parse_port(const char *text, size_t len, bool is_deny, struct net_rule *ret,
		      const struct refusal *to)
{
	static const char how[] = "ports are numbers from 1 to 65535, separated by commas";
	int port = text_parse_number(text, len, 65535);

	if (len == 0)
		return refuse(to, "has an empty port", how);
	if (count(text, len, '-') || (len == 1 && text[0] == '*'))
		return refuse(to, "has a range of ports, which is not supported", how);
	if (port <= 0)
		return refuse(to, "has an invalid port", how);
	if (port == PORT_DNS && !is_deny)
		return refuse(to, "names port 53, which cannot be allowed",
			      "Cordon answers DNS itself, for the names that are allowed");
	if (add_port(ret, (uint16_t)port))
		return refuse(to, "has more than 16 ports", "use several rules");
	return 0;
}

static int parse_ports(const char *text, size_t len, bool is_deny, struct net_rule *ret,
		       const struct refusal *to)
{
	for (;;) {
		size_t end = find(text, len, ',');

		if (parse_port(text, end, is_deny, ret, to))
			return -1;
		if (end == len)
			return 0;
		text += end + 1;
		len -= end + 1;
	}
}

static char *put_network(char *out, const struct net_rule *rule)
{
	char text[NET_ADDR_TEXT_MAX];

	out = text_put(out, net_addr_format(&rule->addr, text));
	if (rule->prefix < (rule->addr.is_v6 ? 128 : 32)) {
		*out++ = '/';
		out = text_put_number(out, rule->prefix);
	}
	return out;
}

/* Clears the bits beyond the prefix; were any set? */
static bool cut_to_prefix(struct net_rule *rule)
{
	bool was_more = false;
	size_t n = rule->addr.is_v6 ? 16 : 4;

	for (size_t i = 0; i < n; i++) {
		unsigned bits = rule->prefix > 8 * i ? rule->prefix - 8 * (unsigned)i : 0;
		uint8_t keep = bits >= 8 ? 0xff : (uint8_t)(0xff00 >> bits);

		was_more = was_more || (rule->addr.bytes[i] & ~keep) != 0;
		rule->addr.bytes[i] &= keep;
	}
	return was_more;
}

/* @slash: where the prefix's slash is, @len if there is none. The address has been read. */
static int parse_network(const char *text, size_t len, size_t slash, struct net_rule *ret,
			 const struct refusal *to)
{
	unsigned max = ret->addr.is_v6 ? 128 : 32, named;
	int prefix = (int)max;

	ret->type = NET_RULE_NETWORK;
	if (slash < len) {
		if (!ret->addr.is_v6 && count(text, slash, ':'))
			return refuse(to, "is an IPv4 network in IPv6 form",
				      "write it as an IPv4 network, such as 10.0.0.0/8");
		prefix = text_parse_number(text + slash + 1, len - slash - 1, (int)max);
	}
	if (prefix < 0 && count(text + slash, len - slash, ':'))
		return refuse(to, "has ports behind an IPv6 network",
			      "they need brackets: [2001:db8::/32]:443");
	if (prefix < 0)
		return refuse(to, "has an invalid prefix length",
			      ret->addr.is_v6 ? "it is a number from 0 to 128"
					      : "it is a number from 0 to 32");
	ret->prefix = (uint8_t)prefix;
	if (cut_to_prefix(ret)) {
		/* A rule for a network has no name: room for the hint. */
		*put_network(text_put(ret->name, "the network is "), ret) = '\0';
		return refuse(to, "has bits set beyond its prefix", ret->name);
	}
	if (ret->prefix == max && net_addr_special_net(&ret->addr, &named) &&
	    named == NET_ADDR_NEVER)
		return refuse(to, "is the unspecified address, which no host has",
			      "use localhost for the host's loopback");
	return 0;
}

/* Why the text is no host; it is neither a name nor an address. */
static int explain_host(const char *text, size_t len, const struct refusal *to)
{
	static const char star[] = "*.example.com means every name below example.com; nothing else "
				   "can stand for several names";
	size_t last = len;

	if (len == 0)
		return refuse(to, "names no host", "write HOST or HOST:PORT");
	if (count(text, len, ','))
		return refuse(to, "names several hosts", "give each of them a rule of its own");
	if (count(text, len, '*'))
		return refuse(to, "has a * where it is not allowed", star);
	if (count(text, len, '[') || count(text, len, ']'))
		return refuse(to, "has brackets where they are not allowed",
			      "only an IPv6 address is written in brackets: [2001:db8::1]:443");
	if (count(text, len, '%'))
		return refuse(to, "has a % in it", "addresses with a zone are not supported");
	if (count(text, len, ':') > 1)
		return refuse(to, "is not a host name or address",
			      "an IPv6 address with ports is written in brackets: "
			      "[2001:db8::1]:443");
	if (text[len - 1] == '.')
		last--;
	while (last > 0 && text[last - 1] != '.')
		last--;
	if (last < len && ascii_is_digit(text[last]))
		return refuse(to, "is neither a host name nor a plain IPv4 address",
			      "an IPv4 address is four decimal numbers without leading zeros: "
			      "192.0.2.1");
	return refuse(to, "is not a host name or address", NULL);
}

static int parse_name(const char *text, size_t len, struct net_rule *ret, const struct refusal *to)
{
	bool is_below = len > 2 && text[0] == '*' && text[1] == '.';
	size_t skip = is_below ? 2 : 0;

	if (net_name_parse(text + skip, len - skip, ret->name))
		return explain_host(text, len, to);
	if (is_below)
		ret->type = NET_RULE_BELOW;
	else if (net_name_equal(ret->name, "localhost"))
		ret->type = NET_RULE_LOCALHOST;
	else
		ret->type = NET_RULE_NAME;
	return 0;
}

static int parse_host(const char *text, size_t len, struct net_rule *ret, const struct refusal *to)
{
	size_t slash = find(text, len, '/');

	if (net_addr_parse(text, slash, &ret->addr) == 0)
		return parse_network(text, len, slash, ret, to);
	if (slash < len)
		return refuse(to, "has a path", "give the host only: example.com or 192.0.2.0/24");
	return parse_name(text, len, ret, to);
}

/* [HOST]: how far it goes, 0 if it is none. */
static size_t bracket_end(const char *text, size_t len)
{
	size_t close = find(text, len, ']');

	if (text[0] != '[' || close == len || count(text, close, ':') < 2)
		return 0;
	return close + 1;
}

/* Refuses what cannot be part of a host, before anything is parsed. */
static int check_bytes(const char *text, size_t len, const struct refusal *to)
{
	static const char host_only[] = "give the host only: example.com or example.com:443";

	if (len == 0)
		return refuse(to, "is empty", "write HOST or HOST:PORT");
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x80)
			return refuse(to, "has characters that are not ASCII",
				      "write the name in its ASCII form, which begins with xn--");
		if (c <= ' ' || c == 0x7f)
			return refuse(to, "has a space or control character in it", NULL);
		if (c == ':' && i + 2 < len && text[i + 1] == '/' && text[i + 2] == '/')
			return refuse(to, "is a URL", host_only);
	}
	if (count(text, len, '@'))
		return refuse(to, "has a user name in it", host_only);
	if (count(text, len, '?') || count(text, len, '#') || count(text, len, '\\'))
		return refuse(to, "is not a host name or address", host_only);
	if (len >= NET_RULE_TEXT_MAX)
		return refuse(to, "is too long", NULL);
	return 0;
}

int net_rule_parse(const char *text, bool is_deny, struct net_rule *ret, const char **ret_why,
		   const char **ret_hint)
{
	const struct refusal to = { ret_why, ret_hint };
	size_t len = length(text), end;
	const char *host = text;

	memset(ret, 0, sizeof(*ret));
	*ret_why = *ret_hint = NULL;
	if (check_bytes(text, len, &to))
		return -1;
	end = bracket_end(text, len);
	if (end > 0) {
		host++;
		if (parse_host(host, end - 2, ret, &to))
			return -1;
		if (end < len && text[end] != ':')
			return refuse(&to, "has something other than a port after the brackets",
				      "write [2001:db8::1]:443 or [2001:db8::/32]:443");
	} else {
		/* Several colons are an IPv6 address, and then no ports can follow. */
		end = count(text, len, ':') > 1 ? len : find(text, len, ':');
		if (parse_host(host, end, ret, &to))
			return -1;
	}
	if (end < len && parse_ports(text + end + 1, len - end - 1, is_deny, ret, &to))
		return -1;
	if (ret->n_ports == 0 && !is_deny) {
		ret->ports[ret->n_ports++] = 80;
		ret->ports[ret->n_ports++] = 443;
	}
	return 0;
}

char *net_rule_format(const struct net_rule *rule, char ret[NET_RULE_TEXT_MAX])
{
	bool in_brackets = rule->type == NET_RULE_NETWORK && rule->addr.is_v6 && rule->n_ports;
	char *out = ret;

	if (rule->type == NET_RULE_BELOW)
		out = text_put(out, "*.");
	if (in_brackets)
		*out++ = '[';
	if (rule->type == NET_RULE_NETWORK)
		out = put_network(out, rule);
	else
		out = text_put(out, rule->name);
	if (in_brackets)
		*out++ = ']';
	for (size_t i = 0; i < rule->n_ports; i++) {
		*out++ = i ? ',' : ':';
		out = text_put_number(out, rule->ports[i]);
	}
	*out = '\0';
	return ret;
}

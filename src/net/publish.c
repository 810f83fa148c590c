/* SPDX-License-Identifier: Apache-2.0 */
#include "net/publish.h"

#include <string.h>

#include "net/text.h"

#define TEXT_MAX 80

static const struct net_addr here = { .bytes = { 127, 0, 0, 1 } };

static const char grammar[] = "write PORT, HOSTPORT:PORT or ADDRESS:HOSTPORT:PORT, with /tcp "
			      "or /udp at the end for one of them only";

/* The position after the last @c, or 0 if there is none. */
static size_t behind_last(const char *text, size_t len, char c)
{
	while (len > 0 && text[len - 1] != c)
		len--;
	return len;
}

/* Takes "/tcp" or "/udp" off the end; -1 if something else follows the slash. */
static int parse_protocol(const char *text, size_t *len, struct net_publish *ret)
{
	size_t at = behind_last(text, *len, '/');

	ret->tcp = ret->udp = true;
	if (at == 0)
		return 0;
	if (*len - at != 3)
		return -1;
	ret->tcp = memcmp(text + at, "tcp", 3) == 0;
	ret->udp = memcmp(text + at, "udp", 3) == 0;
	*len = at - 1;
	return ret->tcp || ret->udp ? 0 : -1;
}

static bool has_colon(const char *text, size_t len)
{
	return behind_last(text, len, ':') > 0;
}

/* "1.2.3.4" or "[::1]". */
static int parse_address(const char *text, size_t len, struct net_addr *ret)
{
	bool in_brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
	size_t skip = in_brackets ? 1 : 0;

	if (has_colon(text, len) != in_brackets)
		return -1;
	return net_addr_parse(text + skip, len - 2 * skip, ret);
}

static int parse_host_part(const char *text, size_t len, struct net_publish *ret,
			   const char **ret_why)
{
	size_t at = behind_last(text, len, ':');
	int port = text_parse_number(text + at, len - at, UINT16_MAX);

	if (port < 0) {
		*ret_why = "has an invalid port on the host";
		/* Also ADDRESS:PORT, which could be read in two ways. */
		if (parse_address(text, len, &ret->addr) == 0)
			*ret_why = "has an address but no port on the host";
		return -1;
	}
	ret->has_host_port = true;
	ret->host_port = (uint16_t)port;
	if (at == 0)
		return 0;
	if (parse_address(text, at - 1, &ret->addr)) {
		*ret_why = "has an invalid address";
		return -1;
	}
	ret->has_addr = true;
	return 0;
}

static size_t length(const char *text)
{
	size_t len = 0;

	while (len < TEXT_MAX && text[len])
		len++;
	return len;
}

int net_publish_parse(const char *text, struct net_publish *ret, const char **ret_why,
		      const char **ret_hint)
{
	size_t len = length(text), at;
	int port;

	memset(ret, 0, sizeof(*ret));
	ret->addr = here;
	*ret_why = NULL;
	*ret_hint = grammar;
	if (len == 0 || len == TEXT_MAX) {
		*ret_why = len ? "is too long" : "is empty";
		return -1;
	}
	if (parse_protocol(text, &len, ret)) {
		*ret_why = "ends in a protocol that is neither tcp nor udp";
		return -1;
	}
	at = behind_last(text, len, ':');
	port = text_parse_number(text + at, len - at, UINT16_MAX);
	if (port <= 0) {
		*ret_why = "has an invalid port inside the sandbox; ports are 1 to 65535";
		return -1;
	}
	ret->port = ret->host_port = (uint16_t)port;
	if (at > 0 && parse_host_part(text, at - 1, ret, ret_why))
		return -1;
	*ret_hint = NULL;
	return 0;
}

char *net_publish_format(const struct net_publish *publish, char ret[NET_PUBLISH_TEXT_MAX])
{
	bool has_addr = !net_addr_equal(&publish->addr, &here);
	char text[NET_ADDR_TEXT_MAX], *out = ret;

	if (has_addr) {
		if (publish->addr.is_v6)
			*out++ = '[';
		out = text_put(out, net_addr_format(&publish->addr, text));
		if (publish->addr.is_v6)
			*out++ = ']';
		*out++ = ':';
	}
	if (has_addr || publish->host_port != publish->port) {
		out = text_put_number(out, publish->host_port);
		*out++ = ':';
	}
	out = text_put_number(out, publish->port);
	if (!publish->udp)
		out = text_put(out, "/tcp");
	else if (!publish->tcp)
		out = text_put(out, "/udp");
	*out = '\0';
	return ret;
}

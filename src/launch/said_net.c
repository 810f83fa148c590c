/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts in what a failed command said, where nobody else knows: ports of allowed names, servers of
 * this machine, and at level landlock everything, since there the kernel refuses and tells nobody.
 *
 * What the gateway refused and init saw is told by them (gateway_result.c).
 */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/gateway.h"
#include "launch/said.h"
#include "net/name.h"
#include "net/rule.h"
#include "plan/plan_read.h"

#define TABLE_BYTES (64 << 10) /* of the kernel's tables of sockets, that are read */
#define TABLES_MAX 8	       /* ... for one run: they can be long */
#define PORT_DIGITS 5

struct target {
	char host[NET_NAME_MAX + 1];
	unsigned port;	/* 0 = not said */
	bool is_direct; /* by a program that may obey no proxy */
};

static bool is_host_char(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '_' || c == ':';
}

/* A name or an address, as it is written. */
static bool take_host(const char *p, const char *end, struct target *ret)
{
	size_t len = 0;

	while (p + len < end && is_host_char(p[len]))
		len++;
	while (len > 0 && strchr(".:", p[len - 1]))
		len--;
	if (len == 0 || len > NET_NAME_MAX)
		return false;
	memcpy(ret->host, p, len);
	ret->host[len] = '\0';
	return true;
}

static unsigned take_port(const char *p, const char *end)
{
	unsigned port = 0;
	int n = 0;

	for (; p < end && n < PORT_DIGITS && isdigit((unsigned char)*p); p++, n++)
		port = port * 10 + (unsigned)(*p - '0');
	return port <= UINT16_MAX && (p == end || !isdigit((unsigned char)*p)) ? port : 0;
}

/* The words after @text, in small letters; NULL = it is not in the line. */
static const char *after(const struct said_line *line, const char *text)
{
	for (const char *p = line->begin; p < line->end; p++)
		if (said_begins_with(p, line->end, text))
			return p + strlen(text);
	return NULL;
}

/* "Failed to connect to HOST port N", "connect ECONNREFUSED HOST:N", "connect EACCES HOST:N" */
static bool find_server(const struct said_line *line, struct target *ret)
{
	const char *p = after(line, "failed to connect to "), *port;
	char *colon;

	if (p) {
		port = after(line, " port ");
		ret->port = port ? take_port(port, line->end) : 0;
		return take_host(p, line->end, ret) && ret->port;
	}
	p = after(line, "connect econnrefused ");
	p = p ? p : after(line, "connect eacces ");
	ret->is_direct = true;
	if (!p || !take_host(p, line->end, ret))
		return false;
	colon = strrchr(ret->host, ':');
	if (!colon)
		return false;
	ret->port = take_port(colon + 1, colon + strlen(colon));
	*colon = '\0';
	return ret->port && ret->host[0];
}

/* "Could not resolve host: NAME" and its like; false = the line names none. */
static bool find_name(const struct said_line *line, struct target *ret)
{
	static const char *const before[] = { "resolve host: ",
					      "resolve hostname ",
					      "resolve host address \xe2\x80\x98",
					      "resolve host address '",
					      "eai_again ",
					      "enotfound ",
					      "resolve " };

	ret->port = 0;
	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		const char *p = after(line, before[i]);

		if (p && take_host(p, line->end, ret) && strchr(ret->host, '.'))
			return true;
	}
	return false;
}

/* Does a server of this machine listen there? Asked of the kernel's table, not of the server. */
static bool is_listened(const char *table, unsigned port)
{
	int fd = open(table, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(TABLE_BYTES), want[16];
	bool is_there = false;
	size_t len = 0;
	ssize_t n;

	while (text && len < TABLE_BYTES - 1 &&
	       (n = read(fd, text + len, TABLE_BYTES - 1 - len)) > 0)
		len += (size_t)n;
	if (fd >= 0)
		close(fd);
	if (!text)
		return false;
	text[len] = '\0';
	/* "  0: 0100007F:1F90 00000000:0000 0A ...": 0A is LISTEN. */
	(void)snprintf(want, sizeof(want), ":%04X ", port);
	for (const char *line = text; line && *line && !is_there; line = strchr(line, '\n')) {
		char local[64], state[8];

		line += *line == '\n';
		if (sscanf(line, " %*s %63s %*s %7s", local, state) != 2)
			continue;
		n = (ssize_t)strlen(local);
		is_there = strcmp(state, "0A") == 0 && n > 5 &&
			   strncmp(local + n - 5, want, 5) == 0;
	}
	free(text);
	return is_there;
}

static bool is_loopback(const char *host)
{
	return strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
	       strncmp(host, "127.", 4) == 0;
}

static bool has_network(const struct said *said)
{
	const struct gateway_config *c = said->subject->plan->gateway;

	return c && c->n_allow > 0;
}

/* A name or an address that is allowed on other ports: nothing listens on this one inside. */
static bool is_other_port(const struct said *said, const struct target *t)
{
	const struct gateway_config *c = said->subject->plan->gateway;
	const struct net_rules rules = { c->rules, c->rules + c->n_allow, c->n_allow, c->n_deny };
	char name[NET_NAME_MAX + 1];
	struct net_addr addr;

	if (net_addr_parse(t->host, strlen(t->host), &addr) == 0)
		return net_judge_address(&rules, &addr, (uint16_t)t->port) == NET_OTHER_PORT;
	return net_name_parse(t->host, strlen(t->host), name) == 0 &&
	       net_judge_name(&rules, name, (uint16_t)t->port) == NET_OTHER_PORT;
}

static bool tell_host(struct said *said, const char *what, const struct target *t)
{
	struct arena *a = said->subject->arena;
	const char *target = t->host, *fix = NULL;
	char name[NET_NAME_MAX + 1];
	struct net_addr addr;
	bool is_valid = net_addr_parse(t->host, strlen(t->host), &addr) == 0 ||
			net_name_parse(t->host, strlen(t->host), name) == 0;

	if (!is_valid)
		return false;
	if (t->port)
		target = arena_printf(a, strchr(t->host, ':') ? "[%s]:%u" : "%s:%u", t->host,
				      t->port);
	if (!target)
		return false;
	/* At level landlock only what obeys the variables of a proxy gets anywhere. */
	if (!t->is_direct || said->plan->level == PLAN_LEVEL_NAMESPACES)
		fix = arena_printf(a, "--net-allow %s", target);
	said_tell_once(said, what, target, "net.allow", fix);
	return true;
}

static bool tell_server(struct said *said, const struct target *t)
{
	struct net_addr addr;

	if (is_loopback(t->host)) {
		if (!said->subject->tells_files || said->n_tables++ >= TABLES_MAX ||
		    (!is_listened("/proc/self/net/tcp", t->port) &&
		     !is_listened("/proc/self/net/tcp6", t->port)))
			return false;
		return tell_host(said, "connect", t);
	}
	if (has_network(said))
		return said->plan->level == PLAN_LEVEL_NAMESPACES && is_other_port(said, t) &&
		       tell_host(said, "connect", t);
	/* A name leads nowhere without a network: it may be a word of another kind. */
	return said->plan->level == PLAN_LEVEL_LANDLOCK &&
	       net_addr_parse(t->host, strlen(t->host), &addr) == 0 &&
	       tell_host(said, "connect", t);
}

bool said_net_line(struct said *said, const struct said_line *line)
{
	struct target t = { .port = 0, .is_direct = false };

	if (line->errors & SAID_NO_CONNECTION && find_server(line, &t))
		return tell_server(said, &t);
	/* With namespaces init has seen the question. */
	if (!(line->errors & SAID_NO_HOST) || has_network(said) ||
	    said->plan->level != PLAN_LEVEL_LANDLOCK)
		return false;
	if (find_name(line, &t))
		return tell_host(said, "resolve", &t);
	said_tell_once(said, "resolve", "a host's name", "net.allow", NULL);
	return true;
}

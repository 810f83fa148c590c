/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the resolver.
 *
 * A lookup is one name that is being resolved: two questions (one for each family) that go from
 * server to server until one answers, for each name that the search list makes of it. Waiters are
 * kept apart, so that many can wait for the same lookup.
 *
 *	resolve_conf.c	the host's files: bytes in, tables out, no system call
 *	resolve_setup.c	reading them
 *	resolve_ask.c	one question: servers, time-outs, UDP and TCP
 *	resolve.c	lookups, their results, and waiters
 */
#ifndef GATEWAY_RESOLVE_H
#define GATEWAY_RESOLVE_H

#include "gateway/gateway.h"
#include "net/dns.h"

#define HOSTS_BYTES_MAX (8u << 20)	   /* of /etc/hosts; network.md says so, too */
#define RESOLV_CONF_BYTES_MAX (256u << 10) /* of /etc/resolv.conf */
#define SERVERS_MAX 3
#define SEARCH_MAX 6
#define ZONE_MAX 16
#define LOOKUPS_MAX 64
#define WAITERS_MAX 1024

/* /etc/hosts, as it is: looked through for each name, since most are short and some very long. */
struct hosts {
	const char *text;
	size_t len;
};

struct server {
	struct net_addr addr;
	uint32_t scope;	     /* the device of a link-local address */
	char zone[ZONE_MAX]; /* that device as it is written in the file; "" = none */
};

/* /etc/resolv.conf */
struct resolve_conf {
	uint32_t n_servers, n_search, attempts;
	bool is_tcp; /* use-vc */
	uint64_t timeout_ns;
	struct server servers[SERVERS_MAX];
	char search[SEARCH_MAX][NET_NAME_MAX + 1];
};

/* All addresses of a name, at most @max; returns how many. Lines that are not understood are
 * skipped, as every resolver does. */
size_t hosts_find(const struct hosts *hosts, const char *name, struct net_addr *ret, size_t max);
void resolve_conf_read(const char *text, size_t len, struct resolve_conf *ret);
/*
 * The name to ask for as the @nth try, made of @name and the search list. One without a dot is
 * tried below each domain and then as it is; one with a dot as it is and then below each domain.
 * 1; 0 if this one would be too long; -1 if there are no more.
 */
int resolve_candidate(const struct resolve_conf *conf, const char *name, unsigned nth,
		      char ret[NET_NAME_MAX + 1]);
/* Into one list, families in turn, IPv6 first. Returns how many. */
size_t resolve_merge(const struct dns_response *v4, const struct dns_response *v6,
		     struct net_addr *ret, size_t max);

enum ask_state {
	ASK_IDLE = 0,
	ASK_UDP,
	ASK_CONNECTING, /* TCP, because of an answer that did not fit */
	ASK_READING,
	ASK_DONE, /* response says what came of it */
};

struct lookup;

struct ask {
	struct source source;
	struct lookup *lookup;
	const char *name;
	uint8_t *frame;	   /* 2 + DNS_MESSAGE_MAX bytes for TCP */
	uint64_t until_ns; /* this server has for this try */
	uint16_t id, frame_len;
	uint16_t n_tries, n_wrong;
	uint8_t state;	/* enum ask_state */
	bool is_v6;	/* what is asked for: AAAA, not A */
	bool is_plain;	/* without EDNS */
	bool was_heard; /* some server said something */
	struct dns_response response;
	struct denied_alias denied; /* of the names that it is an alias of */
};

extern struct resolve_conf resolve_conf;
extern struct hosts resolve_hosts;

/* None of these calls back: look at the state afterwards. */
void ask_start(struct gateway *g, struct ask *ask, const char *name);
void ask_stop(struct gateway *g, struct ask *ask);
void ask_expire(struct gateway *g, struct ask *ask);
/* Adds what net.deny says of @alias; NULL: a name that no rule can be compared with. */
void note_alias(const struct gateway *g, struct denied_alias *ret, const char *alias);
/* Called by an ask whose state may have changed, as the last thing it does. */
void lookup_step(struct gateway *g, struct lookup *lookup);

#endif

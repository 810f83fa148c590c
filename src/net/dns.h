/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages: the guest's questions and our answers; our questions and the servers' answers. Only
 * what the gateway needs, without state between calls and without allocating.
 */
#ifndef NET_DNS_H
#define NET_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/name.h"

#define DNS_MESSAGE_MAX 4096 /* longer ones are ignored */
#define DNS_ANSWER_MAX 512   /* ours: every client accepts this length */
#define DNS_ADDRS_MAX 16

enum dns_type {
	DNS_A = 1,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_AAAA = 28,
	DNS_OPT = 41,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_ANY = 255,
};

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR,
	DNS_SERVFAIL,
	DNS_NXDOMAIN,
	DNS_NOTIMP,
	DNS_REFUSED,
};

/* A question as it came. */
struct dns_query {
	uint16_t id;
	uint16_t type, qclass;
	bool wants_recursion;
	bool has_edns;
	uint16_t question_len;			/* bytes of the question section, as sent */
	uint8_t question[NET_NAME_MAX + 2 + 4]; /* those bytes: they are sent back unchanged */
	bool has_name;		     /* false: well-formed, but not a host name (name.h) */
	char name[NET_NAME_MAX + 1]; /* canonical */
	char shown[64];		     /* for people: printable, perhaps cut */
};

/* Reads one. 0; a positive enum dns_rcode to answer with (@ret has id and, as far as it could be
 * read, the question); -1: no answer at all (too short, or an answer itself). Other classes
 * than IN are refused here. */
int dns_read_query(const uint8_t *msg, size_t len, struct dns_query *ret);

/* Is the question a reverse one (in-addr.arpa, ip6.arpa)? *ret is the address then. */
bool dns_read_reverse(const struct dns_query *query, struct net_addr *ret);

/* Addresses are put into the answer if their family is what was asked for (or ANY was). @ptr_name:
 * for PTR, or NULL. Returns the length; never more than DNS_ANSWER_MAX. */
size_t dns_write_answer(const struct dns_query *query, enum dns_rcode rcode,
			const struct net_addr *addrs, size_t n_addrs, const char *ptr_name,
			uint32_t ttl, uint8_t ret[DNS_ANSWER_MAX]);

/* A question of ours, with recursion desired and EDNS (1232 bytes). Returns the length, 0 if @name
 * is none. */
size_t dns_write_query(uint16_t id, const char *name, enum dns_type type,
		       uint8_t ret[DNS_ANSWER_MAX]);

/* What a server said. */
struct dns_response {
	enum dns_rcode rcode; /* anything unknown is SERVFAIL */
	bool is_truncated;    /* ask again over TCP */
	uint32_t ttl;	      /* the smallest on the way; of a negative answer, what its SOA says */
	size_t n_addrs;
	struct net_addr addrs[DNS_ADDRS_MAX];
};

/* 0, or -1 if this is no answer to that question (id, name, type and class must be the same) or is
 * not well-formed, to be ignored. Of a truncated one only code and truncation count.
 * CNAMEs within the message are followed, at most 16 of them; records of other names are
 * ignored. */
int dns_read_response(const uint8_t *msg, size_t len, uint16_t id, const char *name,
		      enum dns_type type, struct dns_response *ret);

/* Calls @each with every name that @name is an alias of, from one to the next, in a message that
 * dns_read_response() has taken; with NULL for one that cannot be written as text. */
void dns_read_aliases(const uint8_t *msg, size_t len, const char *name,
		      void (*each)(void *arg, const char *alias), void *arg);

#endif

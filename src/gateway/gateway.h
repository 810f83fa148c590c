/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-gateway: the process through which all allowed network traffic of one sandbox goes.
 *
 * Theory of operation. Inside the sandbox's net namespace every address leads to the loopback
 * device, and init has opened a listener on each allowed port and on 53. They belong to this
 * process, which itself lives in the host's net namespace. The local address of a connection says
 * where it wants to go: an address from the pool stands for the one name that it was given out for
 * (names.c, dns.c), any other for itself. Only net/rule.h decides whether that is allowed; then the
 * name is resolved here (resolve.c), each of its addresses is checked again, one of them is dialled
 * (dial.c), and bytes are moved without looking at them (flow.c), except what has to be read first:
 * a TLS hello on port 443, every HTTP head on port 80.
 *
 * It is freestanding like init: no libc, no heap, no threads. All it ever uses is in the tables
 * below, so there is nothing in it that a guest can make grow. It confines itself before it reads
 * the first byte from inside (confine.c). It ends when the supervisor closes its socket; if it
 * dies, the listeners die with it and connections are refused.
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arch/arch.h"

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/wait.h"
#include "format/gateway.h"
#include "format/steps.h"
#include "net/rule.h"

#define CTL_FD 0 /* the supervisor's socket */
#define EVENTS_MAX 64
#define NEVER (~(uint64_t)0)

struct gateway;

/* A descriptor in the event loop. Part of the structure that owns it. */
struct source {
	int fd; /* -1 = nothing */
	void (*ready)(struct gateway *g, struct source *w, uint32_t events);
	void *owner;
};

/* struct epoll_event */
struct event {
	uint32_t events;
	struct source *source;
} ARCH_EPOLL_PACKED;

struct gateway {
	const struct gateway_config *config; /* read-only */
	struct gateway_account *account;     /* the supervisor sees it, too */
	struct net_rules rules;
	int epoll_fd;
	int life_fd;  /* pidfd of the supervisor */
	int init_fd;  /* socket to init */
	int log_fd;   /* -1 = none */
	int route_fd; /* asks for routes; -1 = nothing will be dialled */
	int spare_fd; /* for a connection that has to be turned away */
	int publish_fds[GATEWAY_PUBLISH_MAX];
	bool has_v6; /* inside */
	uint32_t max_connections;
	uint64_t now_ns;     /* when the loop last woke up */
	uint64_t wake_ns;    /* and when it has to at the latest */
	bool is_over;	     /* only bytes under way are still moved */
	bool is_cut_short;   /* not even those */
	uint64_t drained_ns; /* until then at most */
	/* of this turn of the loop */
	struct event events[EVENTS_MAX];
	int n_events, at_event;
};

/* loop.c */
#define EVENT_IN 0x1u
#define EVENT_PRI 0x2u
#define EVENT_OUT 0x4u
#define EVENT_ERR 0x8u
#define EVENT_HUP 0x10u
#define EVENT_RDHUP 0x2000u
#define EVENT_EDGE (1u << 31)
/* Both directions, reported once per change. */
#define EVENT_ALL (EVENT_IN | EVENT_PRI | EVENT_OUT | EVENT_RDHUP | EVENT_EDGE)
/* 0 or -errno. On success the descriptor belongs to the source. */
long source_open(struct gateway *g, struct source *w, int fd, uint32_t events,
		 void (*ready)(struct gateway *, struct source *, uint32_t), void *owner);
/* Closes the descriptor; events of this turn for it are dropped. */
void source_close(struct gateway *g, struct source *w);
/* Takes it out of the loop and gives the descriptor back, open. */
int source_release(struct gateway *g, struct source *w);
/* The loop wakes up at that time and calls every module's _expire(). */
void wake_at(struct gateway *g, uint64_t when_ns);
void run_loop(struct gateway *g);

/* sock.c: system calls in their usual shape; all return >= 0 or -errno */
union sock_addr {
	uint16_t family;
	struct {
		uint16_t family, port; /* port in network order */
		uint8_t addr[4], zero[8];
	} v4;
	struct {
		uint16_t family, port;
		uint32_t flow;
		uint8_t addr[16];
		uint32_t scope;
	} v6;
};
long sock_open(bool is_v6, bool is_stream); /* in the host's net namespace, non-blocking */
/* The next connection, or -errno; one for which there is no descriptor is turned away. */
long sock_accept(struct gateway *g, int fd);
long sock_connect(int fd, const struct net_addr *addr, uint16_t port);
/* The same for a socket of either family: IPv6 ones take IPv4 addresses in their mapped form. */
long sock_connect_as(int fd, bool is_v6_socket, const struct net_addr *addr, uint16_t port);
long sock_local(int fd, struct net_addr *ret, uint16_t *ret_port);
long sock_error(int fd); /* 0, or -errno with which connecting failed */
long sock_recv(int fd, void *data, size_t len);
long sock_send(int fd, const void *data, size_t len);
void sock_no_delay(int fd);
void sock_reset_on_close(int fd); /* closing sends RST instead of FIN */
size_t sock_fill(union sock_addr *ret, const struct net_addr *addr, uint16_t port);
void sock_read(const union sock_addr *from, struct net_addr *ret, uint16_t *ret_port);

/* route.c: before anything is confined; 0 or -errno */
long route_open(struct gateway *g);
/* Does the address lead to this machine? Also true if the kernel does not say. */
bool route_is_own(struct gateway *g, const struct net_addr *addr, uint16_t port);

/* account.c */
void deny(struct gateway *g, enum gateway_reason reason, const char *host, uint16_t port,
	  const char *other);
void count_bytes(struct gateway *g, bool is_in, uint64_t n);
/* How many may still be moved: asked before, or each connection would move one chunk too many. */
uint64_t bytes_left(const struct gateway *g);
enum gateway_reason reason_of(enum net_verdict verdict);

/* A name that is an alias of one that net.deny covers, on these of config.ports[]. */
struct denied_alias {
	uint64_t ports; /* a bit for each; 0 = it is not */
	char text[64];	/* that name, perhaps cut */
};

/* names.c: which address stands for which name */
struct name {
	char text[NET_NAME_MAX + 1];
	uint32_t number; /* address in the pool */
	/* what it resolved to (resolve.c) */
	uint64_t fresh_until_ns;
	uint8_t rcode, n_addrs;
	struct net_addr addrs[16];
	struct denied_alias denied;
};
struct name *name_find(const char *text);		    /* NULL if it has no address yet */
struct name *name_add(struct gateway *g, const char *text); /* or finds it; NULL = table full */
struct name *name_of(const struct net_addr *addr); /* NULL if the address stands for none */
void name_address(const struct name *name, bool is_v6, struct net_addr *ret);

/* Is it an alias of a name that is denied on that port? */
bool name_is_denied(const struct gateway *g, const struct name *name, uint16_t port);

/* resolve.c: from a name to addresses, by the host's resolver configuration */
long resolve_setup(void); /* reads the configuration: before anything is confined */
/* Calls @done at once or later, exactly once, unless it is cancelled; name->rcode and its addresses
 * are valid then (not yet checked against the rules). */
void resolve(struct gateway *g, struct name *name,
	     void (*done)(struct gateway *, void *, struct name *), void *arg);
void resolve_cancel(void (*done)(struct gateway *, void *, struct name *), const void *arg);
void resolve_expire(struct gateway *g);

/* dns.c: the guest's questions */
long dns_open(struct gateway *g, int udp_fd, int tcp_fd); /* takes both over */
void dns_expire(struct gateway *g);

/* conn.c, accept.c: connections from inside (and, for publish, from the host) */
struct conn;
long conn_listen(struct gateway *g, int fd, uint16_t port); /* takes it over */
void conn_take(struct gateway *g, int fd);		    /* level landlock: one from init */
void conn_expire(struct gateway *g);
void conn_pump_again(struct gateway *g); /* those that had used up their turn */
void conn_end_all(struct gateway *g);
void conn_accept_last(struct gateway *g); /* what is in the queues, and no more after it */
bool conn_are_unsent(void);		  /* bytes of the guest are still under way */
/* True if there is more to do at once. */
bool conn_is_busy(void);

/* publish.c */
long publish_open(struct gateway *g);
void publish_expire(struct gateway *g);
/* The socket that was asked for as @id; -1 = there is none. */
void publish_from_init(struct gateway *g, uint32_t id, int fd);
void publish_forget(const struct conn *c); /* it no longer waits for one */

/* confine.c: 0 or -errno, and *ret_step says which step failed. *ret_fds: how many descriptors it
 * may have. */
long confine(const struct gateway_config *config, unsigned *ret_step, uint64_t *ret_fds);

/* log.c */
struct log_entry {
	const char *name;	     /* NULL = none: the address was asked for */
	const struct net_addr *addr; /* that was dialled, NULL = none */
	uint16_t port;
	const char *verdict; /* "allowed", or why not */
	uint64_t bytes_in, bytes_out, duration_ns;
};
void log_connection(struct gateway *g, const struct log_entry *entry);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the guest, from accept() to its last byte.
 *
 *	ASK ──► RESOLVE ──► DIAL ──► CHECK ──► RELAY ──► LINGER ──► gone
 *
 * Which of these come, and in which order, depends on what the bytes are:
 *	plain     the target is known at once: RESOLVE, DIAL, RELAY
 *	TLS       CHECK reads the hello without taking it, then RESOLVE, DIAL, RELAY, where a
 *	          second hello is read like the first if the server asks for one (tls.c)
 *	HTTP      CHECK waits for the first head, then RESOLVE, DIAL, RELAY, where every head is
 *	          read, checked and written anew (http.c)
 *	proxy     ASK reads what the program wants of a proxy, then RESOLVE, DIAL, and with the
 *	          answer to it on its way, as above
 *
 * Nothing is kept in memory: what has to be looked at stays in the socket until it is decided
 * (MSG_PEEK), what is written anew goes through the pipe of its direction.
 */
#ifndef GATEWAY_CONN_H
#define GATEWAY_CONN_H

#include "gateway/flow.h"
#include "gateway/gateway.h"
#include "net/hello.h"
#include "net/http.h"

#define DIAL_AT_ONCE 3
#define HEAD_NS (10 * SECOND) /* for what has to be read before anything can be decided */

enum conn_state {
	CONN_FREE = 0,
	CONN_ASK,
	CONN_RESOLVE,
	CONN_DIAL,
	CONN_CHECK,
	CONN_RELAY,
	CONN_LINGER, /* our answer was sent; what still comes is thrown away */
};

enum conn_kind {
	CONN_PLAIN,
	CONN_TLS,
	CONN_HTTP,
};

/* What a proxy was asked for. */
enum conn_proxy {
	PROXY_NONE,
	PROXY_UNKNOWN, /* nothing was read yet */
	PROXY_CONNECT,
	PROXY_ABSOLUTE,
	PROXY_SOCKS_GREETED,
	PROXY_SOCKS,
};

/* Where the reading of HTTP requests stands. */
enum http_state {
	HTTP_AT_HEAD,
	HTTP_AT_BODY,
	HTTP_AT_CHUNK,
	HTTP_AT_CHUNK_DATA,
	HTTP_AT_CHUNK_END,
	HTTP_AT_TRAILER,
	HTTP_AT_END, /* the last request was passed on */
};

/* What the client of a TLS connection may say (tls.c). */
enum tls_state {
	TLS_AT_ANSWER, /* nothing before the server has answered */
	TLS_AT_HELLO,  /* another hello */
	TLS_OPEN,      /* anything */
	TLS_SHUT,      /* nothing any more */
};

struct dial {
	struct net_addr addrs[16];
	unsigned n_addrs, next;
	struct source attempts[DIAL_AT_ONCE];
	struct net_addr attempted[DIAL_AT_ONCE];
	uint64_t next_ns; /* when the next one is tried although others have not failed */
};

struct conn {
	enum conn_state state;
	enum conn_kind kind;
	enum conn_proxy proxy;
	enum http_state http;
	enum tls_state tls;
	struct hello_answer answer;
	uint16_t hello_len; /* of the last hello that was judged */
	bool is_checked;    /* the hello, or the first head, is in order */
	bool is_answered;   /* the proxy's answer was given */
	bool has_partial;   /* half a head has come */
	bool is_last;	    /* no further one will be */
	bool has_more;	    /* one of its directions had to let others go first */
	bool was_asked;	    /* its name is being resolved */
	bool is_published;  /* it comes from the host, and is for the sandbox */
	bool is_urgent;	    /* there were urgent bytes on one side */
	struct source client, server;
	struct flow up, down; /* from the sandbox, to it */
	struct name *name;    /* NULL = the address itself was asked for */
	struct net_addr addr;
	struct net_addr dialled;
	bool is_dialled;
	uint16_t port;
	uint64_t started_ns, deadline_ns;
	const char *verdict; /* for the log */
	struct dial dial;
};

extern char scratch[HTTP_HEAD_MAX + 1024]; /* for the moment; nothing stays in it */
extern char scratch_out[HTTP_HEAD_MAX + 1024];

/* All there are; CONN_FREE = there is none. */
extern struct conn conns[GATEWAY_CONNECTIONS_MAX];
extern uint32_t n_conns, n_published;

/* conn.c */
void conn_client_ready(struct gateway *g, struct source *w, uint32_t events);
void conn_close(struct gateway *g, struct conn *c);
void conn_reset(struct gateway *g, struct conn *c);  /* the same, and both sides see a RST */
void conn_linger(struct gateway *g, struct conn *c); /* after the last answer to the client */
void conn_deadline(struct gateway *g, struct conn *c, uint64_t ns);
/* @fd is connected to where it wants to go. */
void conn_connected(struct gateway *g, struct conn *c, int fd);
void conn_advance(struct gateway *g, struct conn *c); /* does what can be done now */
/* Looks at what the client has sent: its length, 0 = end, or -errno. */
long conn_peek(struct conn *c, void *data, size_t len);
void conn_consume(struct conn *c, size_t len); /* of what was seen */
/* Refuses, tells the client in its own protocol, and notes it. @other: see struct gateway_denial */
void conn_refuse(struct gateway *g, struct conn *c, enum gateway_reason reason, const char *other);
/* It is allowed, but cannot be reached. */
void conn_unreachable(struct gateway *g, struct conn *c, const char *verdict);
/* The target's name or address; @ret has room for NET_NAME_MAX + 1 bytes. */
const char *conn_host(const struct conn *c, char *ret);

/* accept.c */
/* Some of those that wait at the listener @w, whose owner is its port. */
void conn_accept(struct gateway *g, struct source *w,
		 void (*take)(struct gateway *, int fd, uint16_t port));
/* A slot for a new connection, whose client is @fd; NULL = it was turned away. Those from the host
 * (@is_published) leave half of the slots to the sandbox: anyone on the host can make them. */
struct conn *conn_new(struct gateway *g, int fd, bool is_published);

/* admit.c */
/* May the connection go where it wants to? If not, it is refused already. */
bool admit_target(struct gateway *g, struct conn *c);
/* Is the name in a hello or head that of the connection? */
bool admit_name(struct gateway *g, const struct conn *c, const char *name);
bool admit_host(struct gateway *g, const struct conn *c, const struct http_host *host);
/* The hello: true = it is in order. Waits or refuses if not. */
bool admit_hello(struct gateway *g, struct conn *c);
/* Which of its addresses a name may have; fills c->dial. False = refused. */
bool admit_addresses(struct gateway *g, struct conn *c);

/* dial.c */
void dial_start(struct gateway *g, struct conn *c);
void dial_expire(struct gateway *g, struct conn *c);
void dial_stop(struct gateway *g, struct conn *c);

/* http.c */
extern const char http_too_long[]; /* a reason to refuse that has an answer of its own */
/* Moves requests; what it returns is about the direction as a whole. */
enum flow_state http_pump(struct gateway *g, struct conn *c);
/* The first head, before a server is dialled: true = it is in order. */
bool http_check_first(struct gateway *g, struct conn *c);
/* An answer of our own, and the last one: "@host@why". */
void http_answer(struct conn *c, const char *status, const char *host, const char *why);

/* tls.c: both directions of a TLS connection, this one first */
enum flow_state tls_pump_down(struct gateway *g, struct conn *c);
enum flow_state tls_pump_up(struct gateway *g, struct conn *c);

/* proxy.c */
bool proxy_ask(struct gateway *g, struct conn *c); /* true = the target is known and allowed */
void proxy_answer(struct conn *c, bool is_ok, bool is_refused, const char *host);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats that supervisor, init and gateway share.
 *
 *	supervisor ──[start: config, account, ...]──► gateway ◄──[listeners]── init
 *	                                                  ────[ready]────►
 *	                                                  ────[want a socket]──► (publish)
 *
 * The config is a sealed memory file. The account is memory that the gateway writes and the
 * supervisor reads at the end of the run, without trusting it. The supervisor's socket carries only
 * the start; closing it means the end.
 */
#ifndef FORMAT_GATEWAY_H
#define FORMAT_GATEWAY_H

#include <stdint.h>

#include "format/net_rule.h"

#define GATEWAY_MAGIC 0x47445243u
#define GATEWAY_CONNECTIONS_MAX 256
#define GATEWAY_PUBLISH_MAX 32
#define GATEWAY_DENIALS_MAX 128
#define GATEWAY_NO_ID (~0u)

/* Each name gets one address of this pool, 198.18.0.0/15. The first ones are reserved for the
 * sandbox's device and resolver, so that programs see a machine that is connected. IPv6 addresses
 * have the same number below this prefix. */
#define GATEWAY_POOL_NET 0xc6120000u /* 198.18.0.0 */
#define GATEWAY_POOL_DEVICE 1	     /* 198.18.0.1 */
#define GATEWAY_POOL_FIRST 16
#define GATEWAY_POOL6 { 0xfd, 0x63, 0x6f, 0x72, 0x64, 0x6f, 0x6e, 0, 0, 0, 0, 0 }

enum gateway_protocol {
	GATEWAY_TCP = 1,
	GATEWAY_UDP = 2
};

struct gateway_publish {
	uint16_t port;	   /* inside */
	uint16_t protocol; /* enum gateway_protocol */
};

/* config.flags */
#define GATEWAY_PROXY 0x1u /* level landlock: connections come one by one, and speak to a proxy */
#define GATEWAY_LOG 0x2u   /* there is a descriptor for the log */

struct gateway_config {
	uint32_t magic, size;
	uint32_t flags;
	uint32_t uid, gid; /* to become, GATEWAY_NO_ID = stay */
	uint32_t pad;
	uint64_t handled_fs, handled_net, scoped; /* Landlock, as this kernel knows it */
	uint32_t n_allow, n_deny;		  /* of rules[], in this order */
	uint32_t n_ports, n_publish;
	uint64_t max_bytes;	       /* through the gateway, 0 = no limit */
	uint16_t ports[NET_PORTS_MAX]; /* those with listeners, in the listeners' order */
	struct gateway_publish publish[GATEWAY_PUBLISH_MAX]; /* in the order of their sockets */
	struct net_rule rules[];
};

/*
 * The supervisor's only message: any byte, with descriptors: config, account, the socket to init,
 * the supervisor's pidfd, then the log (GATEWAY_LOG), then one listening (TCP) or bound (UDP)
 * socket for each publish[].
 *
 * Init's message (level namespaces): struct gateway_hello with n_fds sockets made inside: if there
 * are rules DNS over UDP, DNS over TCP, then one listener for each of config.ports[]; all are IPv6
 * sockets that take IPv4 too if has_v6, else IPv4. The gateway answers with one byte, 'r', and only
 * then the command is started. Later the gateway may send a struct gateway_want and gets its
 * answer with one descriptor: a new, unconnected socket inside. At level landlock there is no first
 * message: it says 'r' at once, and init sends connected sockets (struct gateway_hello, n_fds 1) as
 * the command connects.
 */
struct gateway_hello {
	uint32_t n_fds;
	uint32_t has_v6;
	uint32_t id; /* of the gateway_want that this answers */
};

struct gateway_want {
	uint32_t protocol; /* enum gateway_protocol */
	uint32_t is_v6;
	uint32_t id; /* an answer may get lost when init has no room for it */
};

enum gateway_reason {
	GATEWAY_R_NOT_LISTED = 1, /* no rule allows this host */
	GATEWAY_R_DENIED,	  /* net.deny */
	GATEWAY_R_PORT,		  /* the host, but not this port */
	GATEWAY_R_SPECIAL,	  /* the name has an address that is not public */
	GATEWAY_R_SNI,		  /* TLS to another name than the connection's */
	GATEWAY_R_NO_SNI,
	GATEWAY_R_NOT_TLS,
	GATEWAY_R_HOST,	       /* HTTP to another host than the connection's */
	GATEWAY_R_HTTP,	       /* not HTTP, or ambiguous */
	GATEWAY_R_CONNECTIONS, /* too many at once */
	GATEWAY_R_RATE,	       /* too many in a second */
	GATEWAY_R_BYTES,       /* max_bytes */
	GATEWAY_R_NAMES,       /* too many different names */
	GATEWAY_R_PROXY,       /* level landlock: no request that a proxy understands */
	GATEWAY_R_ALIAS,       /* the name is an alias of one that net.deny covers */
	GATEWAY_R_MAX
};

/* One refusal; a repeated one only increases count. */
struct gateway_denial {
	uint16_t reason; /* enum gateway_reason */
	uint16_t port;	 /* 0 = a question for the name's address */
	uint32_t count;
	char host[NET_NAME_MAX + 1]; /* a canonical name, an address, or other text's printable
				      * part */
	char other[64]; /* the SNI or Host that was asked for instead, or the refused address */
};

struct gateway_account {
	uint64_t bytes_in, bytes_out; /* to the sandbox and from it */
	uint64_t bytes_names; /* to name servers and from them: they count for max_bytes only */
	uint64_t n_connections;
	uint32_t is_ready;  /* everything is in place */
	uint32_t failed_at; /* enum gateway_step, 0 = none */
	int32_t failed_errno;
	uint32_t n_denials, n_more; /* stored, and how many did not fit */
	struct gateway_denial denials[GATEWAY_DENIALS_MAX];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: make every address lead to this net namespace's own loopback device, open a listener for
 * each allowed port and for DNS, hand them to the gateway, and wait until it is ready.
 * Mustn't: keep a listener (they shall die with the gateway), add a way out, or go on without an
 * answer.
 *
 * Later it makes sockets inside for the gateway, which relays what arrives at published ports.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/socket.h"
#include "bare/wait.h"
#include "format/gateway.h"
#include "init/fdpass.h"

#define SOCK_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define IPV6_V6ONLY_NR 26
#define DNS_PORT 53
#define BACKLOG 128
#define LOOPBACK 1 /* index of the first device of a net namespace */
#define GATEWAY_SECONDS 10
#define WANTS_PER_TURN 32

#define NO_PACING "reno" /* every kernel has it */

/* Route and address messages, with room for their attributes. */
struct route_message {
	struct nlmsghdr header;
	struct rtmsg route;
	struct rtattr oif;
	uint32_t index;
	struct rtattr metrics, congestion; /* one in the other */
	char algorithm[8];
};

struct address_message {
	struct nlmsghdr header;
	struct ifaddrmsg address;
	struct rtattr local;
	uint8_t local_bytes[16];
};

/*
 * Every address is local: "local default dev lo congctl reno". Nothing is lost on the way to the
 * gateway, so these connections need no other congestion control, even if the machine has one.
 */
static void fill_route(struct route_message *m, uint8_t family)
{
	memset(m, 0, sizeof(*m));
	m->header.nlmsg_len = sizeof(*m);
	m->header.nlmsg_type = RTM_NEWROUTE;
	m->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
	m->route.rtm_family = family;
	m->route.rtm_table = RT_TABLE_LOCAL;
	m->route.rtm_protocol = RTPROT_STATIC;
	m->route.rtm_scope = RT_SCOPE_HOST;
	m->route.rtm_type = RTN_LOCAL;
	m->oif.rta_len = sizeof(m->oif) + sizeof(m->index);
	m->oif.rta_type = RTA_OIF;
	m->index = LOOPBACK;
	m->congestion.rta_len = sizeof(m->congestion) + sizeof(NO_PACING);
	m->congestion.rta_type = RTAX_CC_ALGO;
	memcpy(m->algorithm, NO_PACING, sizeof(NO_PACING));
	m->metrics.rta_len = sizeof(m->metrics) + sizeof(m->congestion) + sizeof(m->algorithm);
	m->metrics.rta_type = RTA_METRICS;
}

/*
 * An address besides the loopback one: programs that ask whether the machine has IPv4 or IPv6 at
 * all (AI_ADDRCONFIG) look for it.
 */
static size_t fill_address(struct address_message *m, uint8_t family)
{
	static const uint8_t pool6[12] = GATEWAY_POOL6;
	const uint32_t number = GATEWAY_POOL_NET + GATEWAY_POOL_DEVICE;
	size_t len = family == AF_INET6_NR ? 16 : 4;
	uint8_t *at = m->local_bytes;

	memset(m, 0, sizeof(*m));
	m->header.nlmsg_len = (uint32_t)(offsetof(struct address_message, local_bytes) + len);
	m->header.nlmsg_type = RTM_NEWADDR;
	m->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
	m->address.ifa_family = family;
	m->address.ifa_prefixlen = (uint8_t)(len * 8);
	m->address.ifa_flags = family == AF_INET6_NR ? IFA_F_NODAD : 0;
	m->address.ifa_index = LOOPBACK;
	m->local.rta_len = (uint16_t)(sizeof(m->local) + len);
	m->local.rta_type = IFA_LOCAL;
	if (family == AF_INET6_NR) {
		memcpy(at, pool6, sizeof(pool6));
		at += sizeof(pool6);
	}
	at[0] = (uint8_t)(number >> 24);
	at[1] = (uint8_t)(number >> 16);
	at[2] = (uint8_t)(number >> 8);
	at[3] = (uint8_t)number;
	return m->header.nlmsg_len;
}

/* Sends one request and takes the answer to it. */
static long request(int fd, const void *message, size_t len)
{
	struct {
		struct nlmsghdr header;
		int32_t error;
		char room[256];
	} answer;
	long r = raw6(__NR_sendto, fd, message, len, 0, 0, 0);

	if (r < 0)
		return r;
	memset(&answer, 0, sizeof(answer));
	r = raw6(__NR_recvfrom, fd, &answer, sizeof(answer), 0, 0, 0);
	if (r < 0)
		return r;
	if (answer.header.nlmsg_type != NLMSG_ERROR)
		return -EBADMSG;
	return answer.error;
}

static long set_up_family(int fd, uint8_t family)
{
	struct route_message route;
	struct address_message address;
	long r;

	fill_route(&route, family);
	r = request(fd, &route, sizeof(route));
	if (r < 0)
		return r;
	return request(fd, &address, fill_address(&address, family));
}

/* IPv4 must work; a kernel may do without IPv6. */
static int set_up_routes(struct init *in)
{
	long fd = raw3(__NR_socket, AF_NETLINK_NR, SOCK_RAW_NR | SOCK_CLOEXEC_NR, NETLINK_ROUTE), r;

	if (fd < 0)
		fail(in, STAGE_NET, STEP_NET_NETLINK, fd);
	r = set_up_family((int)fd, AF_INET_NR);
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_ROUTE, r);
	r = set_up_family((int)fd, AF_INET6_NR);
	close_fd(fd);
	return r >= 0;
}

/* A socket inside, bound to @port of every address; TCP ones listen. */
static long open_listener(int has_v6, int type, uint16_t port)
{
	const struct {
		uint16_t family, port;
		uint32_t rest[6];
	} any = { has_v6 ? AF_INET6_NR : AF_INET_NR, (uint16_t)(port << 8 | port >> 8), { 0 } };
	const int off = 0;
	long r, fd = raw3(__NR_socket, has_v6 ? AF_INET6_NR : AF_INET_NR, type | SOCK_FLAGS, 0);

	if (fd < 0)
		return fd;
	r = has_v6 ? raw5(__NR_setsockopt, fd, SOL_IPV6_NR, IPV6_V6ONLY_NR, &off, sizeof(off)) : 0;
	if (r >= 0)
		r = raw3(__NR_bind, fd, &any, has_v6 ? 28 : 16);
	if (r >= 0 && type == SOCK_STREAM_NR)
		r = raw2(__NR_listen, fd, BACKLOG);
	return r < 0 ? r : fd;
}

static uint32_t open_listeners(struct init *in, int has_v6, int *ret)
{
	const struct plan_header *plan = in->plan;
	long r = open_listener(has_v6, SOCK_DGRAM_NR, DNS_PORT);
	uint32_t n = 0;

	for (uint32_t i = 0; r >= 0; i++) {
		ret[n++] = (int)r;
		if (i > plan->n_net_ports)
			return n;
		r = open_listener(has_v6, SOCK_STREAM_NR, i ? plan->net_ports[i - 1] : DNS_PORT);
	}
	fail(in, STAGE_NET, STEP_NET_LISTEN, r);
}

long await_gateway(const struct init *in)
{
	struct poll_entry poll[2] = { { in->gateway_fd, WAIT_IN, 0 }, { CTL_FD, 0, 0 } };
	const struct duration patience = { GATEWAY_SECONDS, 0 };
	char byte = 0;
	long r = raw5(__NR_ppoll, poll, 2, &patience, 0, WAIT_SIGSET_BYTES);

	if (r < 0)
		return r;
	/* The supervisor is gone: do not wait any longer. */
	if (poll[1].revents)
		return -EOWNERDEAD;
	if (!poll[0].revents)
		return -ETIMEDOUT;
	r = raw3(__NR_read, in->gateway_fd, &byte, 1);
	if (r < 0)
		return r;
	return r == 1 && byte == 'r' ? 0 : -EPIPE;
}

void open_gateway(struct init *in)
{
	struct gateway_hello hello = { 0, 0, 0 };
	int fds[2 + PLAN_NET_PORTS_MAX];
	long r;

	if (in->gateway_fd < 0)
		return;
	if (in->plan->flags & PLAN_NET_ALLOW) {
		hello.has_v6 = (uint32_t)set_up_routes(in);
		hello.n_fds = open_listeners(in, (int)hello.has_v6, fds);
	} else {
		/* What is published may listen on either loopback address. */
		long fd = raw_syscall(__NR_socket, AF_INET6_NR, SOCK_STREAM_NR | SOCK_FLAGS, 0, 0,
				      0, 0);

		hello.has_v6 = fd >= 0;
		close_fd(fd);
	}
	r = pass_fds(in->gateway_fd, &hello, sizeof(hello), fds, hello.n_fds);
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_HAND_OVER, r);
	for (uint32_t i = 0; i < hello.n_fds; i++)
		close_fd(fds[i]);
	r = await_gateway(in);
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_AWAIT, r);
}

/* If the socket cannot be made, the answer has no descriptor. An answer for which there is no room
 * is lost; the gateway does not wait for ever. */
static void answer_want(struct init *in, const struct gateway_want *want)
{
	const struct gateway_hello hello = { 1, want->is_v6, want->id };
	int fd = (int)raw_syscall(__NR_socket, want->is_v6 ? AF_INET6_NR : AF_INET_NR,
				  (want->protocol == GATEWAY_UDP ? SOCK_DGRAM_NR : SOCK_STREAM_NR) |
					  SOCK_FLAGS,
				  0, 0, 0, 0);

	if (pass_fds(in->gateway_fd, &hello, sizeof(hello), &fd, fd >= 0) < 0)
		pass_fds(in->gateway_fd, &hello, sizeof(hello), 0, 0);
	close_fd(fd);
}

void serve_gateway(struct init *in)
{
	for (int i = 0; i < WANTS_PER_TURN; i++) {
		struct gateway_want want;
		long n = raw_syscall(__NR_recvfrom, in->gateway_fd, (long)&want, sizeof(want),
				     MESSAGE_DONTWAIT, 0, 0);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n != sizeof(want)) {
			/* The gateway is gone, and so are its listeners. The run goes on without.
			 */
			close_fd(in->gateway_fd);
			in->gateway_fd = -1;
			return;
		}
		answer_want(in, &want);
	}
}

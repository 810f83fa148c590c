/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does an address lead to this machine itself? Only the kernel's routing tables know: an address
 * may be the second one of a device, belong to a device in a VRF, or be local by a route alone
 * (AnyIP). So they are asked, with the very question that connect() will ask them.
 *
 * The socket is made before the gateway confines itself. It has no capability, so it can only ask.
 */
#include "gateway/gateway.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "bare/socket.h"

#define SOCK_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define PROTOCOL_TCP 6
#define ANSWERS_MAX 4 /* late ones to earlier questions, and the one that counts */

/* Each attribute is as long as its place, so that none needs padding. */
struct question {
	struct nlmsghdr header;
	struct rtmsg route;
	struct rtattr protocol_head;
	uint8_t protocol, protocol_pad[3];
	struct rtattr port_head;
	uint8_t port[2], port_pad[2]; /* in network order */
	struct rtattr device_head;
	uint32_t device; /* 0 = any */
	struct rtattr dst_head;
	uint8_t dst[16];
};

static uint32_t last_number;

long route_open(struct gateway *g)
{
	long fd = raw3(__NR_socket, AF_NETLINK_NR, SOCK_RAW_NR | SOCK_FLAGS, NETLINK_ROUTE);

	if (fd < 0)
		return fd;
	g->route_fd = (int)fd;
	return 0;
}

static struct rtattr attribute(unsigned type, size_t len)
{
	return (struct rtattr){ (uint16_t)(sizeof(struct rtattr) + len), (uint16_t)type };
}

static long send_question(struct gateway *g, const struct net_addr *addr, uint16_t port,
			  uint32_t device)
{
	size_t len = addr->is_v6 ? 16 : 4;
	struct question q;

	memset(&q, 0, sizeof(q));
	q.header.nlmsg_len = (uint32_t)(offsetof(struct question, dst) + len);
	q.header.nlmsg_type = RTM_GETROUTE;
	q.header.nlmsg_flags = NLM_F_REQUEST;
	q.header.nlmsg_seq = ++last_number;
	q.route.rtm_family = addr->is_v6 ? AF_INET6_NR : AF_INET_NR;
	q.route.rtm_dst_len = (uint8_t)(len * 8);
	q.protocol_head = attribute(RTA_IP_PROTO, sizeof(q.protocol));
	q.protocol = PROTOCOL_TCP;
	q.port_head = attribute(RTA_DPORT, sizeof(q.port));
	q.port[0] = (uint8_t)(port >> 8);
	q.port[1] = (uint8_t)port;
	q.device_head = attribute(RTA_OIF, sizeof(q.device));
	q.device = device;
	q.dst_head = attribute(RTA_DST, len);
	memcpy(q.dst, addr->bytes, len);
	return sock_send(g->route_fd, &q, q.header.nlmsg_len);
}

/* The device that the route leaves by; 0 if it does not say. */
static uint32_t device_of(const uint8_t *attributes, size_t len)
{
	struct rtattr head;
	uint32_t device = 0;

	while (len >= sizeof(head)) {
		size_t whole;

		memcpy(&head, attributes, sizeof(head));
		whole = (size_t)RTA_ALIGN(head.rta_len);
		if (head.rta_len < sizeof(head) || whole > len)
			break;
		if (head.rta_type == RTA_OIF && head.rta_len == sizeof(head) + sizeof(device))
			memcpy(&device, attributes + sizeof(head), sizeof(device));
		attributes += whole;
		len -= whole;
	}
	return device;
}

/* The type of the route (RTN_*) and its device, or -errno. The kernel answers within the call. */
static long ask(struct gateway *g, const struct net_addr *addr, uint16_t port, uint32_t device,
		uint32_t *ret_device)
{
	static union {
		struct nlmsghdr header;
		struct {
			struct nlmsghdr header;
			struct nlmsgerr error;
		} failed;
		struct {
			struct nlmsghdr header;
			struct rtmsg route;
			uint8_t attributes[2048];
		} found;
	} answer;
	long r = send_question(g, addr, port, device);

	for (int i = 0; i < ANSWERS_MAX && r >= 0; i++) {
		r = sock_recv(g->route_fd, &answer, sizeof(answer));
		if (r < (long)sizeof(answer.header))
			return r < 0 ? r : -EBADMSG;
		if (answer.header.nlmsg_seq != last_number)
			continue;
		if (answer.header.nlmsg_type == NLMSG_ERROR && r >= (long)sizeof(answer.failed))
			return answer.failed.error.error < 0 ? answer.failed.error.error : -EBADMSG;
		if (answer.header.nlmsg_type != RTM_NEWROUTE ||
		    r < (long)offsetof(typeof(answer.found), attributes))
			return -EBADMSG;
		*ret_device = device_of(answer.found.attributes,
					(size_t)r - offsetof(typeof(answer.found), attributes));
		return answer.found.route.rtm_type;
	}
	return r < 0 ? r : -EBADMSG;
}

bool route_is_own(struct gateway *g, const struct net_addr *addr, uint16_t port)
{
	uint32_t device = 0, ignored;
	long type = ask(g, addr, port, 0, &device);

	/* It leads nowhere, and connect() will say so. */
	if (type == -ENETUNREACH || type == -EHOSTUNREACH)
		return false;
	if (type != RTN_UNICAST || device == 0)
		return true;
	/* Out by the device of a VRF, the packet is routed once more, by the tables of that VRF. */
	return ask(g, addr, port, device, &ignored) != RTN_UNICAST;
}

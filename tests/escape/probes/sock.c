/* SPDX-License-Identifier: Apache-2.0 */
/* Socket families, types and protocols, and the flags that get around connect(). */
#include <arpa/inet.h>
#include <linux/if_alg.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "probe.h"

struct kind {
	const char *name;
	int family, type, protocol;
};

static const struct kind kinds[] = {
	{ "unix-stream", AF_UNIX, SOCK_STREAM, 0 },
	{ "unix-dgram", AF_UNIX, SOCK_DGRAM, 0 },
	{ "tcp", AF_INET, SOCK_STREAM, 0 },
	{ "tcp6", AF_INET6, SOCK_STREAM, IPPROTO_TCP },
	{ "udp", AF_INET, SOCK_DGRAM, 0 },
	{ "udp6", AF_INET6, SOCK_DGRAM, IPPROTO_UDP },
	{ "mptcp", AF_INET, SOCK_STREAM, 262 },
	{ "mptcp6", AF_INET6, SOCK_STREAM, 262 },
	{ "sctp", AF_INET, SOCK_STREAM, IPPROTO_SCTP },
	{ "dccp", AF_INET, 6, IPPROTO_DCCP },
	{ "udplite", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE },
	{ "raw", AF_INET, SOCK_RAW, IPPROTO_ICMP },
	{ "raw6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6 },
	{ "raw-high-bits", AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW },
	{ "ping", AF_INET, SOCK_DGRAM, IPPROTO_ICMP },
	{ "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6 },
	{ "packet", AF_PACKET, SOCK_RAW, 0x0300 },
	{ "packet-dgram", AF_PACKET, SOCK_DGRAM, 0x0300 },
	{ "vsock", AF_VSOCK, SOCK_STREAM, 0 },
	{ "vsock-dgram", AF_VSOCK, SOCK_DGRAM, 0 },
	{ "alg", AF_ALG, SOCK_SEQPACKET, 0 },
	{ "xdp", 44, SOCK_RAW, 0 },
	{ "key", 15, SOCK_RAW, 2 },
	{ "bluetooth", 31, SOCK_RAW, 1 },
	{ "can", 29, SOCK_RAW, 1 },
	{ "tipc", 30, SOCK_RDM, 0 },
	{ "rds", 21, SOCK_SEQPACKET, 0 },
	{ "smc", 43, SOCK_STREAM, 0 },
	{ "nfc", 39, SOCK_RAW, 0 },
	{ "kcm", 41, SOCK_DGRAM, 0 },
	{ "qipcrtr", 42, SOCK_DGRAM, 0 },
	{ "netlink-route", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE },
	{ "netlink-netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER },
	{ "netlink-xfrm", AF_NETLINK, SOCK_RAW, NETLINK_XFRM },
	{ "netlink-audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT },
	{ "netlink-uevent", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT },
	{ "netlink-generic", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC },
	{ "netlink-diag", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG },
	{ "netlink-connector", AF_NETLINK, SOCK_RAW, NETLINK_CONNECTOR },
	{ "netlink-crypto", AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO },
};

/* The kernel reads family, type and protocol as 32-bit numbers. */
static long with_high_bits(const struct kind *k)
{
	return syscall(SYS_socket, 0x100000000L | k->family, 0x100000000L | k->type,
		       0x100000000L | k->protocol);
}

/* Raising lo, which is up already: needs the right to change links, changes nothing. */
static long add_link(void)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} request = {
		.head = { .nlmsg_len = sizeof(request),
			  .nlmsg_type = RTM_NEWLINK,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		.info = { .ifi_index = 1, .ifi_flags = 1, .ifi_change = 1 },
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
		char rest[512];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < 0)
		return -1;
	errno = -answer.error.error;
	return answer.error.error ? -1 : 0;
}

static long out_of_band(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -1;
	return send(pair[0], "x", 1, MSG_OOB);
}

static long out_of_band_msg(void)
{
	struct iovec part = { "x", 1 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return -1;
	return sendmsg(pair[0], &msg, MSG_OOB);
}

static long pair_of(int type)
{
	int pair[2];

	return socketpair(AF_UNIX, type, 0, pair);
}

int main(void)
{
	char name[64];
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *k = &kinds[i];
		int fd = socket(k->family, k->type, k->protocol);

		row(k->name, fd);
		if (fd >= 0)
			close(fd);
	}
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		long fd = with_high_bits(&kinds[i]);

		snprintf(name, sizeof(name), "high-%s", kinds[i].name);
		row(name, fd);
		if (fd >= 0)
			close((int)fd);
	}
	row("pair-stream", pair_of(SOCK_STREAM));
	row("pair-dgram", pair_of(SOCK_DGRAM));
	row("link-change", add_link());
	row("oob-send", out_of_band());
	row("oob-sendmsg", out_of_band_msg());
	return 0;
}

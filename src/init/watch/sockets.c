/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in the queues of sockets. It belongs to no process, and a thousand sockets can have some
 * hundred megabytes of it. The kernel reports it for each socket of this net namespace (sock_diag).
 * Level landlock has no namespace of its own; there only the filter bounds it, which keeps buffers
 * at their default size.
 */
#include "init/watch/sockets.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/socket.h"
#include "bare/text.h"
#include "init/procfs.h"

#define TCP 6
#define UDP 17
#define SOCKET_BYTES (213u << 10) /* the kernel's default for a buffer, and the socket itself */
#define BUFFER_MAX 32768
#define FEW 4	   /* not worth the question */
#define MANY 16384 /* asking would take so long that memory could be filled meanwhile */

struct sums {
	uint64_t charged; /* to the socket that sent it, or that has it */
	uint64_t queued;  /* bytes to be read: the sender may be gone */
};

/* The attributes of one socket. */
static void add_attributes(const struct nlattr *a, long left, int meminfo, struct sums *sums)
{
	while (left >= (long)sizeof(*a) && a->nla_len >= sizeof(*a) && a->nla_len <= left) {
		const uint32_t *v = (const void *)(a + 1);
		long values = (a->nla_len - (long)sizeof(*a)) / (long)sizeof(*v), step;

		if (a->nla_type == meminfo && values > SK_MEMINFO_WMEM_QUEUED)
			sums->charged += (uint64_t)v[SK_MEMINFO_RMEM_ALLOC] +
					 (v[SK_MEMINFO_WMEM_ALLOC] > v[SK_MEMINFO_WMEM_QUEUED]
						  ? v[SK_MEMINFO_WMEM_ALLOC]
						  : v[SK_MEMINFO_WMEM_QUEUED]);
		/* Options: filters, multicast groups. */
		if (a->nla_type == meminfo && values > SK_MEMINFO_OPTMEM)
			sums->charged += v[SK_MEMINFO_OPTMEM];
		/* The first of the two is the queue to read; a listening socket's has another
		 * meaning, and is short. */
		if (meminfo == UNIX_DIAG_MEMINFO && a->nla_type == UNIX_DIAG_RQLEN && values >= 2)
			sums->queued += v[0];
		step = NLA_ALIGN(a->nla_len);
		left -= step;
		a = (const void *)((const char *)a + step);
	}
}

/* One packet of answers; 1 when it was the last. */
static int add_answers(const char *buffer, long n, size_t head, int meminfo, struct sums *sums)
{
	while (n >= (long)sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const void *)buffer;
		long step = NLMSG_ALIGN(h->nlmsg_len);

		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR ||
		    h->nlmsg_len < sizeof(*h) || h->nlmsg_len > (unsigned long)n)
			return 1;
		if (h->nlmsg_len >= sizeof(*h) + head)
			add_attributes((const void *)(buffer + sizeof(*h) + NLMSG_ALIGN(head)),
				       (long)(h->nlmsg_len - sizeof(*h) - NLMSG_ALIGN(head)),
				       meminfo, sums);
		buffer += step;
		n -= step;
	}
	return 0;
}

/* Asks for all sockets of one kind. 0 or -errno. */
static long ask(long fd, const void *request, size_t size, size_t head, int meminfo,
		struct sums *sums)
{
	static char buffer[BUFFER_MAX] __attribute__((aligned(8)));
	long n = raw_syscall(__NR_sendto, fd, RAW_ARG(request), (long)size, MESSAGE_DONTWAIT, 0, 0);

	if (n < 0)
		return n;
	for (;;) {
		n = raw_syscall(__NR_recvfrom, fd, RAW_ARG(buffer), sizeof(buffer),
				MESSAGE_DONTWAIT, 0, 0);
		if (n <= 0)
			return n < 0 ? n : -EPIPE;
		if (((const struct nlmsghdr *)(const void *)buffer)->nlmsg_type == NLMSG_ERROR)
			return -EOPNOTSUPP;
		if (add_answers(buffer, n, head, meminfo, sums))
			return 0;
	}
}

static long ask_unix(long fd, struct sums *sums)
{
	const struct {
		struct nlmsghdr h;
		struct unix_diag_req r;
	} request = {
		.h = { .nlmsg_len = sizeof(request),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.r = { .sdiag_family = AF_UNIX_NR,
		       .udiag_states = ~0u,
		       .udiag_show = UDIAG_SHOW_MEMINFO | UDIAG_SHOW_RQLEN },
	};

	return ask(fd, &request, sizeof(request), sizeof(struct unix_diag_msg), UNIX_DIAG_MEMINFO,
		   sums);
}

static long ask_inet(long fd, int family, int protocol, struct sums *sums)
{
	const struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} request = {
		.h = { .nlmsg_len = sizeof(request),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.r = { .sdiag_family = (uint8_t)family,
		       .sdiag_protocol = (uint8_t)protocol,
		       .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
		       .idiag_states = ~0u },
	};

	return ask(fd, &request, sizeof(request), sizeof(struct inet_diag_msg), INET_DIAG_SKMEMINFO,
		   sums);
}

static long ask_all(long fd, struct sums *local, struct sums *net)
{
	static const int families[] = { AF_INET_NR, AF_INET6_NR }, protocols[] = { TCP, UDP };
	long r = ask_unix(fd, local);

	for (int i = 0; r == 0 && i < 4; i++)
		r = ask_inet(fd, families[i / 2], protocols[i % 2], net);
	return r;
}

/* sk protocol pid groups RMEM WMEM ... */
static void add_netlink(void *arg, const char *line)
{
	uint64_t *sum = arg, bytes;

	for (int i = 0; i < 4; i++) {
		while (*line && *line != ' ')
			line++;
		while (*line == ' ')
			line++;
	}
	for (int i = 0; i < 2; i++) {
		line = read_number(line, &bytes);
		*sum += bytes;
		while (*line == ' ')
			line++;
	}
}

/* Answers that nobody reads. sock_diag knows these sockets only where a module is loaded. */
static long ask_netlink(struct init *in, struct sums *sums)
{
	char text[4096];
	long r = proc_lines(in->proc_fd, 0, "net/netlink", text, sizeof(text), add_netlink,
			    &sums->charged);

	/* A kernel without this file has no such sockets. */
	return r == -ENOENT ? 0 : r;
}

uint64_t sockets_bytes(struct init *in)
{
	struct sums local = { 0, 0 }, net = { 0, 0 };
	uint64_t n, most;
	char text[512];
	long fd, r;

	if (in->plan->level != PLAN_LEVEL_NAMESPACES ||
	    proc_read(in->proc_fd, 0, "net/sockstat", text, sizeof(text)) <= 0)
		return 0;
	n = proc_field(text, "sockets: used");
	/* Those of TCP make their queues longer by themselves. */
	if (n <= FEW && proc_field(text, "TCP: inuse") == 0)
		return 0;
	most = n * SOCKET_BYTES;
	if (n > MANY)
		return most;
	fd = raw_syscall(__NR_socket, AF_NETLINK_NR, SOCK_RAW_NR | SOCK_CLOEXEC_NR,
			 NETLINK_SOCK_DIAG, 0, 0, 0);
	if (fd < 0)
		return most;
	r = ask_all(fd, &local, &net);
	close_fd(fd);
	if (r >= 0)
		r = ask_netlink(in, &net);
	if (r < 0)
		return most;
	return net.charged + (local.charged > local.queued ? local.charged : local.queued);
}

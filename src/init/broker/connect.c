/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect() at level `landlock`, for runs that may reach some hosts.
 *
 * Theory of operation. Without a net namespace the guest's sockets are the host's. Landlock allows
 * the guest no TCP connection at all; the filter allows no other kind of socket and no other way to
 * connect than this call, and hands the call to us. We connect a socket of ours to a listener of
 * ours on 127.0.0.1, hand the accepted end to the gateway, put the other end in the place of the
 * guest's socket and report that it is connected. The gateway speaks to it as a proxy and decides
 * by the requests that it gets. The proxy variables name the listener's port.
 *
 * The port belongs to us all the time, but is open only while a request is served: otherwise other
 * users of the machine could keep its queue full, and the guest from its network. What they begin
 * in these moments is reset.
 *
 * Should: connect the guest to the gateway when it asks for the proxy's address; be a closed port
 * for every other process of the machine.
 * Mustn't: let the guest choose where a connection leads (its address only decides about the errno:
 * there is one destination, and a false address leads there or nowhere); connect the guest's own
 * socket; wait without a limit. Any failure is a refusal.
 *
 * The guest's new socket is not its old one: options that were set before connect() are not carried
 * over (but TCP_NODELAY is always set), duplicates of the descriptor go on meaning the old one, an
 * epoll set that it was put in before forgets it, and it is an IPv4 socket also in place of an IPv6
 * one. A socket that is connected already is connected anew.
 *
 * Unix sockets. Where the filter lets the guest make them (Landlock ABI 9 or later) their connect()
 * must work as without a network, and here the kernel is told to go on with the call. It reads the
 * address again, which another thread may have changed. This is only safe because nothing depends
 * on what we have read: the kernel then does what it does for runs without a network, whose filter
 * allows every connect(). The guest's own Landlock domain checks the kernel's copy of the address:
 * no TCP connection at all, Unix sockets as far as they are granted. Doing it ourselves on the
 * guest's socket would be worse: we are in no domain. Where the filter allows no Unix sockets the
 * kernel never goes on.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/ioctl.h>

#include "bare/fd.h"
#include "bare/socket.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "format/gateway.h"
#include "init/broker/parts.h"
#include "init/broker/thread_raw.h"
#include "init/fdpass.h"

#define FAMILY_INET 2
#define STREAM_NONBLOCK (1 | 04000 | 02000000) /* SOCK_STREAM, _NONBLOCK, _CLOEXEC */
#define ACCEPT_NONBLOCK (04000 | 02000000)
#define BACKLOG 4096 /* more than others can begin between two system calls of ours */
#define SHUT_RD_NR 0
#define PATIENCE_NS 500000000 /* for our own connection to our own listener */
#define GATEWAY_PATIENCE_NS 100000000

struct inet_address {
	uint16_t family, port; /* the port in network order */
	uint8_t address[4];
	uint8_t zero[8];
};

/* With a reset, so that neither side keeps anything of it. */
static void turn_away(int fd)
{
	const int no_linger[2] = { 1, 0 };

	thread5(__NR_setsockopt, fd, SOL_SOCKET_NR, SO_LINGER_NR, no_linger, sizeof(no_linger));
	drop_fd(&fd);
}

static int wait_for(int fd, short events, uint64_t until_ns)
{
	struct poll_entry poll = { fd, events, 0 };
	struct duration timeout;
	uint64_t now = now_ns();

	if (now >= until_ns)
		return 0;
	timeout = duration_of(until_ns - now);
	return poll_wait(&poll, 1, &timeout) == 1;
}

/*
 * The other end of the connection that @own is the near end of. The kernel has only one connection
 * with these two addresses; any other in the queue comes from another program.
 */
static long accept_own(const struct broker *b, const struct inet_address *own)
{
	uint64_t until_ns = now_ns() + PATIENCE_NS;

	do {
		struct inet_address peer = { 0, 0, { 0 }, { 0 } };
		int size = sizeof(peer);
		long fd = thread4(__NR_accept4, b->proxy_fd, &peer, &size, ACCEPT_NONBLOCK);

		if (fd == -EINTR || fd == -ECONNABORTED ||
		    (fd == -EAGAIN && wait_for(b->proxy_fd, WAIT_IN, until_ns)))
			continue;
		if (fd < 0)
			return fd;
		if (peer.family == FAMILY_INET && peer.port == own->port &&
		    *(const uint32_t *)peer.address == *(const uint32_t *)own->address)
			return fd;
		turn_away((int)fd);
	} while (now_ns() < until_ns);
	return -EAGAIN;
}

/* A connection with ourselves: ret[0] is the end that connected. */
static long make_pair(const struct broker *b, int ret[2])
{
	const struct inet_address proxy = { FAMILY_INET,
					    (uint16_t)(b->proxy_port << 8 | b->proxy_port >> 8),
					    { 127, 0, 0, 1 },
					    { 0 } };
	struct inet_address own;
	int size = sizeof(own);
	long r, fd = thread3(__NR_socket, FAMILY_INET, STREAM_NONBLOCK, 0);

	if (fd < 0)
		return fd;
	ret[0] = (int)fd;
	r = thread3(__NR_listen, b->proxy_fd, BACKLOG, 0);
	if (r == 0)
		r = thread3(__NR_connect, fd, &proxy, sizeof(proxy));
	if (r == 0 || r == -EINPROGRESS)
		r = thread3(__NR_getsockname, fd, &own, &size);
	if (r == 0)
		r = accept_own(b, &own);
	/* It listens no more: those in its queue are reset. */
	thread3(__NR_shutdown, b->proxy_fd, SHUT_RD_NR, 0);
	if (r < 0) {
		turn_away(ret[0]);
		return r;
	}
	ret[1] = (int)r;
	return 0;
}

/* What kind of descriptor the guest's @fd is; its flags if it is a socket. */
static long look_at_socket(int task_fd, int fd)
{
	char name[24], text[256];
	long n, info_fd;

	if (fd < 0)
		return -EBADF;
	text_number(name, sizeof(name), "fd/", (uint32_t)fd);
	n = thread4(__NR_readlinkat, task_fd, name, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -EBADF : -EACCES;
	if (!broker_is_socket(text, (size_t)n))
		return -ENOTSOCK;
	text_number(name, sizeof(name), "fdinfo/", (uint32_t)fd);
	info_fd = thread4(__NR_openat, task_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (info_fd < 0)
		return info_fd == -ENOENT ? -EBADF : -EACCES;
	n = thread3(__NR_read, info_fd, text, sizeof(text));
	close_fd(info_fd);
	return n < 0 ? -EBADF : broker_read_flags(text, (size_t)n);
}

static long read_destination(const struct broker *b, int task_fd, const struct seccomp_data *data)
{
	uint8_t address[BROKER_ADDRESS_MAX];
	int len = (int)data->args[2];
	long n, mem_fd;

	if (len < 0 || len > BROKER_ADDRESS_MAX)
		return -EINVAL;
	mem_fd = thread4(__NR_openat, task_fd, "mem", O_RDONLY | O_CLOEXEC, 0);
	if (mem_fd < 0)
		return -EACCES;
	n = len ? thread4(__NR_pread64, mem_fd, address, len, data->args[1]) : 0;
	close_fd(mem_fd);
	return n == len ? broker_read_destination(address, (size_t)len, b->proxy_port) : -EFAULT;
}

/* Waits a moment for a gateway that does not keep up. */
static long give_to_gateway(const struct broker *b, int fd)
{
	const struct gateway_hello hello = { .n_fds = 1 };
	long r = pass_fds(b->gateway_fd, &hello, sizeof(hello), &fd, 1);

	if (r == -EAGAIN && wait_for(b->gateway_fd, WAIT_OUT, now_ns() + GATEWAY_PATIENCE_NS))
		r = pass_fds(b->gateway_fd, &hello, sizeof(hello), &fd, 1);
	return r;
}

/* The gateway gets its end first: otherwise the guest's would lead nowhere. */
static long hand_out(const struct broker *b, const struct seccomp_notif *notif, long flags,
		     const int pair[2])
{
	const struct seccomp_notif_addfd add = {
		.id = notif->id,
		.flags = SECCOMP_ADDFD_FLAG_SETFD,
		.srcfd = (uint32_t)pair[0],
		.newfd = (uint32_t)notif->data.args[0],
		.newfd_flags = (uint32_t)(flags & O_CLOEXEC),
	};
	const int on = 1;
	long r = 0;

	/* Many programs set it before they connect, and it does no harm. */
	thread5(__NR_setsockopt, pair[0], SOL_TCP_NR, TCP_NODELAY_NR, &on, sizeof(on));
	if (!(flags & O_NONBLOCK))
		r = thread3(__NR_fcntl, pair[0], F_SETFL, 0);
	if (r == 0)
		r = give_to_gateway(b, pair[1]);
	if (r == 0)
		r = thread3(__NR_ioctl, b->listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
	return r < 0 ? r : 0;
}

long broker_connect(const struct broker *b, const struct seccomp_notif *notif, int task_fd)
{
	long flags, r;
	int pair[2];

	if (b->proxy_fd < 0)
		return -ENOSYS;
	flags = look_at_socket(task_fd, (int)notif->data.args[0]);
	if (flags < 0)
		return flags;
	r = read_destination(b, task_fd, &notif->data);
	if (r < 0)
		return r;
	if (r == BROKER_TO_OTHER_FAMILY)
		return b->has_unix ? BROKER_GO_ON : -EAFNOSUPPORT;
	if (r != BROKER_TO_PROXY || make_pair(b, pair) < 0)
		return -ECONNREFUSED;
	r = hand_out(b, notif, flags, pair);
	if (r < 0)
		turn_away(pair[0]);
	else
		drop_fd(&pair[0]);
	drop_fd(&pair[1]);
	return r < 0 ? -ECONNREFUSED : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and their addresses. */
#include "gateway/gateway.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"

#define SOCK_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define SO_ERROR_NR 4

static uint16_t swap16(uint16_t v)
{
	return (uint16_t)(v << 8 | v >> 8);
}

size_t sock_fill(union sock_addr *ret, const struct net_addr *addr, uint16_t port)
{
	memset(ret, 0, sizeof(*ret));
	if (!addr->is_v6) {
		ret->v4.family = AF_INET_NR;
		ret->v4.port = swap16(port);
		memcpy(ret->v4.addr, addr->bytes, 4);
		return sizeof(ret->v4);
	}
	ret->v6.family = AF_INET6_NR;
	ret->v6.port = swap16(port);
	memcpy(ret->v6.addr, addr->bytes, 16);
	return sizeof(ret->v6);
}

void sock_read(const union sock_addr *from, struct net_addr *ret, uint16_t *ret_port)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	memset(ret, 0, sizeof(*ret));
	if (from->family == AF_INET_NR) {
		memcpy(ret->bytes, from->v4.addr, 4);
		*ret_port = swap16(from->v4.port);
		return;
	}
	*ret_port = swap16(from->v6.port);
	if (memcmp(from->v6.addr, mapped, sizeof(mapped)) == 0) {
		memcpy(ret->bytes, from->v6.addr + 12, 4);
		return;
	}
	ret->is_v6 = 1;
	memcpy(ret->bytes, from->v6.addr, 16);
}

long sock_open(bool is_v6, bool is_stream)
{
	return raw_syscall(__NR_socket, is_v6 ? AF_INET6_NR : AF_INET_NR,
			   (is_stream ? SOCK_STREAM_NR : SOCK_DGRAM_NR) | SOCK_FLAGS, 0, 0, 0, 0);
}

long sock_accept(struct gateway *g, int fd)
{
	long r = raw_syscall(__NR_accept4, fd, 0, 0, SOCK_FLAGS, 0, 0);
	int one_more;

	if (r != -EMFILE && r != -ENFILE)
		return r;
	/* It would be reported again and again: accept it with the spare descriptor and close it.
	 */
	drop_fd(&g->spare_fd);
	one_more = (int)raw_syscall(__NR_accept4, fd, 0, 0, SOCK_FLAGS, 0, 0);
	if (one_more >= 0)
		sock_reset_on_close(one_more);
	drop_fd(&one_more);
	g->spare_fd = (int)sock_open(false, false);
	return r;
}

long sock_connect(int fd, const struct net_addr *addr, uint16_t port)
{
	union sock_addr sa;
	size_t len = sock_fill(&sa, addr, port);

	return raw_syscall(__NR_connect, fd, (long)&sa, (long)len, 0, 0, 0);
}

long sock_connect_as(int fd, bool is_v6_socket, const struct net_addr *addr, uint16_t port)
{
	struct net_addr mapped = { 1, { 0 } };

	if (!is_v6_socket || addr->is_v6)
		return sock_connect(fd, addr, port);
	mapped.bytes[10] = mapped.bytes[11] = 0xff;
	memcpy(mapped.bytes + 12, addr->bytes, 4);
	return sock_connect(fd, &mapped, port);
}

long sock_local(int fd, struct net_addr *ret, uint16_t *ret_port)
{
	union sock_addr sa;
	int len = sizeof(sa);
	long r;

	memset(&sa, 0, sizeof(sa));
	r = raw_syscall(__NR_getsockname, fd, (long)&sa, (long)&len, 0, 0, 0);
	if (r < 0)
		return r;
	if (sa.family != AF_INET_NR && sa.family != AF_INET6_NR)
		return -EAFNOSUPPORT;
	sock_read(&sa, ret, ret_port);
	return 0;
}

long sock_error(int fd)
{
	int error = 0, len = sizeof(error);
	long r = raw_syscall(__NR_getsockopt, fd, SOL_SOCKET_NR, SO_ERROR_NR, (long)&error,
			     (long)&len, 0);

	return r < 0 ? r : -error;
}

long sock_recv(int fd, void *data, size_t len)
{
	return raw_syscall(__NR_recvfrom, fd, (long)data, (long)len, MESSAGE_DONTWAIT, 0, 0);
}

long sock_send(int fd, const void *data, size_t len)
{
	return raw_syscall(__NR_sendto, fd, (long)data, (long)len,
			   MESSAGE_DONTWAIT | MESSAGE_NOSIGNAL, 0, 0);
}

void sock_no_delay(int fd)
{
	const int on = 1;

	raw_syscall(__NR_setsockopt, fd, SOL_TCP_NR, TCP_NODELAY_NR, (long)&on, sizeof(on), 0);
}

void sock_reset_on_close(int fd)
{
	const struct {
		int on, seconds;
	} linger = { 1, 0 };

	raw_syscall(__NR_setsockopt, fd, SOL_SOCKET_NR, SO_LINGER_NR, (long)&linger, sizeof(linger),
		    0);
}

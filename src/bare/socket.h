/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets, for code without libc, whose names for them belong to <sys/socket.h>; and messages with
 * descriptors: what is called msghdr and cmsghdr there.
 */
#ifndef BARE_SOCKET_H
#define BARE_SOCKET_H

#include <stddef.h>

#define AF_UNIX_NR 1
#define AF_INET_NR 2
#define AF_INET6_NR 10
#define AF_NETLINK_NR 16
#define SOCK_STREAM_NR 1
#define SOCK_DGRAM_NR 2
#define SOCK_RAW_NR 3
#define SOCK_CLOEXEC_NR 02000000
#define SOL_SOCKET_NR 1
#define SOL_TCP_NR 6
#define SOL_IPV6_NR 41
#define SO_LINGER_NR 13
#define TCP_NODELAY_NR 1

#define MESSAGE_RIGHTS 1
#define MESSAGE_PEEK 0x2
#define MESSAGE_CTRUNC 0x8
#define MESSAGE_TRUNC 0x20
#define MESSAGE_DONTWAIT 0x40
#define MESSAGE_NOSIGNAL 0x4000
#define MESSAGE_CMSG_CLOEXEC 0x40000000

struct io_vector {
	const void *base;
	size_t len;
};

struct message {
	void *name;
	int name_len;
	struct io_vector *iov;
	size_t n_iov;
	void *control;
	size_t control_len;
	unsigned flags;
};

/* The control data of one descriptor. */
struct one_fd {
	size_t len;
	int level, type;
	int fd, pad;
};

#define ONE_FD_LEN (offsetof(struct one_fd, fd) + sizeof(int))
#define ONE_FD(fd) { ONE_FD_LEN, SOL_SOCKET_NR, MESSAGE_RIGHTS, fd, 0 }

#endif

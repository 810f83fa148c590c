/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors, for code without libc: what is called msghdr and cmsghdr elsewhere. */
#ifndef SYS_MESSAGE_H
#define SYS_MESSAGE_H

#include <stddef.h>

#define MESSAGE_SOL_SOCKET 1
#define MESSAGE_RIGHTS 1
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
#define ONE_FD(fd) { ONE_FD_LEN, MESSAGE_SOL_SOCKET, MESSAGE_RIGHTS, fd, 0 }

#endif

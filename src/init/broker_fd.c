/* SPDX-License-Identifier: Apache-2.0 */
/* Handing one descriptor from the command's process to init. */
#include "init/broker.h"

#include <asm/unistd_64.h>
#include <linux/errno.h>

#include "init/broker_raw.h"

#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define MSG_CMSG_CLOEXEC 0x40000000

struct io_vector {
	void *base;
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

struct fd_control {
	size_t len;
	int level, type;
	int fd, pad;
};

#define CONTROL_LEN (offsetof(struct fd_control, fd) + sizeof(int))

long broker_send_fd(int socket_fd, int fd)
{
	struct fd_control control = { CONTROL_LEN, SOL_SOCKET, SCM_RIGHTS, fd, 0 };
	char byte = 0;
	struct io_vector iov = { &byte, 1 };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = &control, .control_len = sizeof(control)
	};
	/* No flags: the filter, which is in place, looks at them. */
	long r = raw3(__NR_sendmsg, socket_fd, &msg, 0);

	return r < 0 ? r : 0;
}

long broker_receive_fd(int socket_fd)
{
	struct fd_control control = { 0, 0, 0, -1, 0 };
	char byte;
	struct io_vector iov = { &byte, 1 };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = &control, .control_len = sizeof(control)
	};
	long r = thread3(__NR_recvmsg, socket_fd, &msg, MSG_CMSG_CLOEXEC);

	if (r < 0)
		return r;
	if (r != 1 || control.len != CONTROL_LEN || control.level != SOL_SOCKET ||
	    control.type != SCM_RIGHTS)
		return -EBADMSG;
	return control.fd;
}

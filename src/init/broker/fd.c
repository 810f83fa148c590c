/* SPDX-License-Identifier: Apache-2.0 */
/* Handing one descriptor from the command's process to init. */
#include "init/broker/broker.h"
#include "init/broker/parts.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/raw.h"
#include "bare/socket.h"
#include "init/broker/thread_raw.h"

long broker_send_fd(int socket_fd, int fd)
{
	struct one_fd control = ONE_FD(fd);
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
	struct one_fd control = { 0, 0, 0, -1, 0 };
	char byte;
	struct io_vector iov = { &byte, 1 };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = &control, .control_len = sizeof(control)
	};
	long r = thread3(__NR_recvmsg, socket_fd, &msg, MESSAGE_CMSG_CLOEXEC);

	if (r < 0)
		return r;
	if (r != 1 || control.len != ONE_FD_LEN || control.level != SOL_SOCKET_NR ||
	    control.type != MESSAGE_RIGHTS)
		return -EBADMSG;
	return control.fd;
}

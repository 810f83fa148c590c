/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/message.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/socket.h"

struct fd_control {
	size_t len;
	int level, type;
	int fds[MESSAGE_FDS_MAX];
};

long message_receive(int fd, struct received *ret, int flags)
{
	struct fd_control control;
	struct io_vector iov = { &ret->hello, sizeof(ret->hello) };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = &control, .control_len = sizeof(control)
	};
	long r;

	memset(ret, 0, sizeof(*ret));
	control.len = 0;
	control.level = control.type = 0;
	r = raw_syscall(__NR_recvmsg, fd, (long)&msg, flags | MESSAGE_CMSG_CLOEXEC, 0, 0, 0);
	if (r == 0)
		return -EPIPE;
	if (r < 0)
		return r;
	if (msg.flags & MESSAGE_CTRUNC)
		return -EBADMSG;
	if (msg.control_len < offsetof(struct fd_control, fds) || control.type != MESSAGE_RIGHTS ||
	    control.level != SOL_SOCKET_NR)
		return 0;
	ret->n_fds = (unsigned)((control.len - offsetof(struct fd_control, fds)) / sizeof(int));
	memcpy(ret->fds, control.fds, ret->n_fds * sizeof(int));
	return 0;
}

static long send_bytes(int fd, const void *data, size_t len)
{
	long r = raw_syscall(__NR_sendto, fd, (long)data, (long)len,
			     MESSAGE_NOSIGNAL | MESSAGE_DONTWAIT, 0, 0);

	return r < 0 ? r : 0;
}

long message_send_byte(int fd, char byte)
{
	return send_bytes(fd, &byte, 1);
}

long message_send_want(int fd, const struct gateway_want *want)
{
	return send_bytes(fd, want, sizeof(*want));
}

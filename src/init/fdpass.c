/* SPDX-License-Identifier: Apache-2.0 */
#include "init/fdpass.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/raw.h"
#include "bare/socket.h"
#include "init/init.h"

#define FDS_MAX 100

long pass_fds(int socket_fd, const void *data, size_t len, const int *fds, uint32_t n_fds)
{
	struct {
		size_t len;
		int level, type;
		int fds[FDS_MAX];
	} control;
	struct io_vector iov = { data, len };
	struct message msg = { .iov = &iov, .n_iov = 1 };
	long r;

	if (n_fds > FDS_MAX)
		return -E2BIG;
	if (n_fds) {
		control.len = 16 + n_fds * sizeof(int);
		control.level = SOL_SOCKET_NR;
		control.type = MESSAGE_RIGHTS;
		memcpy(control.fds, fds, n_fds * sizeof(int));
		msg.control = &control;
		msg.control_len = control.len;
	}
	r = raw_syscall(__NR_sendmsg, socket_fd, (long)&msg, MESSAGE_DONTWAIT | MESSAGE_NOSIGNAL, 0,
			0, 0);
	if (r < 0)
		return r;
	return (size_t)r == len ? 0 : -EIO;
}

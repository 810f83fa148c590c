/* SPDX-License-Identifier: Apache-2.0 */
/* Messages with descriptors, from the supervisor and from init. */
#ifndef GATEWAY_MESSAGE_H
#define GATEWAY_MESSAGE_H

#include "bare/socket.h"
#include "gateway/gateway.h"

#define MESSAGE_FDS_MAX 100

struct received {
	struct gateway_hello hello; /* zero if the message was shorter */
	unsigned n_fds;
	int fds[MESSAGE_FDS_MAX];
};

/* 0, -EPIPE when the other side is gone, or -errno. */
long message_receive(int fd, struct received *ret, int flags);
long message_send_byte(int fd, char byte);
long message_send_want(int fd, const struct gateway_want *want);

#endif

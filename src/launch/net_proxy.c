/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level landlock: the port that the proxy variables name.
 *
 * The plan names the port, so the listener is made first; init gets it (init/broker/connect.c) and
 * turns away every connection but those it makes itself.
 */
#include "launch/net_proxy.h"

#include <netinet/in.h>
#include <unistd.h>

#include "base/err.h"
#include "format/stage.h"
#include "sys/calls.h"

#define BACKLOG 128

int net_proxy_listen(int *ret_fd, uint16_t *ret_port, struct cordon_error *err)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int r, fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	r = fd < 0 ? fd : sys_bind(fd, (const struct sockaddr *)&address, size);
	if (r >= 0)
		r = sys_listen(fd, BACKLOG);
	if (r >= 0)
		r = sys_getsockname(fd, (struct sockaddr *)&address, &size);
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		r = cordon_err(err, CORDON_E_SETUP, -r,
			       "cannot listen on 127.0.0.1 for the command's connections");
		if (err)
			err->stage = STAGE_NET;
		return r;
	}
	*ret_fd = fd;
	*ret_port = ntohs(address.sin_port);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level landlock: the port that the proxy variables name.
 *
 * The plan names the port, so it is bound first. Init gets the socket (init/broker/connect.c) and
 * lets it listen only for the moments in which it connects to it itself. Each of those connections
 * keeps the port bound, too, so listening again needs SO_REUSEADDR; but that would let any user who
 * also sets it take the port in between. A second socket prevents this: it has only SO_REUSEPORT,
 * which the kernel grants to sockets of the same user.
 */
#include "launch/net_proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "format/stage.h"
#include "sys/calls.h"

static int set_option(int fd, int option)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, option, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* A socket bound to *address, whose port is filled in. A descriptor or -errno. */
static int open_bound(struct sockaddr_in *address, int is_reused)
{
	socklen_t size = sizeof(*address);
	int r, fd = sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	r = set_option(fd, SO_REUSEPORT);
	if (r >= 0 && is_reused)
		r = set_option(fd, SO_REUSEADDR);
	if (r >= 0)
		r = sys_bind(fd, (const struct sockaddr *)address, size);
	if (r >= 0)
		r = sys_getsockname(fd, (struct sockaddr *)address, &size);
	if (r >= 0)
		return fd;
	close(fd);
	return r;
}

int net_proxy_bind(int ret_fds[2], uint16_t *ret_port, struct cordon_error *err)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int guard_fd = open_bound(&address, 0);
	int r = guard_fd < 0 ? guard_fd : open_bound(&address, 1);

	if (r < 0) {
		if (guard_fd >= 0)
			close(guard_fd);
		r = cordon_err(err, CORDON_E_SETUP, -r,
			       "cannot take a port of 127.0.0.1 for the command's connections");
		if (err)
			err->stage = STAGE_NET;
		return r;
	}
	ret_fds[0] = r;
	ret_fds[1] = guard_fd;
	*ret_port = ntohs(address.sin_port);
	return 0;
}

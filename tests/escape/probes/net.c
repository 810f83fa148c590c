/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to the network: net ADDRESS PORT ...
 *
 * Every way is tried against every address; UDP "allowed" only says that the datagram was taken,
 * so the listener's log decides.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "probe.h"

static struct sockaddr_storage to;
static socklen_t to_len;

static long finish_connect(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int error = 0;
	socklen_t len = sizeof(error);

	if (errno != EINPROGRESS)
		return -1;
	if (poll(&p, 1, 400) != 1) {
		errno = ETIMEDOUT;
		return -1;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -1;
	errno = error;
	return error ? -1 : 0;
}

static long stream(int protocol)
{
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	long rc;

	if (fd < 0)
		return -1;
	rc = connect(fd, (struct sockaddr *)&to, to_len);
	if (rc < 0)
		rc = finish_connect(fd);
	close(fd);
	return rc;
}

static long fast_open(void)
{
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	long rc;

	if (fd < 0)
		return -1;
	rc = sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, to_len);
	if (rc < 0)
		rc = finish_connect(fd);
	close(fd);
	return rc;
}

static long fast_open_msg(void)
{
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct iovec part = { "x", 1 };
	struct msghdr msg = {
		.msg_name = &to, .msg_namelen = to_len, .msg_iov = &part, .msg_iovlen = 1
	};
	long rc;

	if (fd < 0)
		return -1;
	rc = sendmsg(fd, &msg, MSG_FASTOPEN);
	if (rc < 0)
		rc = finish_connect(fd);
	close(fd);
	return rc;
}

/* TCP_FASTOPEN_CONNECT (30): connect() returns at once and the first write carries the SYN. */
static long fast_open_option(void)
{
	int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct timeval limit = { .tv_usec = 400000 };
	long rc;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	rc = setsockopt(fd, IPPROTO_TCP, 30, &on, sizeof(on));
	if (rc == 0)
		rc = connect(fd, (struct sockaddr *)&to, to_len);
	if (rc == 0)
		rc = write(fd, "x", 1);
	close(fd);
	return rc;
}

static long datagram(int how)
{
	struct iovec part = { "x", 1 };
	struct mmsghdr msg = { .msg_hdr = { .msg_name = &to,
					    .msg_namelen = to_len,
					    .msg_iov = &part,
					    .msg_iovlen = 1 } };
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long rc;

	if (fd < 0)
		return -1;
	if (how == 0)
		rc = sendto(fd, "x", 1, 0, (struct sockaddr *)&to, to_len);
	else if (how == 1)
		rc = sendmsg(fd, &msg.msg_hdr, 0);
	else if (how == 2)
		rc = sendmmsg(fd, &msg, 1, 0);
	else
		rc = connect(fd, (struct sockaddr *)&to, to_len) ?: write(fd, "x", 1);
	close(fd);
	return rc;
}

static void say(const char *what, int index, long rc)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%d", what, index);
	row(name, rc);
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		struct sockaddr_in *v4 = (struct sockaddr_in *)&to;
		struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&to;
		int index = i / 2;

		memset(&to, 0, sizeof(to));
		if (inet_pton(AF_INET, argv[i], &v4->sin_addr) == 1) {
			v4->sin_family = AF_INET;
			v4->sin_port = htons((uint16_t)atoi(argv[i + 1]));
			to_len = sizeof(*v4);
		} else {
			inet_pton(AF_INET6, argv[i], &v6->sin6_addr);
			v6->sin6_family = AF_INET6;
			v6->sin6_port = htons((uint16_t)atoi(argv[i + 1]));
			to_len = sizeof(*v6);
		}
		say("tcp", index, stream(0));
		say("mptcp", index, stream(262));
		say("fastopen-sendto", index, fast_open());
		say("fastopen-sendmsg", index, fast_open_msg());
		say("fastopen-option", index, fast_open_option());
		say("udp-sendto", index, datagram(0));
		say("udp-sendmsg", index, datagram(1));
		say("udp-sendmmsg", index, datagram(2));
		say("udp-connect", index, datagram(3));
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local channels to the outside: ipc KIND:NAME:ARG ...
 *
 * stream, dgram, seqpacket: connect (or send) to a unix socket at ARG; `@x` is an abstract name.
 * shm, sem, msg: find the System V object with key ARG. mq: open the POSIX queue ARG.
 * key: find the user key ARG in the session keyring. sendmsg: a datagram through sendmsg().
 */
#include <mqueue.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "probe.h"

static socklen_t address(const char *name, struct sockaddr_un *ret)
{
	size_t len = strlen(name);

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path, name, len);
	if (name[0] == '@')
		ret->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] != '@'));
}

static long talk(int type, const char *name, int by_sendmsg)
{
	struct sockaddr_un to;
	socklen_t len = address(name, &to);
	struct iovec part = { "x", 1 };
	struct msghdr msg = {
		.msg_name = &to, .msg_namelen = len, .msg_iov = &part, .msg_iovlen = 1
	};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	long rc;

	if (fd < 0)
		return -1;
	if (by_sendmsg)
		rc = sendmsg(fd, &msg, 0);
	else if (type == SOCK_DGRAM)
		rc = sendto(fd, "x", 1, 0, (struct sockaddr *)&to, len);
	else
		rc = connect(fd, (struct sockaddr *)&to, len);
	close(fd);
	return rc;
}

/* connect() on a datagram socket, then a plain write(). */
static long talk_connected(const char *name)
{
	struct sockaddr_un to;
	socklen_t len = address(name, &to);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	long rc;

	if (fd < 0)
		return -1;
	rc = connect(fd, (struct sockaddr *)&to, len);
	if (rc == 0)
		rc = write(fd, "x", 1);
	close(fd);
	return rc;
}

static long open_mq(const char *name)
{
	mqd_t queue = mq_open(name, O_RDONLY);

	if (queue == (mqd_t)-1)
		return -1;
	mq_close(queue);
	return 0;
}

/* KEYCTL_SEARCH (10) in the session keyring (-3), then KEYCTL_READ (11). */
static long find_key(const char *name)
{
	char buf[64];
	long key = syscall(SYS_keyctl, 10, -3L, "user", name, 0L);

	if (key < 0)
		return -1;
	return syscall(SYS_keyctl, 11, key, buf, sizeof(buf), 0L);
}

static long attempt(const char *kind, const char *arg)
{
	if (!strcmp(kind, "stream"))
		return talk(SOCK_STREAM, arg, 0);
	if (!strcmp(kind, "seqpacket"))
		return talk(SOCK_SEQPACKET, arg, 0);
	if (!strcmp(kind, "dgram"))
		return talk(SOCK_DGRAM, arg, 0);
	if (!strcmp(kind, "sendmsg"))
		return talk(SOCK_DGRAM, arg, 1);
	if (!strcmp(kind, "connected"))
		return talk_connected(arg);
	if (!strcmp(kind, "shm"))
		return shmget((key_t)strtol(arg, NULL, 0), 0, 0);
	if (!strcmp(kind, "sem"))
		return semget((key_t)strtol(arg, NULL, 0), 0, 0);
	if (!strcmp(kind, "msg"))
		return msgget((key_t)strtol(arg, NULL, 0), 0);
	if (!strcmp(kind, "mq"))
		return open_mq(arg);
	if (!strcmp(kind, "key"))
		return find_key(arg);
	if (!strcmp(kind, "plant"))
		return syscall(SYS_add_key, "user", arg, "x", 1L, -3L);
	if (!strcmp(kind, "request"))
		return syscall(SYS_request_key, "user", arg, NULL, -3L);
	if (!strcmp(kind, "create"))
		return open(arg, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (!strcmp(kind, "read"))
		return open(arg, O_RDONLY | O_CLOEXEC);
	errno = EINVAL;
	return -1;
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		char *kind = strdup(argv[i]), *name = strchr(kind, ':'), *arg;

		*name++ = 0;
		arg = strchr(name, ':');
		*arg++ = 0;
		row(name, attempt(kind, arg));
		free(kind);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "session_peer.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

long session_count_filters(int pid)
{
	char path[64] = "/proc/self/status", text[4096];
	const char *field;
	ssize_t n;
	int fd;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read_full(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	field = strstr(text, "\nSeccomp_filters:");
	if (field)
		return strtol(field + strlen("\nSeccomp_filters:"), NULL, 10);
	field = strstr(text, "\nSeccomp:"); /* before Linux 5.9 */
	return field ? strtol(field + strlen("\nSeccomp:"), NULL, 10) : -1;
}

/* Its number may be another process's by now. Without such a descriptor that cannot be told. */
static int is_alive(int pid_fd)
{
	struct pollfd p = { .fd = pid_fd, .events = POLLIN };

	return pid_fd < 0 || poll(&p, 1, 0) == 0;
}

int session_peer_is_free(int fd, long n_filters)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);
	int pid_fd = -1;
	long n;

	if (n_filters < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 ||
	    cred.uid != geteuid() || cred.pid <= 0)
		return 0;
	len = sizeof(pid_fd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pid_fd, &len) < 0)
		pid_fd = -1;
	n = session_count_filters(cred.pid);
	if (n >= 0 && !is_alive(pid_fd))
		n = -1;
	if (pid_fd >= 0)
		close(pid_fd);
	return n >= 0 && n <= n_filters;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all probes share: one line per attempt, `name allowed` or `name denied ERRNO`.
 *
 * A probe only tells what the kernel answered. The test that runs it believes its own canaries
 * first and these lines second, and runs the same probe outside, where the lines must say allowed.
 */
#ifndef ESCAPE_PROBE_H
#define ESCAPE_PROBE_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __aarch64__
#define PROBE_LOADER "/lib/ld-linux-aarch64.so.1"
#else
#define PROBE_LOADER "/lib64/ld-linux-x86-64.so.2"
#endif

__attribute__((unused)) static const char *errno_name(int value)
{
	const char *name = strerrorname_np(value);

	return name ? name : "E?";
}

/* Prints one row from the outcome of a system call (negative = failed with errno). */
__attribute__((unused)) static long row(const char *name, long rc)
{
	if (rc < 0)
		printf("%s denied %s\n", name, errno_name(errno));
	else
		printf("%s allowed\n", name);
	fflush(stdout);
	return rc;
}

/* Same in a child, for attempts that may kill or change the process. fn returns like a call. */
__attribute__((unused)) static void row_child(const char *name, long (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		errno = 0;
		alarm(5);
		_exit(fn(arg) < 0 ? (errno & 0xff ? errno & 0xff : 255) : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0) {
		printf("%s denied fork-%s\n", name, errno_name(errno));
	} else if (WIFSIGNALED(status)) {
		printf("%s killed SIG%s\n", name, sigabbrev_np(WTERMSIG(status)));
	} else if (WEXITSTATUS(status)) {
		printf("%s denied %s\n", name, errno_name(WEXITSTATUS(status)));
	} else {
		printf("%s allowed\n", name);
	}
	fflush(stdout);
}

#endif

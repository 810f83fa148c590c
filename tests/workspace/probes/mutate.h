/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of `mutate` share. Each attempt has a directory of its own as current directory:
 *
 *	file	8 KiB of 'a', attribute user.canary	link	-> file
 *	other	8 KiB of 'b'				hard1, hard2	one file with two names
 *	full/	with child in it			empty/
 *	fifo	a named pipe				dirlink	-> full
 */
#ifndef WORKSPACE_MUTATE_H
#define WORKSPACE_MUTATE_H

#include "../../escape/probes/probe.h"

#define SIZE 8192

struct attempt {
	const char *name;
	long (*fn)(void); /* negative = failed with errno */
};

#define ATTEMPT(x) { #x, op_##x }
/* An attempt that is one expression. */
#define OP(name, expression)                                                                       \
	static long op_##name(void)                                                                \
	{                                                                                          \
		return (expression);                                                               \
	}                                                                                          \
	struct attempt

/* Descriptors are left open: the process ends after the attempt. */
static inline int must_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0) {
		fprintf(stderr, "open %s: %s\n", path, strerror(errno));
		_exit(errno);
	}
	return fd;
}

static inline long fail(int value)
{
	errno = value;
	return -1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "bare/fd.h"

#include <asm/unistd.h>

#include "bare/raw.h"

void close_fd(long fd)
{
	if (fd >= 0)
		raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
}

void drop_fd(int *fd)
{
	close_fd(*fd);
	*fd = -1;
}

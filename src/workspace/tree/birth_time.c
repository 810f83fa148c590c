/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own: <linux/stat.h> and <sys/stat.h> conflict with some C libraries. */
#include "workspace/tree/birth_time.h"

#include <linux/fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool birth_time(int fd, struct timespec *ret)
{
	struct statx stx;

	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) < 0 ||
	    !(stx.stx_mask & STATX_BTIME))
		return false;
	ret->tv_sec = stx.stx_btime.tv_sec;
	ret->tv_nsec = stx.stx_btime.tv_nsec;
	return true;
}

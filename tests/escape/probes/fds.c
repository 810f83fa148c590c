/* SPDX-License-Identifier: Apache-2.0 */
/* What came in by descriptor: which are open, and what standard input can be used for. */
#include <dirent.h>
#include <sys/socket.h>
#include <sys/xattr.h>

#include "probe.h"

int main(void)
{
	struct stat st;
	char buf[64];
	int fd;

	printf("open");
	for (fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("-%d", fd);
	printf(" allowed\n");
	row("fchdir", fchdir(0));
	row("openat", openat(0, ".", O_RDONLY | O_CLOEXEC));
	row("getdents", syscall(SYS_getdents64, 0, buf, sizeof(buf)));
	row("fstat", fstat(0, &st));
	printf("type-%s allowed\n", S_ISFIFO(st.st_mode)   ? "fifo"
				    : S_ISDIR(st.st_mode)  ? "dir"
				    : S_ISREG(st.st_mode)  ? "file"
				    : S_ISSOCK(st.st_mode) ? "socket"
				    : S_ISCHR(st.st_mode)  ? "chr"
							   : "other");
	row("ftruncate", ftruncate(0, 0));
	row("fchmod", fchmod(0, 0777));
	row("pwrite", pwrite(0, "GUEST", 5, 0));
	row("fsetxattr", fsetxattr(0, "user.planted", "x", 1, 0));
	row("seek", lseek(0, 3, SEEK_SET));
	row("sendmsg", send(0, "x", 1, MSG_DONTWAIT));
	row("nonblock", fcntl(0, F_SETFL, O_NONBLOCK));
	row("nonblock-out", fcntl(1, F_SETFL, O_NONBLOCK | O_APPEND));
	return 0;
}

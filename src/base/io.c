/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIECE 16384

ssize_t read_full_at(int fd, void *buf, size_t size, off_t at)
{
	size_t len = 0;

	while (len < size) {
		char *to = (char *)buf + len;
		ssize_t n = at < 0 ? read(fd, to, size - len)
				   : pread(fd, to, size - len, at + (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

ssize_t read_full(int fd, void *buf, size_t size)
{
	return read_full_at(fd, buf, size, -1);
}

int read_strbuf(int fd, struct strbuf *sb)
{
	char piece[PIECE];
	ssize_t n;

	do {
		n = read_full(fd, piece, sizeof(piece));
		if (n < 0)
			return (int)n;
		if ((size_t)n > sb->max - sb->len)
			return -EFBIG;
		strbuf_add(sb, piece, (size_t)n);
		if (sb->failed)
			return -ENOMEM;
	} while (n == (ssize_t)sizeof(piece));
	return 0;
}

int write_full(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n >= 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd pfd = { .fd = fd, .events = POLLOUT };

			if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
				return -errno;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

bool is_writing_end(int fd)
{
	struct statfs fs;
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	/* Of a descriptor that was only looked up (O_PATH) the kernel says that it reads. */
	return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY && fstat(fd, &st) == 0 &&
	       S_ISFIFO(st.st_mode) && st.st_uid == geteuid() && fstatfs(fd, &fs) == 0 &&
	       fs.f_type == PIPEFS_MAGIC;
}

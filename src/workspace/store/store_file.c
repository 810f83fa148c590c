/* SPDX-License-Identifier: Apache-2.0 */
/* Small files in a workspace's directory. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "workspace/store/store.h"

int store_file_read(int dir_fd, const char *name, struct strbuf *sb)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = read_strbuf(fd, sb);
	close(fd);
	return r;
}

int store_file_replace(int dir_fd, const char *name, const struct strbuf *sb, bool is_durable)
{
	char temp[NAME_MAX + 1];
	int fd, r;

	(void)snprintf(temp, sizeof(temp), "%s.new", name);
	/* Left by an interrupted attempt: the lock is held, so no other process is writing. */
	(void)unlinkat(dir_fd, temp, 0);
	fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_full(fd, sb->data, sb->len);
	if (r == 0 && is_durable && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, temp, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, temp, 0);
	else if (is_durable && fsync(dir_fd) < 0)
		r = -errno;
	return r;
}

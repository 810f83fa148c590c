/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/discover_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int disk_stat(const char *path, struct stat *ret)
{
	return stat(path, ret) < 0 ? -errno : 0;
}

bool disk_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

bool disk_is_dir(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool disk_is_file(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int disk_readlink(const char *path, char *ret, size_t size)
{
	ssize_t len = readlink(path, ret, size);

	if (len < 0)
		return -errno;
	if ((size_t)len >= size)
		return -ENAMETOOLONG;
	ret[len] = '\0';
	return (int)len;
}

int disk_open(const char *path, int flags)
{
	/* Never waits for the other end of a FIFO and never takes a terminal. */
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int disk_read_at(int fd, uint64_t offset, void *ret, size_t size)
{
	ssize_t n;

	if (offset > INT64_MAX)
		return -EINVAL;
	do
		n = pread(fd, ret, size, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : (int)n;
}

int disk_fd_path(int fd, char *ret, size_t size)
{
	char name[32];
	int len;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = disk_readlink(name, ret, size);
	if (len < 0)
		return len;
	/* "(unreachable)/..." and the like are no paths. */
	return ret[0] == '/' ? len : -ENOENT;
}

int disk_can_execute(const char *path, const struct stat *st)
{
	if (S_ISDIR(st->st_mode))
		return -EISDIR;
	if (!S_ISREG(st->st_mode) || !(st->st_mode & 0111))
		return -EACCES;
	/* Everyone may execute it, so the kernel need not be asked. */
	if ((st->st_mode & 0111) == 0111)
		return 0;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

void disk_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

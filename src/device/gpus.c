/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "device/device.h"

char *device_path(struct arena *arena, const char *root, const char *path)
{
	return arena_printf(arena, "%s%s", root, path);
}

ssize_t device_read(const char *root, const char *path, char *ret, size_t size)
{
	char full[PATH_MAX];
	size_t len = 0;
	ssize_t n = 1;
	int fd;

	ret[0] = '\0';
	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	while (n > 0 && len < size - 1) {
		n = read(fd, ret + len, size - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	n = n < 0 ? -errno : (ssize_t)len;
	close(fd);
	ret[len] = '\0';
	return n;
}

int gpu_find_all(struct arena *arena, const char *root, struct gpu_list *ret)
{
	int r = gpu_find_nvidia(arena, root, ret);

	return r < 0 ? r : gpu_find_render(arena, root, ret);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/tree/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cordon/workspace.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/sha1.h"

#define CHUNK ((size_t)128 << 10)

bool ws_is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

bool ws_is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int ws_file_type(unsigned mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return CORDON_FILE_REGULAR;
	case S_IFDIR:
		return CORDON_FILE_DIRECTORY;
	case S_IFLNK:
		return CORDON_FILE_SYMLINK;
	case S_IFIFO:
		return CORDON_FILE_FIFO;
	case S_IFSOCK:
		return CORDON_FILE_SOCKET;
	default:
		return CORDON_FILE_DEVICE;
	}
}

int ws_read_link(int dir_fd, const char *name, char *buf, size_t size)
{
	ssize_t n = readlinkat(dir_fd, name, buf, size - 1);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return (int)n;
}

/* The next part of a file that is not a hole. */
struct extent {
	off_t start, end;
};

static void next_extent(int fd, off_t at, off_t size, struct extent *e)
{
	if (at < e->end)
		return;
	e->start = lseek(fd, at, SEEK_DATA);
	if (e->start < 0) {
		/* ENXIO: only a hole is left. Otherwise the filesystem has no holes. */
		e->start = errno == ENXIO ? size : at;
		e->end = size;
		return;
	}
	e->end = lseek(fd, e->start, SEEK_HOLE);
	if (e->end <= e->start)
		e->end = size;
}

/* Skips holes that both have, so that sparse files cost nothing. */
static int compare_bytes(int a_fd, int b_fd, off_t size, char *a, char *b)
{
	struct extent a_data = { 0, 0 }, b_data = { 0, 0 };
	off_t at = 0;

	while (at < size) {
		size_t len = CHUNK;
		ssize_t n_a, n_b;

		if (size > (off_t)CHUNK) {
			next_extent(a_fd, at, size, &a_data);
			next_extent(b_fd, at, size, &b_data);
			if (a_data.start > at && b_data.start > at)
				at = a_data.start < b_data.start ? a_data.start : b_data.start;
			if (at >= size)
				break;
		}
		if ((off_t)len > size - at)
			len = (size_t)(size - at);
		n_a = read_full_at(a_fd, a, len, at);
		n_b = read_full_at(b_fd, b, len, at);
		if (n_a < 0 || n_b < 0)
			return n_a < 0 ? (int)n_a : (int)n_b;
		/* A file that became shorter meanwhile differs, too. */
		if (n_a != (ssize_t)len || n_b != (ssize_t)len || memcmp(a, b, len) != 0)
			return 0;
		at += (off_t)len;
	}
	return 1;
}

int ws_same_content(int a_fd, int b_fd)
{
	struct stat a, b;
	char *buf;
	int r;

	if (fstat(a_fd, &a) < 0 || fstat(b_fd, &b) < 0)
		return -errno;
	if (a.st_size != b.st_size)
		return 0;
	if (a.st_size == 0 || (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
		return 1;
	buf = malloc(2 * CHUNK);
	if (!buf)
		return -ENOMEM;
	r = compare_bytes(a_fd, b_fd, a.st_size, buf, buf + CHUNK);
	free(buf);
	return r;
}

int ws_hash_file(int fd, struct ws_hash *ret)
{
	char *buf = malloc(CHUNK);
	struct sha1 sha1;
	off_t at = 0;
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	sha1_start(&sha1);
	while ((n = read_full_at(fd, buf, CHUNK, at)) > 0) {
		sha1_add(&sha1, buf, (size_t)n);
		at += n;
	}
	if (n == 0)
		sha1_end(&sha1, ret->v);
	free(buf);
	return (int)n;
}

int ws_hash_link(int dir_fd, const char *name, struct ws_hash *ret)
{
	char text[PATH_MAX + 1];
	int len = ws_read_link(dir_fd, name, text, sizeof(text));
	struct sha1 sha1;

	if (len < 0)
		return len;
	sha1_start(&sha1);
	sha1_add(&sha1, text, (size_t)len);
	sha1_end(&sha1, ret->v);
	return 0;
}

/* A user attribute that is not the overlay's own. */
static bool is_user_attribute(const char *name)
{
	return strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0;
}

/* Names of all attributes: to be freed, their length in *ret_len; NULL if there are none. */
static char *list_attributes(int fd, size_t *ret_len)
{
	ssize_t n = flistxattr(fd, NULL, 0);
	char *list = n > 0 ? malloc((size_t)n) : NULL;

	if (list) {
		n = flistxattr(fd, list, (size_t)n);
		if (n > 0 && list[n - 1] == '\0') {
			*ret_len = (size_t)n;
			return list;
		}
		free(list);
	}
	*ret_len = 0;
	return NULL;
}

static size_t count_user_attributes(const char *list, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i += strlen(list + i) + 1)
		n += is_user_attribute(list + i);
	return n;
}

static int same_values(int a_fd, int b_fd, const char *list, size_t len)
{
	char *a = malloc(2 * (size_t)WS_BUF_SIZE), *b;
	int r = 1;

	if (!a)
		return -ENOMEM;
	b = a + WS_BUF_SIZE;
	for (size_t i = 0; r == 1 && i < len; i += strlen(list + i) + 1) {
		ssize_t n_a, n_b;

		if (!is_user_attribute(list + i))
			continue;
		n_a = fgetxattr(a_fd, list + i, a, WS_BUF_SIZE);
		n_b = fgetxattr(b_fd, list + i, b, WS_BUF_SIZE);
		if (n_a < 0 || n_a != n_b || memcmp(a, b, (size_t)n_a) != 0)
			r = 0;
	}
	free(a);
	return r;
}

int ws_same_attributes(int a_fd, int b_fd)
{
	size_t a_len, b_len, n;
	char *a = list_attributes(a_fd, &a_len), *b = list_attributes(b_fd, &b_len);
	int r = 1;

	n = count_user_attributes(a, a_len);
	if (n != count_user_attributes(b, b_len))
		r = 0;
	else if (n > 0)
		r = same_values(a_fd, b_fd, a, a_len);
	free(a);
	free(b);
	return r;
}

/* Security labels that the system puts on every file do not count. */
static bool is_power_attribute(const char *name)
{
	static const char *const labels[] = { "selinux", "SMACK64", "apparmor", "ima", "evm" };

	if (strncmp(name, "trusted.", 8) == 0)
		return true;
	if (strncmp(name, "security.", 9) != 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		if (strncmp(name + 9, labels[i], strlen(labels[i])) == 0)
			return false;
	}
	return true;
}

bool ws_has_power_attribute(int dir_fd, const char *name, char *buf)
{
	char path[NAME_MAX + 64];
	ssize_t n;

	/* By /proc, since a file of any type and mode cannot always be opened. */
	if (snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name) >= (int)sizeof(path))
		return false;
	n = llistxattr(path, buf, WS_BUF_SIZE);
	if (n <= 0 || buf[n - 1] != '\0')
		return false;
	for (const char *s = buf; s < buf + n; s += strlen(s) + 1) {
		if (is_power_attribute(s))
			return true;
	}
	return false;
}

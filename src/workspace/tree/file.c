/* SPDX-License-Identifier: Apache-2.0 */
/* One file: its content and its attributes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/macros.h"
#include "workspace/tree/tree.h"

#define PIECE ((off_t)16 << 20) /* between two calls of progress() */
#define BUFFER_SIZE ((size_t)256 << 10)

struct content {
	int from, to;
	struct tree_copy *copy;
	char *buf;	   /* where copy_file_range() does not work */
	bool no_range;	   /* it does not */
	bool is_truncated; /* it ended at `end` */
	off_t end;
};

static int write_at(int fd, const char *data, size_t len, off_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Some bytes at @at: how many, 0 at the end of the file, -errno. */
static ssize_t copy_some(struct content *c, off_t at, size_t len)
{
	off_t in = at, out = at;
	ssize_t n;
	int r;

	if (!c->no_range) {
		do
			n = copy_file_range(c->from, &in, c->to, &out, len, 0);
		while (n < 0 && errno == EINTR);
		if (n > 0)
			return n;
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO))
			return -errno;
		/* 0 is the end of the file, or a filesystem that silently cannot do it. */
		if (n < 0)
			c->no_range = true;
	}
	if (!c->buf) {
		c->buf = malloc(BUFFER_SIZE);
		if (!c->buf)
			return -ENOMEM;
	}
	do
		n = pread(c->from, c->buf, len < BUFFER_SIZE ? len : BUFFER_SIZE, at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	r = write_at(c->to, c->buf, (size_t)n, at);
	return r < 0 ? r : n;
}

static int copy_extent(struct content *c, off_t at, off_t end)
{
	while (at < end) {
		off_t left = end - at;
		ssize_t n = copy_some(c, at, (size_t)(left < PIECE ? left : PIECE));

		if (n < 0)
			return (int)n;
		if (n == 0) {
			c->is_truncated = true;
			c->end = at;
			return 0;
		}
		at += n;
		if (!c->copy)
			continue;
		c->copy->bytes += (uint64_t)n;
		if (c->copy->room && c->copy->bytes > c->copy->room->bytes) {
			c->copy->is_too_much = true;
			return -EDQUOT;
		}
		if (left > PIECE && c->copy->progress && c->copy->progress(c->copy->arg, c->copy))
			return -ECANCELED;
	}
	return 0;
}

/* What is not a hole, one extent after the other. */
static int copy_extents(struct content *c, off_t size)
{
	off_t at = 0, data, hole;
	int r = 0;

	while (r == 0 && at < size && !c->is_truncated) {
		data = lseek(c->from, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break; /* nothing but a hole up to the end */
		if (data < 0) {
			/* The filesystem has no holes. */
			data = at;
			hole = size;
		} else {
			hole = lseek(c->from, data, SEEK_HOLE);
			if (hole < 0 || hole > size)
				hole = size;
		}
		if (data >= size)
			break;
		r = copy_extent(c, data, hole);
		at = hole > at ? hole : size;
	}
	return r;
}

int file_copy_counted(int from_fd, int to_fd, const struct stat *from, bool *ret_shared,
		      struct tree_copy *copy)
{
	struct content c = { .from = from_fd, .to = to_fd, .copy = copy };
	off_t size = from->st_size;
	int r;

	if (ret_shared)
		*ret_shared = true;
	if (size == 0)
		return 0;
	if (ioctl(to_fd, FICLONE, from_fd) == 0) {
		if (copy)
			copy->bytes += (uint64_t)from->st_blocks * 512;
		return 0;
	}
	if (ret_shared)
		*ret_shared = false;
	r = copy_extents(&c, size);
	free(c.buf);
	if (r == 0 && ftruncate(to_fd, c.is_truncated ? c.end : size) < 0)
		r = -errno;
	return r;
}

int file_copy(int from_fd, int to_fd, const struct stat *from, bool *ret_shared)
{
	return file_copy_counted(from_fd, to_fd, from, ret_shared, NULL);
}

/* --- attributes ---------------------------------------------------------------------------------
 */

#define OVERLAY_PREFIX "user.overlay."

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The list of names: NULL and 0 if there are none; the length or -errno. */
static ssize_t list_names(int fd, char **ret)
{
	ssize_t len = flistxattr(fd, NULL, 0);

	*ret = NULL;
	for (int i = 0; i < 10 && len > 0; i++) {
		size_t size = (size_t)len + 256;

		free(*ret);
		*ret = malloc(size + 1);
		if (!*ret)
			return -ENOMEM;
		len = flistxattr(fd, *ret, size);
		if (len >= 0) {
			(*ret)[len] = '\0';
			return len;
		}
		if (errno != ERANGE)
			break;
		len = (ssize_t)size * 2;
	}
	if (len < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		return 0;
	return len < 0 ? -errno : len;
}

static int copy_value(int from_fd, int to_fd, const char *name)
{
	ssize_t len = fgetxattr(from_fd, name, NULL, 0);
	char *value = NULL;
	int r = 0;

	if (len > 0) {
		value = malloc((size_t)len);
		if (!value)
			return -ENOMEM;
		len = fgetxattr(from_fd, name, value, (size_t)len);
	}
	if (len < 0)
		/* Gone, or longer meanwhile: it is being changed. */
		r = errno == ENODATA || errno == ERANGE ? 0 : -errno;
	else if (fsetxattr(to_fd, name, value ? value : "", (size_t)len, 0) < 0)
		r = -errno;
	free(value);
	return r;
}

/* The marks of an overlay's upper directory that mean something there. Others with this prefix were
 * set by a guest (the kernel stores those as user.overlay.overlay.*): overlays would obey them. */
static bool is_upper_mark(const char *name)
{
	static const char *const marks[] = { "opaque", "whiteout", "whiteouts", "origin",
					     "impure" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		if (strcmp(name + strlen(OVERLAY_PREFIX), marks[i]) == 0)
			return true;
	}
	return false;
}

static bool is_carried(const char *name, bool is_to_upper)
{
	if (!has_prefix(name, "user."))
		return false;
	return !has_prefix(name, OVERLAY_PREFIX) || (is_to_upper && is_upper_mark(name));
}

static int copy_attributes(int from_fd, int to_fd, bool is_to_upper)
{
	char *list;
	ssize_t len = list_names(from_fd, &list);
	int r = len < 0 ? (int)len : 0;

	for (const char *name = list; r == 0 && len > 0 && name < list + len;
	     name += strlen(name) + 1) {
		if (!is_carried(name, is_to_upper))
			continue;
		r = copy_value(from_fd, to_fd, name);
		/* A filesystem without attributes loses them; an overlay depends on them. */
		if (r == -EOPNOTSUPP && !is_to_upper)
			r = 0;
	}
	free(list);
	return r;
}

int file_copy_attributes(int from_fd, int to_fd)
{
	return copy_attributes(from_fd, to_fd, false);
}

int file_copy_upper_attributes(int from_fd, int to_fd)
{
	return copy_attributes(from_fd, to_fd, true);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The cache directory: where it is, whether it is ours alone, and small files in it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_path.h"
#include "base/err.h"
#include "base/io.h"
#include "base/way.h"
#include "packages/packages.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

/* Makes what is missing of @path, for us alone. */
static int make_all(const char *path)
{
	char part[PATH_MAX];
	const char *end = path;

	while (*end) {
		size_t len;

		end += 1 + strcspn(end + 1, "/");
		len = (size_t)(end - path);
		memcpy(part, path, len);
		part[len] = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST && access(part, F_OK) < 0)
			return -errno;
	}
	return 0;
}

static bool is_root_dir(const struct stat *st)
{
	struct stat root;

	return stat("/", &root) == 0 && root.st_dev == st->st_dev && root.st_ino == st->st_ino;
}

/*
 * Whoever owns a directory above can put another one in its place, and what root unpacks by its
 * path would be theirs. An ordinary user's home lies where others are trusted anyway.
 */
static bool is_way_ours(int fd)
{
	int dir = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	bool ok = dir >= 0;
	struct stat up;

	while (ok) {
		int above = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		close(dir);
		dir = above;
		ok = dir >= 0 && fstat(dir, &up) == 0;
		/* Who can change the root directory has the machine. */
		if (!ok || is_root_dir(&up))
			break;
		ok = up.st_uid == 0 &&
		     ((up.st_mode & S_ISVTX) ||
		      (!(up.st_mode & S_IWOTH) && (!(up.st_mode & S_IWGRP) || up.st_gid == 0)));
	}
	if (dir >= 0)
		close(dir);
	return ok;
}

static int check_own(const struct cache *cache, struct cordon_error *err)
{
	struct stat st;
	int r;

	if (fstat(cache->fd, &st) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "%s", cache->path);
	if (st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
	    (geteuid() != 0 || is_way_ours(cache->fd)))
		return 0;
	r = cordon_err(err, CORDON_E_PATH, 0, "others can write to '%s', so nothing is kept there",
		       cache->path);
	cordon_err_hint(err, "it has to belong to you: remove it, or set XDG_CACHE_HOME to a "
			     "directory of yours");
	return r;
}

/* The path without the links of the system on it. */
static int find_path(int fd, struct cache *ret)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, ret->path, sizeof(ret->path) - 1);
	if (len <= 0)
		return len < 0 ? -errno : -ENOENT;
	ret->path[len] = '\0';
	return ret->path[0] == '/' ? 0 : -ENOENT;
}

static int hint_place(struct cordon_error *err, int r)
{
	if (err && !err->hint[0])
		(void)cordon_err_hint(err, "set XDG_CACHE_HOME to a directory of yours");
	return r;
}

int cache_open(const char *what, bool make, struct cache *ret, struct cordon_error *err)
{
	char typed[PATH_MAX];
	struct way way;
	int r;

	ret->fd = -1;
	r = cache_path(what, typed, sizeof(typed), err);
	if (r < 0)
		return r;
	r = way_open(typed, strlen(typed), &way);
	if (r == -ENOENT && !way.refused[0]) {
		if (!make)
			return 0;
		r = make_all(typed);
		if (r < 0) {
			r = cordon_err(err, CORDON_E_SYSTEM, -r,
				       "the cache directory '%s' cannot be made", typed);
			return hint_place(err, r);
		}
		r = way_open(typed, strlen(typed), &way);
	}
	/* A link may have been left by a command, and lead to a layer of its own. */
	if (r < 0) {
		if (!way.refused[0]) {
			r = cordon_err(err, CORDON_E_PATH, -r,
				       "the cache directory '%s' cannot be opened", typed);
			return hint_place(err, r);
		}
		r = way_error(&way, "the cache directory ", typed, -r, err);
		(void)cordon_err_hint(err, "set XDG_CACHE_HOME to its real place");
		return r;
	}
	r = find_path(way.fd, ret);
	if (r == 0) {
		ret->fd = openat(way.fd, ".", DIR_FLAGS);
		r = ret->fd < 0 ? -errno : 0;
	}
	close(way.fd);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "the cache directory '%s'", typed);
	r = check_own(ret, err);
	if (r < 0)
		cache_close(ret);
	return r;
}

void cache_close(struct cache *cache)
{
	if (cache->fd >= 0)
		close(cache->fd);
	cache->fd = -1;
}

int cache_write(int dir_fd, const char *name, const void *data, size_t len)
{
	char temp[NAME_MAX + 1];
	int fd, r;

	snprintf(temp, sizeof(temp), ".%d-%.200s", (int)getpid(), name);
	(void)unlinkat(dir_fd, temp, 0);
	fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_full(fd, data, len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	close(fd);
	if (r == 0 && renameat(dir_fd, temp, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, temp, 0);
	return r;
}

int cache_read(int dir_fd, const char *name, size_t max, struct strbuf *ret)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return -errno;
	ret->max = max;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else
		r = S_ISREG(st.st_mode) ? read_strbuf(fd, ret) : -EINVAL;
	close(fd);
	return r;
}

bool is_key(const char *name)
{
	size_t len = strlen(name);

	return len == KEY_SIZE - 4 && (!strncmp(name, "pip-", 4) || !strncmp(name, "npm-", 4)) &&
	       strspn(name + 4, "0123456789abcdef") == len - 4;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories in which setups work. Each is locked by the process that made it, so that what is
 * not locked was left by one that was killed. An id of a process would not tell: another container
 * that has the same cache has the same ids.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"
#include "workspace/tree/tree.h"

#define PREFIX ".new-"
#define TRIES 16

int microvm_is_unfinished(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

static int open_dir(const struct cache *cache, const char *name)
{
	return openat(cache->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Another process may have taken it for a leftover before it was locked. */
static int make_locked(const struct cache *cache, const char *name)
{
	struct stat st;
	int fd;

	if (mkdirat(cache->fd, name, 0700) < 0)
		return -errno;
	fd = open_dir(cache, name);
	if (fd < 0)
		return errno == ENOENT ? -EEXIST : -errno;
	/* Where that is not possible it cannot be taken for a leftover, either. */
	(void)flock(fd, LOCK_EX);
	if (fstat(fd, &st) == 0 && st.st_nlink > 0)
		return fd;
	close(fd);
	return -EEXIST;
}

int microvm_begin_dir(const struct cache *cache, char *ret_name, size_t size)
{
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < TRIES; i++) {
		uint64_t number;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -EIO;
		snprintf(ret_name, size, PREFIX "%016llx", (unsigned long long)number);
		r = make_locked(cache, ret_name);
	}
	return r;
}

int microvm_take_left(const struct cache *cache, const char *name)
{
	int fd = open_dir(cache, name);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static int remove_left(void *arg, const struct microvm_image *image)
{
	const struct cache *cache = arg;
	int fd;

	if (!microvm_is_unfinished(image->key))
		return 0;
	fd = microvm_take_left(cache, image->key);
	if (fd < 0)
		return 0;
	/* What cannot be removed is left to gc, which says so. */
	(void)tree_remove(cache->fd, image->key);
	close(fd);
	return 0;
}

void microvm_tidy(const struct cache *cache)
{
	(void)microvm_images(cache, NULL, remove_left, (void *)(uintptr_t)cache, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of the open file description: they live as long as a copy of the descriptor, and end with
 * the process, however that ends. A lock file may be removed together with its layer, so whoever
 * gets a lock looks whether the file still has its name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "packages/packages.h"

#define POLL_NS 50000000L /* between two tries */

static int set_lock(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	return errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
}

static bool has_name(int dir_fd, const char *name, int fd)
{
	struct stat own, named;

	return fstat(fd, &own) == 0 && fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

static int wait_a_moment(const struct cordon_packages_options *options, unsigned *tries)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };

	if (options && options->line && (*tries)++ % 20 == 0 &&
	    options->line(options->arg, "waiting for another installation of these packages"))
		return -ECANCELED;
	(void)nanosleep(&pause, NULL);
	return 0;
}

int lock_open(const struct cache *cache, const char *key, bool exclusive, enum lock_wait wait,
	      const struct cordon_packages_options *options)
{
	char name[KEY_SIZE + sizeof(LOCK_PREFIX)];
	unsigned tries = 0;

	snprintf(name, sizeof(name), LOCK_PREFIX "%s", key);
	for (;;) {
		int r, fd = openat(cache->fd, name,
				   O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

		if (fd < 0)
			return -errno;
		do {
			r = set_lock(fd, exclusive ? F_WRLCK : F_RDLCK);
			if (r == -EWOULDBLOCK && wait == LOCK_WAIT && has_name(cache->fd, name, fd))
				r = wait_a_moment(options, &tries) < 0 ? -ECANCELED : 1;
		} while (r == 1);
		if (r == 0 && has_name(cache->fd, name, fd))
			return fd;
		close(fd);
		if (r < 0 && (r != -EWOULDBLOCK || wait == LOCK_TRY))
			return r;
	}
}

int lock_share(int fd)
{
	return set_lock(fd, F_RDLCK);
}

void lock_touch(int fd)
{
	(void)futimens(fd, NULL);
}

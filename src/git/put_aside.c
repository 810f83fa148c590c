/* SPDX-License-Identifier: Apache-2.0 */
/* Renaming in a directory that the command could write to. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "git/put_aside.h"

#define SUFFIX ".held-by-cordon" /* a name on disk that users know */
#define TRIES_MAX 100
#define NO_REPLACE 1 /* RENAME_NOREPLACE */

static int rename_to(int dir_fd, const char *name, const char *aside)
{
	struct stat st;

	if (syscall(SYS_renameat2, dir_fd, name, dir_fd, aside, NO_REPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A file system without that flag. The tree is gone, so nothing races with us. */
	if (fstatat(dir_fd, aside, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(dir_fd, name, dir_fd, aside) < 0 ? -errno : 0;
}

int git_put_aside(int dir_fd, const char *name, char *suffix, size_t size)
{
	char aside[NAME_MAX + 64], self[32];
	struct stat st;
	int r = -EEXIST, is_opened = 0;

	for (int i = 0; r == -EEXIST && i < TRIES_MAX; i++) {
		snprintf(suffix, size, i ? "%s.%d" : "%s", SUFFIX, i);
		snprintf(aside, sizeof(aside), "%s%s", name, suffix);
		r = rename_to(dir_fd, name, aside);
		if (r == -EACCES && !is_opened && fstat(dir_fd, &st) == 0) {
			/* The command may have taken the write bit off its directory. */
			snprintf(self, sizeof(self), "/proc/self/fd/%d", dir_fd);
			is_opened = chmod(self, (st.st_mode & 07777) | 0700) == 0;
			if (is_opened)
				r = rename_to(dir_fd, name, aside);
		}
	}
	if (is_opened)
		chmod(self, st.st_mode & 07777);
	return r;
}

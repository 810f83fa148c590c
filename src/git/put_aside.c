/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renaming in a directory that the command could write to.
 *
 * The command may have occupied the first names, so the later ones are random: it cannot have
 * guessed them, and it is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "git/put_aside.h"

#define SUFFIX ".held-by-cordon" /* a name on disk that users know */
#define PLAIN_TRIES 10
#define RANDOM_TRIES 10
#define NO_REPLACE 1	 /* RENAME_NOREPLACE */
#define KEPT_OF_NAME 180 /* bytes: with a suffix it fits into any file system's names */

static void change_mode(int fd, mode_t mode)
{
	char self[32];

	/* The descriptor may be one that chmod itself does not take. */
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	(void)chmod(self, mode);
}

void git_open_dir(struct git_opened *dir)
{
	struct stat st;

	if (fstat(dir->fd, &st) < 0 || (st.st_mode & 0700) == 0700)
		return;
	dir->mode = (st.st_mode & 07777) | S_IFDIR;
	change_mode(dir->fd, (st.st_mode & 07777) | 0700);
}

void git_close_dir(const struct git_opened *dir)
{
	if (dir->mode)
		change_mode(dir->fd, dir->mode & 07777);
}

static int rename_to(int dir_fd, const char *name, int to_fd, const char *aside)
{
	struct stat st;

	if (syscall(SYS_renameat2, dir_fd, name, to_fd, aside, NO_REPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A file system without that flag. The tree is gone, so nothing races with us. */
	if (fstatat(to_fd, aside, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(dir_fd, name, to_fd, aside) < 0 ? -errno : 0;
}

static int make_name(const char *name, int i, char aside[NAME_MAX + 1])
{
	/* With a dot in front no file is a branch or a log of one: git never opens it. */
	const char *dot = name[0] == '.' ? "" : ".";
	uint64_t number;

	if (i == 0)
		snprintf(aside, NAME_MAX + 1, "%s%.*s" SUFFIX, dot, KEPT_OF_NAME, name);
	else if (i < PLAIN_TRIES)
		snprintf(aside, NAME_MAX + 1, "%s%.*s" SUFFIX ".%d", dot, KEPT_OF_NAME, name, i);
	else if (getrandom(&number, sizeof(number), 0) == sizeof(number))
		snprintf(aside, NAME_MAX + 1, "%s%.*s" SUFFIX ".%016llx", dot, KEPT_OF_NAME, name,
			 (unsigned long long)number);
	else
		return -EIO;
	return 0;
}

int git_put_aside(int dir_fd, const char *name, int to_fd, char aside[NAME_MAX + 1])
{
	/* Moving a directory elsewhere changes its "..", so it has to be writable as well. */
	struct git_opened opened[] = {
		{ .fd = dir_fd },
		{ .fd = to_fd },
		{ .fd = -1 },
	};
	int r = -EEXIST;

	for (int i = 0; r == -EEXIST && i < PLAIN_TRIES + RANDOM_TRIES; i++) {
		r = make_name(name, i, aside);
		if (r == 0)
			r = rename_to(dir_fd, name, to_fd, aside);
		if (r != -EACCES || opened[2].fd >= 0)
			continue;
		git_open_dir(&opened[0]);
		git_open_dir(&opened[1]);
		opened[2].fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (opened[2].fd >= 0)
			git_open_dir(&opened[2]);
		r = rename_to(dir_fd, name, to_fd, aside);
	}
	for (int i = 2; i >= 0; i--)
		git_close_dir(&opened[i]);
	if (opened[2].fd >= 0)
		close(opened[2].fd);
	return r;
}

bool git_is_aside(const char *name)
{
	return name[0] == '.' && strstr(name, SUFFIX) != NULL;
}

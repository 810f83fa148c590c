/* SPDX-License-Identifier: Apache-2.0 */
#include "git/pipes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/macros.h"
#include "git/fingerprint.h"

static bool is_opened(const char *name)
{
	static const char *const names[] = { "HEAD",	       "commondir",   ".gitignore",
					     ".gitattributes", ".gitmodules", ".mailmap" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Would a program that opens or reads it have to wait? A socket cannot be opened at all. */
static bool makes_wait(const struct stat *st)
{
	return S_ISFIFO(st->st_mode) || S_ISBLK(st->st_mode) ||
	       (S_ISCHR(st->st_mode) && st->st_rdev != makedev(1, 3)); /* null */
}

static int check(const struct git_pipes *pipes, int dir_fd, const char *name, const char *dir)
{
	char path[PATH_MAX];
	struct stat st;
	int n;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    git_is_later(&pipes->since, &st.st_ctim))
		return 0;
	if (S_ISLNK(st.st_mode) && fstatat(dir_fd, name, &st, 0) < 0)
		return 0;
	if (!makes_wait(&st))
		return 0;
	n = snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", name);
	/* Beyond that git does not get there. */
	return n < (int)sizeof(path) ? pipes->found(pipes->ctx, dir_fd, name, path) : 0;
}

int git_pipes_check(const struct git_pipes *pipes, int dir_fd, const char *name, unsigned char type,
		    const char *dir, bool is_git)
{
	if (type == DT_REG || type == DT_DIR || type == DT_SOCK || !(is_git || is_opened(name)))
		return 0;
	return check(pipes, dir_fd, name, dir);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placeholder of a reserved name. Another run, or the next one after a crash, must tell it from
 * a user's file: it is a socket without a listener, an empty file or a tiny read-only one with a
 * modification time that no clock shows, or an empty directory with the sticky bit. A directory has
 * its mark from the moment in which it is made: another run that plans then must not reserve names
 * in it.
 *
 * A socket for a file, since nothing blocks on opening one, and git passes over it without a word.
 * Programs that copy or pack the directory stop at a socket: the command sees an empty file over
 * it. Where there is no git, an empty file, which the host can write to at once. A directory where
 * programs expect one: the host can use it at once. From then on it is no placeholder any more.
 */
#ifndef FORMAT_PLACEHOLDER_H
#define FORMAT_PLACEHOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "format/placeholder_mark.h"

static inline bool placeholder_has_date(const struct stat *st)
{
	return st->st_mtim.tv_sec == PLACEHOLDER_SECONDS &&
	       st->st_mtim.tv_nsec == PLACEHOLDER_NANOSECONDS;
}

static inline bool placeholder_is_marked(const struct stat *st)
{
	return (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX)) || placeholder_has_date(st);
}

/* Is nothing in the directory? If that cannot be seen, it is not ours. */
static inline bool placeholder_is_empty(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), n = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (n <= 2 && readdir(dir))
		n++;
	closedir(dir);
	return n == 2; /* "." and ".." */
}

/* Only git reads one, as "the same directory". A command can give its own files the date, too. */
static inline bool placeholder_has_text(int dir_fd, const char *name)
{
	const char want[] = PLACEHOLDER_TEXT;
	char found[sizeof(want)];
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)sizeof(want) - 1 && memcmp(found, want, (size_t)n) == 0;
}

/* Is it what stands for a missing `commondir`? No other name has one with a text in it. */
static inline bool placeholder_is_commondir(int dir_fd, const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, "commondir") == 0 &&
	       placeholder_has_text(dir_fd, path);
}

/* @st is of @name in @dir_fd. A command can give its own directories the date, but what it puts
 * into them shows. */
static inline bool is_placeholder(int dir_fd, const char *name, const struct stat *st)
{
	/* /tmp is on many paths and need not be read: a directory with others in it is not empty,
	 * and ours is open to all only on a file system that keeps no modes. */
	if (S_ISDIR(st->st_mode))
		return placeholder_is_marked(st) && st->st_nlink <= 2 &&
		       (!(st->st_mode & S_IWOTH) || placeholder_has_date(st)) &&
		       placeholder_is_empty(dir_fd, name);
	if (!placeholder_is_marked(st))
		return false;
	if (S_ISREG(st->st_mode) && (st->st_size > PLACEHOLDER_BYTES_MAX || st->st_nlink > 1))
		return false;
	/* What the host has written to is its own. */
	if (S_ISREG(st->st_mode) && st->st_size == 0)
		return true;
	if (st->st_mode & 0222)
		return false;
	return S_ISSOCK(st->st_mode) ||
	       (S_ISREG(st->st_mode) && placeholder_is_commondir(dir_fd, name));
}

/* How long another run may take from making one to giving it its date. */
#define PLACEHOLDER_MAKING_S 1

/* May it be one that another run is just making? Only for a moment: then it has its date. */
static inline bool placeholder_is_in_the_making(const struct stat *st)
{
	struct timespec now;

	if (!(S_ISSOCK(st->st_mode) ||
	      (S_ISREG(st->st_mode) && st->st_size <= PLACEHOLDER_BYTES_MAX)) ||
	    (st->st_mode & 07777) != PLACEHOLDER_MODE || placeholder_has_date(st))
		return false;
	return clock_gettime(CLOCK_REALTIME, &now) == 0 &&
	       now.tv_sec - st->st_ctim.tv_sec <= PLACEHOLDER_MAKING_S &&
	       st->st_ctim.tv_sec <= now.tv_sec;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolic links inside a repository's own directory.
 *
 * Git keeps no links there, but it writes through them: a reflog that is a link to somewhere else
 * makes the caller's next `git commit` append a line of the command's choosing to that file. So
 * when the tree is gone, the repository is searched for links that are newer than the run. Objects
 * are left out: git replaces those files and never writes into them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git/links.h"

#define DEPTH_MAX 64	   /* directories inside each other */
#define ENTRIES_MAX 100000 /* names looked at in one repository */

struct search {
	struct timespec since;
	void (*found)(void *ctx, int dir_fd, const char *name, const char *path);
	void *ctx;
	unsigned entries;
	char path[PATH_MAX]; /* of the directory being read, relative to the repository */
};

static bool is_new(const struct stat *st, const struct timespec *since)
{
	return st->st_ctim.tv_sec > since->tv_sec ||
	       (st->st_ctim.tv_sec == since->tv_sec && st->st_ctim.tv_nsec >= since->tv_nsec);
}

/* The index is replaced, not written into; old repositories have HEAD as a link to the branch. */
static bool is_harmless(int dir_fd, const char *name)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, text, sizeof(text) - 1);

	if (strcmp(name, "index") == 0)
		return true;
	if (n < 0 || strcmp(name, "HEAD") != 0)
		return false;
	text[n] = '\0';
	return strncmp(text, "refs/", 5) == 0 && !strstr(text, "..");
}

static void search_dir(struct search *s, int dir_fd, size_t path_len, int depth);

static void search_entry(struct search *s, DIR *dir, const char *name, size_t path_len, int depth)
{
	size_t len = strlen(name);
	struct stat st;
	int fd;

	if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    path_len + len + 2 >= sizeof(s->path))
		return;
	memcpy(s->path + path_len, name, len + 1);
	if (S_ISLNK(st.st_mode)) {
		if (is_new(&st, &s->since) && !(depth == 0 && is_harmless(dirfd(dir), name)))
			s->found(s->ctx, dirfd(dir), name, s->path);
		return;
	}
	if (!S_ISDIR(st.st_mode) || (depth == 0 && strcmp(name, "objects") == 0))
		return;
	fd = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	s->path[path_len + len] = '/';
	search_dir(s, fd, path_len + len + 1, depth + 1);
}

/* Takes @dir_fd over. */
static void search_dir(struct search *s, int dir_fd, size_t path_len, int depth)
{
	DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;

	if (!dir) {
		close(dir_fd);
		return;
	}
	while (depth < DEPTH_MAX && (entry = readdir(dir)) && s->entries++ < ENTRIES_MAX)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			search_entry(s, dir, entry->d_name, path_len, depth);
	closedir(dir);
}

void git_links_search(int git_fd, const struct timespec *since,
		      void (*found)(void *ctx, int dir_fd, const char *name, const char *path),
		      void *ctx)
{
	struct search s = { .since = *since, .found = found, .ctx = ctx };
	int fd = openat(git_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		search_dir(&s, fd, 0, 0);
}

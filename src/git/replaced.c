/* SPDX-License-Identifier: Apache-2.0 */
#include "git/replaced.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git/read.h"

#define NEITHER_LINKS_NOR_OUT (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)

struct search {
	const struct git_replaced *find;
	const char **repos; /* directories with a `.git`, in those that have changed */
	size_t n, cap;
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_repository(int dir_fd, const char *name)
{
	char path[NAME_MAX + sizeof("/.git")];
	struct stat st;

	snprintf(path, sizeof(path), "%s/.git", name);
	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int add_repo(struct search *s, const char *dir, const char *name)
{
	const char **repo;

	if (git_count_kept(s->find->reading, strlen(dir) + strlen(name) + 2 * sizeof(*repo)) < 0)
		return -E2BIG;
	repo = arena_add(s->find->arena, &s->repos, &s->n, &s->cap, sizeof(*repo));
	if (!repo)
		return -ENOMEM;
	*repo = arena_printf(s->find->arena, "%s%s%s", dir, *dir ? "/" : "", name);
	return *repo ? 0 : -ENOMEM;
}

/* Takes @fd over. */
static int list(struct search *s, const char *path, int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) ||
		    strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		r = git_count_step(s->find->effort);
		if (r == 0 && has_repository(fd, entry->d_name))
			r = add_repo(s, path, entry->d_name);
	}
	if (r == 0 && errno != 0)
		r = -errno;
	closedir(dir);
	return r;
}

/*
 * @path cannot be reached. If the directory that closes the way was changed, the run may have done
 * that to keep us from looking; one that was closed before is no concern of git's either.
 */
static int check_closed(const struct git_replaced *f, const char *path)
{
	char above[PATH_MAX];
	struct stat st;
	size_t len = strlen(path);

	if (len >= sizeof(above))
		return 0; /* too long for git as well */
	memcpy(above, path, len + 1);
	while (fstatat(f->work_fd, len ? above : ".", &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != EACCES || len == 0)
			return -errno;
		while (len > 0 && above[len] != '/')
			len--;
		above[len] = '\0';
	}
	return git_is_later(&f->since, &st.st_ctim) ? 0 : -EACCES;
}

static int look_into(struct search *s, const char *path)
{
	const struct git_replaced *f = s->find;
	const char *name = *path ? path : ".";
	struct stat st;
	int fd, r;

	r = git_count_step(f->effort);
	if (r < 0 || !f->is_in_reach(f->ctx, path))
		return r;
	if (fstatat(f->work_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == EACCES ? check_closed(f, path) : 0;
	if (!S_ISDIR(st.st_mode) || git_is_later(&f->since, &st.st_ctim))
		return 0;
	fd = git_open_path(f->work_fd, name, O_DIRECTORY | O_NOFOLLOW, NEITHER_LINKS_NOR_OUT);
	/* What is gone or behind a link is no concern of git's either. */
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	r = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0)
		r = -errno;
	close(fd);
	return r < 0 ? r : list(s, path, r);
}

static int check_file(void *ctx, const char *path, size_t len)
{
	const struct search *s = ctx;
	int fd, r;

	(void)len;
	if (!bsearch(&path, s->repos, s->n, sizeof(*s->repos), compare))
		return 0;
	fd = git_open_path(s->find->work_fd, path, O_DIRECTORY | O_NOFOLLOW, NEITHER_LINKS_NOR_OUT);
	if (fd < 0)
		return fd;
	r = s->find->found(s->find->ctx, fd, path);
	close(fd);
	return r;
}

int git_replaced_find(const struct git_replaced *find)
{
	const struct git_entries *e = find->entries;
	struct search s = { .find = find };
	int r = 0;

	for (size_t i = 0; r == 0 && i < e->n_dirs; i++)
		r = look_into(&s, e->dirs[i]);
	if (r < 0 || s.n == 0)
		return r;
	qsort(s.repos, s.n, sizeof(*s.repos), compare);
	return git_entries_files(find->git_fd, find->reading, check_file, &s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which repository git would use in a directory, and the state of what it would obey there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch/gitlinks.h"
#include "format/placeholder.h"

#define POINTER_MAX 8192 /* bytes of a .git file or of commondir */
#define HOOKS_MAX 256
#define LARGE_PAGE ((size_t)2 << 20)

/* One file, as far as its change shows. */
struct record {
	uint64_t dev, ino;
	uint64_t seconds, nanoseconds, size;
	uint32_t mode, unused;
};

int git_open_path(int dir_fd, const char *path, unsigned long flags, unsigned long resolve)
{
	const struct open_how how = {
		.flags = flags | O_PATH | O_CLOEXEC,
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* In large pages if it is large: touching it for the first time is most of the work. */
static char *make_room(size_t size)
{
	size_t rounded = (size + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
	char *data;

	if (size < LARGE_PAGE)
		return malloc(size);
	data = aligned_alloc(LARGE_PAGE, rounded);
	if (data)
		madvise(data, rounded, MADV_HUGEPAGE); /* as far as there are any */
	return data;
}

static int read_all(int fd, size_t size, char **ret, size_t *ret_len)
{
	char *data = make_room(size + 1);
	size_t len = 0;
	ssize_t n = 1;

	if (!data)
		return -ENOMEM;
	while (len < size && n > 0) {
		n = read(fd, data + len, size - len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			len += (size_t)n;
	}
	if (n < 0) {
		n = -errno;
		free(data);
		return (int)n;
	}
	data[len] = '\0';
	*ret = data;
	*ret_len = len;
	return 0;
}

/* Opening a device or a pipe could do something, or wait: only what is known to be a file. */
static int reopen(int path_fd, size_t max, size_t *ret_size)
{
	char name[32];
	struct stat st;
	int fd;

	if (fstat(path_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == ENOENT ? -EIO : -errno;
	*ret_size = (size_t)st.st_size;
	return fd;
}

int git_read_file(int dir_fd, const char *name, size_t max, char **ret, size_t *ret_len)
{
	int path_fd = git_open_path(dir_fd, name, 0, 0), fd, r;
	size_t size = 0;

	if (path_fd < 0)
		return path_fd;
	fd = reopen(path_fd, max, &size);
	close(path_fd);
	if (fd < 0)
		return fd;
	r = read_all(fd, size, ret, ret_len);
	close(fd);
	return r;
}

static void see_time(struct git_effort *effort, const struct timespec *ts)
{
	if (ts->tv_sec > effort->newest.tv_sec ||
	    (ts->tv_sec == effort->newest.tv_sec && ts->tv_nsec > effort->newest.tv_nsec))
		effort->newest = *ts;
}

/* Without times: a directory in which git works changes all the time. */
static void add_object(struct git_print *print, const struct stat *st)
{
	const struct record rec = { .dev = st->st_dev,
				    .ino = st->st_ino,
				    .mode = st->st_mode & S_IFMT };

	strbuf_add(&print->files, &rec, sizeof(rec));
}

static void add_state(struct git_print *print, const struct stat *st, struct git_effort *effort)
{
	const struct record rec = {
		.dev = st->st_dev,
		.ino = st->st_ino,
		.seconds = (uint64_t)st->st_ctim.tv_sec,
		.nanoseconds = (uint64_t)st->st_ctim.tv_nsec,
		.size = (uint64_t)st->st_size,
		.mode = st->st_mode,
	};

	see_time(effort, &st->st_ctim);
	strbuf_add(&print->files, &rec, sizeof(rec));
}

static int count_step(struct git_effort *effort)
{
	return ++effort->steps > GITLINKS_STEPS_MAX ? -E2BIG : 0;
}

/* A name and, if it is a link, what it leads to. A placeholder stands for nothing. */
static int add_name(struct git_print *print, int dir_fd, const char *name,
		    struct git_effort *effort)
{
	static const struct record missing;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_placeholder(&st)) {
		strbuf_add(&print->files, &missing, sizeof(missing));
		return count_step(effort);
	}
	add_state(print, &st, effort);
	if (S_ISLNK(st.st_mode) && fstatat(dir_fd, name, &st, 0) == 0)
		add_state(print, &st, effort);
	return count_step(effort);
}

/* A hook can be changed without its directory changing. */
static int add_hooks(struct git_print *print, int git_fd, struct git_effort *effort)
{
	int r = add_name(print, git_fd, "hooks", effort), fd, n = 0;
	struct dirent *entry;
	DIR *dir;

	if (r < 0)
		return r;
	fd = openat(git_fd, "hooks", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		r = ++n > HOOKS_MAX ? -E2BIG : add_name(print, fd, entry->d_name, effort);
	}
	closedir(dir);
	return r;
}

static int add_config(struct git_print *print, int git_fd, struct git_effort *effort)
{
	static const char *const names[] = { "config", "config.worktree", "commondir" };
	struct stat st;
	int r = 0;

	if (fstat(git_fd, &st) < 0)
		return -errno;
	add_object(print, &st);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = add_name(print, git_fd, names[i], effort);
	return r == 0 ? add_hooks(print, git_fd, effort) : r;
}

/* The path in a small file of git's, behind @prefix. 0 = there is none. */
static int read_pointer(int dir_fd, const char *name, const char *prefix, char **ret)
{
	size_t len = 0, skip = strlen(prefix);
	char *text = NULL;
	int r = git_read_file(dir_fd, name, POINTER_MAX, &text, &len);

	if (r < 0)
		return r == -ENOENT || r == -EINVAL ? 0 : r;
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		text[--len] = '\0';
	if (len <= skip || memcmp(text, prefix, skip) != 0) {
		free(text);
		return 0;
	}
	memmove(text, text + skip, len - skip + 1);
	*ret = text;
	return 1;
}

/*
 * `.git` in @dir_fd: a directory, a link to one, or a file that names one. -ENOENT if it is
 * something else. What leads nowhere from here may lead somewhere for git (/proc/self/cwd):
 * -EINVAL.
 */
static int open_repository(int dir_fd, const struct stat *dot_git)
{
	struct stat st = *dot_git;
	char *text = NULL;
	int fd, r;

	if (S_ISLNK(st.st_mode) && fstatat(dir_fd, ".git", &st, 0) < 0)
		return -EINVAL;
	if (S_ISDIR(st.st_mode)) {
		fd = git_open_path(dir_fd, ".git", O_DIRECTORY, 0);
		return fd < 0 ? -EINVAL : fd;
	}
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	r = read_pointer(dir_fd, ".git", "gitdir: ", &text);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	fd = git_open_path(dir_fd, text, O_DIRECTORY, 0);
	free(text);
	return fd < 0 ? -EINVAL : fd;
}

static int add_common(struct git_print *print, int git_fd, struct git_effort *effort)
{
	char *text = NULL;
	int r = read_pointer(git_fd, "commondir", "", &text), fd;

	if (r <= 0)
		return r;
	fd = git_open_path(git_fd, text, O_DIRECTORY, 0);
	free(text);
	if (fd < 0)
		return 0; /* git gives up there, too */
	r = add_config(print, fd, effort);
	close(fd);
	return r;
}

int git_print_take(int dir_fd, struct git_print *ret, struct git_effort *effort)
{
	struct git_print print = GIT_PRINT_INIT;
	struct stat st;
	int r;

	if (fstatat(dir_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (is_placeholder(&st))
		return 0;
	print.git_fd = open_repository(dir_fd, &st);
	if (print.git_fd < 0)
		return print.git_fd == -ENOENT ? 0 : print.git_fd;
	if (S_ISDIR(st.st_mode))
		add_object(&print, &st);
	else
		add_state(&print, &st, effort);
	r = add_config(&print, print.git_fd, effort);
	if (r == 0)
		r = add_common(&print, print.git_fd, effort);
	if (r == 0 && print.files.failed)
		r = -ENOMEM;
	if (r < 0) {
		git_print_done(&print);
		return r;
	}
	*ret = print;
	return 1;
}

void git_print_done(struct git_print *print)
{
	if (print->git_fd >= 0)
		close(print->git_fd);
	print->git_fd = -1;
	strbuf_done(&print->files);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "git/read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/path.h"
#include "format/placeholder.h"
#include "sys/calls.h"

#define LARGE_PAGE ((size_t)2 << 20)

int git_open_path(int dir_fd, const char *path, unsigned long flags, unsigned long resolve)
{
	return sys_openat2(dir_fd, path, flags | O_PATH, resolve | RESOLVE_NO_MAGICLINKS);
}

int git_path_of(int fd, char ret[PATH_MAX])
{
	char name[32];
	ssize_t len;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = readlink(name, ret, PATH_MAX);
	if (len <= 0 || len >= PATH_MAX || ret[0] != '/')
		return -EINVAL;
	ret[len] = '\0';
	return 0;
}

/* Large data gets large pages: most of the work is touching it for the first time. */
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
	ssize_t len = data ? read_full(fd, data, size) : -ENOMEM;

	if (len < 0) {
		free(data);
		return (int)len;
	}
	data[len] = '\0';
	*ret = data;
	*ret_len = (size_t)len;
	return 0;
}

/* Opening a device or a pipe could have an effect, or block. So it is opened for reading only once
 * it is known to be a regular file. */
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

	/* A process that confines itself may already have a filter that refuses openat2. */
	if (path_fd == -ENOSYS)
		path_fd = sys_openat(dir_fd, name, O_PATH | O_CLOEXEC, 0);
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

bool git_is_answer(int error)
{
	switch (-error) {
	case ENOENT:
	case ENOTDIR:
	case EACCES:
	case EPERM:
	case ELOOP:
	case EINVAL:
	case ENAMETOOLONG:
		return true;
	default:
		return false;
	}
}

int git_read_pointer(int dir_fd, const char *name, const char *prefix, char **ret)
{
	size_t len = 0, skip = strlen(prefix);
	char *text = NULL;
	int r = git_read_file(dir_fd, name, GIT_POINTER_MAX, &text, &len);

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

static int real_path(const char *path, char ret[PATH_MAX])
{
	if (realpath(path, ret))
		return 1;
	return git_is_answer(-errno) ? 0 : -errno;
}

int git_pointed_dir(const char *dir, const char *name, const char *prefix, char ret[PATH_MAX])
{
	char path[PATH_MAX], *text = NULL;
	int r;

	if (path_normalise(dir, name, path, sizeof(path)) < 0)
		return 0;
	r = git_read_pointer(AT_FDCWD, path, prefix, &text);
	if (r <= 0)
		return git_is_answer(r) ? 0 : r;
	r = path_normalise(dir, text, path, sizeof(path));
	free(text);
	return r < 0 ? 0 : real_path(path, ret);
}

/* A reference or an object's name; a link is the old way to say the former. */
static bool is_head(const char *path)
{
	char *text = NULL;
	struct stat st;
	size_t len;
	bool is_ok;

	if (lstat(path, &st) < 0)
		return false;
	if (S_ISLNK(st.st_mode))
		return true;
	if (git_read_file(AT_FDCWD, path, GIT_POINTER_MAX, &text, &len) < 0)
		return false;
	is_ok = strncmp(text, "ref:", 4) == 0 || strspn(text, "0123456789abcdefABCDEF") >= 40;
	free(text);
	return is_ok;
}

bool git_is_repository(const char *dir)
{
	static const char *const names[] = { "HEAD", "objects", "refs" };
	char path[PATH_MAX], common[PATH_MAX];
	int r = git_pointed_dir(dir, "commondir", "", common);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (path_normalise(i > 0 && r == 1 ? common : dir, names[i], path, sizeof(path)) <
		    0)
			return false;
		if (i == 0 ? !is_head(path) : access(path, X_OK) < 0)
			return false;
	}
	return true;
}

/* `.git` in ret->work_dir. 1; 0 = git looks further up; -ENOENT = it gives up here; or -errno. */
static int look_at(struct git_location *ret)
{
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (path_normalise(ret->work_dir, ".git", path, sizeof(path)) < 0 || stat(path, &st) < 0 ||
	    is_placeholder(AT_FDCWD, path, &st))
		return 0;
	ret->owner = st.st_uid;
	if (S_ISDIR(st.st_mode))
		return git_is_repository(path) ? real_path(path, ret->git_dir) : 0;
	if (!S_ISREG(st.st_mode))
		return 0;
	r = git_pointed_dir(ret->work_dir, ".git", "gitdir: ", ret->git_dir);
	return r == 0 ? -ENOENT : r;
}

int git_locate(const char *dir, struct git_location *ret)
{
	size_t len = strlen(dir);
	int r;

	if (dir[0] != '/' || len >= sizeof(ret->work_dir))
		return 0;
	memcpy(ret->work_dir, dir, len + 1);
	for (;;) {
		r = look_at(ret);
		if (r != 0)
			return r == -ENOENT ? 0 : r;
		if (strcmp(ret->work_dir, "/") == 0)
			return 0;
		ret->work_dir[path_dir_len(ret->work_dir)] = '\0';
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/way.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"

#define LINKS_MAX 40 /* as in the kernel */

static int path_of(int fd, char ret[PATH_MAX])
{
	char name[32];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, ret, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

/* All links in /proc are the kernel's. */
static bool is_on_proc(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

/* Owned by root, in the root directory or one level below it. */
static bool is_system_link(int dir_fd, const struct stat *st)
{
	char dir[PATH_MAX];

	if (st->st_uid != 0 || path_of(dir_fd, dir) < 0 || strcmp(dir, "/tmp") == 0)
		return false;
	return dir[0] == '/' && strchr(dir + 1, '/') == NULL;
}

void way_refuse(struct way *w, const char *name)
{
	char dir[PATH_MAX];

	if (path_of(w->fd, dir) < 0)
		dir[0] = '\0';
	if (snprintf(w->refused, sizeof(w->refused), "%s/%s", strcmp(dir, "/") == 0 ? "" : dir,
		     name) >= (int)sizeof(w->refused))
		w->refused[0] = '\0';
}

/* Takes @fd over. */
static void move_to(struct way *w, int fd)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = fd;
}

/* @link_fd is the link @name in the directory reached. */
static int follow(struct way *w, int link_fd, const char *name, const struct stat *st)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t n;
	int fd;

	if (++w->links > LINKS_MAX)
		return -ELOOP;
	if (is_on_proc(w->fd)) {
		fd = openat(w->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		move_to(w, fd);
		return 0;
	}
	if (!is_system_link(w->fd, st)) {
		way_refuse(w, name);
		return -ELOOP;
	}
	n = readlinkat(link_fd, "", text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	if (snprintf(rest, sizeof(rest), "%s/%s", text, w->rest) >= (int)sizeof(rest))
		return -ENAMETOOLONG;
	memcpy(w->rest, rest, sizeof(rest));
	if (text[0] == '/') {
		fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		move_to(w, fd);
	}
	return 0;
}

static int walk(struct way *w)
{
	char name[NAME_MAX + 1];
	struct stat st;
	int fd, r;

	while ((r = path_take_name(w->rest, name)) > 0) {
		fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		r = fstat(fd, &st) < 0 ? -errno : 0;
		if (r == 0 && S_ISDIR(st.st_mode)) {
			move_to(w, fd);
			continue;
		}
		if (r == 0)
			r = S_ISLNK(st.st_mode) ? follow(w, fd, name, &st) : -ENOTDIR;
		close(fd);
		if (r < 0)
			return r;
	}
	return r;
}

int way_open(const char *path, size_t len, struct way *ret)
{
	int r;

	ret->links = 0;
	ret->refused[0] = '\0';
	ret->fd = -1;
	if (len >= sizeof(ret->rest))
		return -ENAMETOOLONG;
	memcpy(ret->rest, path, len);
	ret->rest[len] = '\0';
	ret->fd = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = ret->fd < 0 ? -errno : walk(ret);
	if (r < 0 && ret->fd >= 0) {
		close(ret->fd);
		ret->fd = -1;
	}
	return r;
}

bool way_may_follow(int dir_fd, const char *name)
{
	struct stat st;

	return is_on_proc(dir_fd) || (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				      is_system_link(dir_fd, &st));
}

int way_error(const struct way *w, const char *what, const char *path, int error,
	      struct cordon_error *err)
{
	char real[PATH_MAX];
	int r;

	if (!w->refused[0])
		return cordon_err(err, CORDON_E_PATH, error, "cannot write %s'%s'", what, path);
	r = cordon_err(err, CORDON_E_PATH, 0,
		       "cannot write %s'%s': '%s' is a link that a command may have made", what,
		       path, w->refused);
	cordon_err_hint(err, "say '%s' if that is what you mean",
			realpath(w->refused, real) ? real : "");
	return r;
}

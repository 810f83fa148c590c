/* SPDX-License-Identifier: Apache-2.0 */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"

#define LINKS_MAX 40 /* as in the kernel */

struct way {
	int fd;		     /* the directory that was reached */
	char rest[PATH_MAX]; /* what is left to be walked */
	unsigned links;
	char refused[PATH_MAX]; /* the link that is not followed */
};

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

static void refuse(struct way *w, const char *name)
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
		refuse(w, name);
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

static int fail(const char *what, const char *path, int error, const char *link,
		struct cordon_error *err)
{
	char real[PATH_MAX];
	int r;

	if (!link[0])
		return cordon_err(err, CORDON_E_PATH, error, "cannot write %s'%s'", what, path);
	r = cordon_err(err, CORDON_E_PATH, 0,
		       "cannot write %s'%s': '%s' is a link that a command may have made", what,
		       path, link);
	cordon_err_hint(err, "say '%s' if that is what you mean", realpath(link, real) ? real : "");
	return r;
}

int output_open_dir(const char *what, const char *path, const char **ret_name,
		    struct cordon_error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t len = (size_t)(name - path);
	struct way w = { .fd = -1 };
	int r;

	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return cordon_err(err, CORDON_E_USAGE, 0, "%s'%s' is not a file name", what, path);
	if (len >= sizeof(w.rest))
		return fail(what, path, ENAMETOOLONG, "", err);
	memcpy(w.rest, path, len);
	w.rest[len] = '\0';
	w.fd = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = w.fd < 0 ? -errno : walk(&w);
	if (r < 0) {
		if (w.fd >= 0)
			close(w.fd);
		return fail(what, path, -r, w.refused, err);
	}
	*ret_name = name;
	return w.fd;
}

int output_check_way(const char *what, const char *path, struct cordon_error *err)
{
	struct way w = { .fd = -1 };
	size_t len = (size_t)(strrchr(path, '/') - path);
	int r;

	if (len >= sizeof(w.rest))
		return fail(what, path, ENAMETOOLONG, "", err);
	memcpy(w.rest, path, len);
	w.fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = w.fd < 0 ? -errno : walk(&w);
	if (w.fd >= 0)
		close(w.fd);
	return r < 0 && w.refused[0] ? fail(what, path, -r, w.refused, err) : 0;
}

/* The last name is a link: is it one that may be followed? */
static bool may_follow(int dir_fd, const char *name)
{
	struct stat st;

	return is_on_proc(dir_fd) || (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				      is_system_link(dir_fd, &st));
}

int output_open(const char *what, const char *path, int flags, int mode, int any,
		struct cordon_error *err)
{
	struct way w = { .fd = -1 };
	const char *name = "";
	struct stat st;
	int fd, r;

	w.fd = output_open_dir(what, path, &name, err);
	if (w.fd < 0)
		return w.fd;
	flags |= O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC;
	fd = openat(w.fd, name, flags | O_NOFOLLOW | (any ? 0 : O_NONBLOCK), (mode_t)mode);
	if (fd < 0 && errno == ELOOP && any && may_follow(w.fd, name))
		fd = openat(w.fd, name, flags, (mode_t)mode);
	r = fd < 0 ? -errno : 0;
	if (r == -ELOOP)
		refuse(&w, name);
	close(w.fd);
	if (r < 0)
		return fail(what, path, -r, w.refused, err);
	if (!any && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return cordon_err(err, CORDON_E_PATH, 0, "cannot write %s'%s': not a regular file",
				  what, path);
	}
	return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of the policy against the file system.
 *
 * An object is opened once and the kernel says where it lies; only when that differs from what was
 * typed is the path walked name by name, to learn which links lie on it. The walk never decides
 * what is granted: it must arrive at the object that is already open.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/placeholder.h"
#include "plan/plan_internal.h"
#include "sys/calls.h"

#define PAUSE_US 1000
#define TRIES 500 /* a command of another run may give its file new times for ever */

int plan_stat(const char *path, struct stat *ret, int flags)
{
	int r = fstatat(AT_FDCWD, path, ret, flags);

	for (int i = 0; i < TRIES && r == 0 && placeholder_is_in_the_making(ret); i++) {
		usleep(PAUSE_US);
		r = fstatat(AT_FDCWD, path, ret, flags);
	}
	return r;
}

#define LINKS_MAX 40 /* as in the kernel */

bool plan_is_below(const char *dir, const char *path)
{
	return strcmp(dir, path) != 0 && path_is_within(dir, path);
}

int plan_path_cmp(const char *a, const char *b)
{
	/* "/" sorts before every other byte, so that a tree lies directly behind its root. */
	while (*a && *a == *b) {
		a++;
		b++;
	}
	if (*a == *b)
		return 0;
	if (*a == '\0' || *b == '\0')
		return *a == '\0' ? -1 : 1;
	if (*a == '/' || *b == '/')
		return *a == '/' ? -1 : 1;
	return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

const char *plan_join(struct build *b, const char *dir, const char *name)
{
	return arena_printf(b->arena, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
}

int plan_open_real(const char *real)
{
	return sys_openat2(AT_FDCWD, real, O_PATH | O_NOFOLLOW,
			   RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int plan_open_path(struct build *b, const char *path, const char **ret_real)
{
	char name[32], real[PATH_MAX];
	ssize_t len;
	int fd = sys_openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_MAGICLINKS);

	/* A process that is confined already, whose filter refuses this call, can do no more than
	 * give up something else. */
	if (fd == -ENOSYS && b->in->is_self) {
		fd = open(path, O_PATH | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd < 0)
		return fd;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = readlink(name, real, sizeof(real));
	/* Not absolute: the object lies outside this process's root. */
	if (len <= 0 || len >= (ssize_t)sizeof(real) || real[0] != '/') {
		int r = len < 0 ? -errno : -ENAMETOOLONG;

		close(fd);
		return r;
	}
	*ret_real = arena_strndup(b->arena, real, (size_t)len);
	if (!*ret_real) {
		close(fd);
		return -ENOMEM;
	}
	return fd;
}

char *plan_read_small(struct build *b, const char *path, size_t max)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	char *text = NULL;
	struct stat st;
	ssize_t len;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size <= max)
		text = arena_alloc(b->arena, (size_t)st.st_size + 1);
	/* A regular file is read whole at once; one that shrinks meanwhile just ends earlier. */
	len = text ? read(fd, text, (size_t)st.st_size) : -1;
	close(fd);
	errno = EINVAL;
	return len < 0 ? NULL : text;
}

struct walk {
	char cur[PATH_MAX], rest[PATH_MAX];
	size_t len; /* of cur; 0 = the root */
	unsigned hops;
	bool is_st_valid; /* the last stat() is that of cur */
};

static void cut_last(struct walk *w)
{
	w->is_st_valid = false;
	while (w->len > 0 && w->cur[--w->len] != '/')
		;
	w->cur[w->len] = '\0';
}

static int follow_link(struct build *b, struct walk *w, const struct stat *st, struct resolved *ret)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t len = readlink(w->cur, text, sizeof(text));
	struct plan_link *links;
	int n;

	if (len <= 0)
		return len < 0 ? -errno : -ENOENT;
	if (len >= (ssize_t)sizeof(text))
		return -ENAMETOOLONG;
	text[len] = '\0';
	if (++w->hops > LINKS_MAX)
		return -ELOOP;
	if (!ret->links)
		ret->links = arena_alloc(b->arena, LINKS_MAX * sizeof(*links));
	if (!ret->links)
		return -ENOMEM;
	links = &ret->links[ret->n_links++];
	links->path = arena_strdup(b->arena, w->cur);
	links->text = arena_strdup(b->arena, text);
	links->owner = st->st_uid;
	if (!links->path || !links->text)
		return -ENOMEM;
	n = snprintf(rest, sizeof(rest), "%s/%s", text, w->rest);
	if (n < 0 || (size_t)n >= sizeof(rest))
		return -ENAMETOOLONG;
	memcpy(w->rest, rest, (size_t)n + 1);
	cut_last(w);
	if (text[0] == '/') {
		w->len = 0;
		w->cur[0] = '\0';
	}
	return 0;
}

static int append_name(struct walk *w, const char *name)
{
	size_t len = strlen(name);

	if (w->len + 1 + len >= sizeof(w->cur))
		return -ENAMETOOLONG;
	w->cur[w->len] = '/';
	memcpy(w->cur + w->len + 1, name, len + 1);
	w->len += 1 + len;
	return 0;
}

static int is_missing(struct build *b, struct walk *w, const char *name, struct resolved *ret)
{
	const char *rest = w->rest + strspn(w->rest, "/");

	if (path_has_dotdot(rest))
		return -ENOENT;
	cut_last(w);
	ret->missing = *rest ? plan_join(b, name, rest) : arena_strdup(b->arena, name);
	return ret->missing ? 0 : -ENOMEM;
}

const char *plan_first_missing(struct build *b, const struct resolved *res)
{
	const char *name = arena_strndup(b->arena, res->missing, strcspn(res->missing, "/"));

	return name ? plan_join(b, res->real, name) : NULL;
}

static int note_left(struct build *b, const char *dir, struct resolved *ret)
{
	const char *copy = arena_strdup(b->arena, dir);

	return copy ? strlist_add(b->arena, &ret->left, copy) : -ENOMEM;
}

/* One name further; 1 = the path ends here (something is missing). */
static int walk_name(struct build *b, struct walk *w, const char *name, struct resolved *ret)
{
	struct stat st;
	int r;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		if (w->len > 0 && note_left(b, w->cur, ret) < 0)
			return -ENOMEM;
		cut_last(w);
		return 0;
	}
	r = append_name(w, name);
	if (r < 0)
		return r;
	r = plan_stat(w->cur, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	/* The placeholder of another run stands for a name that does not exist. */
	if (r < 0 || is_placeholder(AT_FDCWD, w->cur, &st)) {
		if (r < 0 && r != -ENOENT)
			return r;
		r = is_missing(b, w, name, ret);
		return r < 0 ? r : 1;
	}
	if (S_ISLNK(st.st_mode)) {
		/* Nothing was left behind the name: it is the path's own last one. */
		if (w->rest[strspn(w->rest, "/")] == '\0' && ret->last_link < 0)
			ret->last_link = (int)ret->n_links;
		return follow_link(b, w, &st, ret);
	}
	if (!S_ISDIR(st.st_mode) && w->rest[strspn(w->rest, "/")] != '\0')
		return -ENOTDIR;
	ret->st = st;
	w->is_st_valid = true;
	return 0;
}

int plan_typed_path(const struct build *b, const char *typed, char ret[PATH_MAX])
{
	if (typed[0] != '~' || (typed[1] != '/' && typed[1] != '\0'))
		return path_normalise(b->cwd, typed, ret, PATH_MAX);
	if (!b->typed_home)
		return -ENOENT;
	typed += strspn(typed + 1, "/") + 1;
	return path_normalise(b->typed_home, *typed ? typed : ".", ret, PATH_MAX);
}

int plan_resolve(struct build *b, const char *path, struct resolved *ret)
{
	struct walk w = { .len = 0 };
	char name[NAME_MAX + 1];
	size_t len = strlen(path);
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->last_link = -1;
	if (len >= sizeof(w.rest))
		return -ENAMETOOLONG;
	memcpy(w.rest, path, len + 1);
	do {
		r = path_take_name(w.rest, name);
		if (r <= 0)
			break;
		r = walk_name(b, &w, name, ret);
	} while (r == 0);
	if (r < 0) {
		ret->failed = arena_strdup(b->arena, w.len ? w.cur : "/");
		return r;
	}
	ret->real = arena_strdup(b->arena, w.len ? w.cur : "/");
	if (!ret->real)
		return -ENOMEM;
	if (w.is_st_valid)
		return 0;
	return lstat(ret->real, &ret->st) < 0 ? -errno : 0;
}

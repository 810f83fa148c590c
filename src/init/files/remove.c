/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing a name, with everything below it if that is wanted.
 *
 * Every directory is first removed as if it were empty: a mount point, or one that may not be
 * removed, is found out before anything in it is gone. An object that cannot be removed does not
 * stop the removal of others; the first error is the answer.
 *
 * Each call in a deep directory costs the kernel a walk up to the grant (Landlock). So what lies
 * deep is moved to the top of the tree first, and emptied there: the cost grows with what is
 * removed, not with the square of the depth. Where moving is not possible it goes on as it is.
 */
#include "init/files/server.h"
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "bare/dirents.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#define FD_PATH_BYTES 32
#define TYPE_DIR 4
#define TRIES_MAX 100	 /* of one directory that keeps being filled */
#define RESTARTS_MAX 100 /* after a directory on the way was moved */
#define PARENTS_MAX 100000
#define FLAT_DEPTH 128	  /* what lies deeper is moved to the top */
#define ROUNDS_MAX 100000 /* of emptying the top again after that */
#define MOVED_BYTES 64

struct removal {
	struct server *s;
	long error; /* the first one */
	long top;   /* the directory that is emptied */
	unsigned long moved, n_names;
};

static long remove_name(long dir, const char *name, int flags)
{
	return raw_syscall(__NR_unlinkat, dir, RAW_ARG(name), flags, 0, 0, 0);
}

static int is_full(long r)
{
	return r == -ENOTEMPTY || r == -EEXIST;
}

/* Removes a file or an empty directory. */
static long remove_plainly(long dir, const char *name)
{
	long r = remove_name(dir, name, 0);

	return r == -EISDIR || r == -EPERM ? remove_name(dir, name, AT_REMOVEDIR) : r;
}

/* The same for what should be a directory. */
static long remove_dir(long dir, const char *name)
{
	long r = remove_name(dir, name, AT_REMOVEDIR);

	return r == -ENOTDIR ? remove_name(dir, name, 0) : r;
}

/* Opens a directory in which names shall be removed, also one without permissions for its owner. */
static long open_to_empty(const struct server *s, long dir, const char *name)
{
	long fd = raw_syscall(__NR_openat, dir, RAW_ARG(name),
			      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
	char path[FD_PATH_BYTES];
	struct statx st;
	long r;

	if (fd < 0)
		return fd;
	r = serve_statx(fd, "", AT_EMPTY_PATH, &st);
	if (r == 0 && st.stx_uid == s->uid && (st.stx_mode & 0700) != 0700) {
		text_number(path, sizeof(path), "/proc/self/fd/", (unsigned long)fd);
		/* If this fails the next step does, too. */
		raw_syscall(__NR_fchmodat, AT_FDCWD, RAW_ARG(path), (st.stx_mode & 07777) | 0700, 0,
			    0, 0);
	}
	if (r == 0)
		r = serve_open_dir(fd, ".");
	close_fd(fd);
	return r;
}

static void note_error(struct removal *rm, long r)
{
	struct serve_walk *w = &rm->s->walk;

	if (!rm->error)
		rm->error = r;
	w->levels[w->depth].is_stuck = 1;
}

/* Removes what can be removed from the current directory, and notes directories that are not empty.
 */
static void empty_dir(struct removal *rm)
{
	struct serve_walk *w = &rm->s->walk;
	struct dir_cursor cursor = walk_entries(w, w->fd);
	const struct dir_entry *e;

	raw_syscall(__NR_lseek, w->fd, 0, 0, 0, 0, 0);
	while ((e = dir_next(&cursor))) {
		long r = e->type == TYPE_DIR ? remove_dir(w->fd, e->name)
					     : remove_plainly(w->fd, e->name);

		if (is_full(r))
			r = walk_note(w, e->name);
		if (r < 0 && r != -ENOENT)
			note_error(rm, r);
	}
	if (cursor.len < 0)
		note_error(rm, cursor.len);
}

/* Gives the directory @name a name at the top, where it is emptied later. Whether it is there. */
static int move_to_top(struct removal *rm, uint32_t name)
{
	struct serve_walk *w = &rm->s->walk;
	char to[MOVED_BYTES];
	long r = -EEXIST;

	if (w->depth < FLAT_DEPTH)
		return 0;
	for (int i = 0; r == -EEXIST && i < TRIES_MAX; i++) {
		text_number(to, sizeof(to), ".cordon-removed-", rm->n_names++);
		r = raw_syscall(__NR_renameat2, w->fd, RAW_ARG(w->names + name), rm->top,
				RAW_ARG(to), RENAME_NOREPLACE_FLAG, 0);
	}
	rm->moved += r == 0;
	return r == 0;
}

/* Goes into the directory @name, which is not empty. */
static void enter(struct removal *rm, uint32_t name)
{
	struct serve_walk *w = &rm->s->walk;
	long fd, r;

	if (move_to_top(rm, name)) {
		walk_forget(w, name);
		return;
	}
	fd = open_to_empty(rm->s, w->fd, w->names + name);

	if (fd >= 0) {
		r = walk_down(w, fd, name);
		if (r == 0) {
			empty_dir(rm);
			return;
		}
	} else {
		r = fd;
	}
	/* It may have become something else meanwhile. */
	if (r == -ENOTDIR || r == -ELOOP)
		r = remove_plainly(w->fd, w->names + name);
	if (r < 0 && r != -ENOENT)
		note_error(rm, r);
	walk_forget(w, name);
}

/* The current directory should be empty: goes up and removes it. */
static long finish(struct removal *rm)
{
	struct serve_walk *w = &rm->s->walk;
	struct serve_level *level = &w->levels[w->depth];
	uint32_t name = level->name;
	uint16_t tries = level->tries;
	int is_stuck = level->is_stuck;
	long r = walk_up(w, w->depth - 1);

	if (r < 0)
		return r;
	r = remove_dir(w->fd, w->names + name);
	if (r == 0 || r == -ENOENT) {
		walk_forget(w, name);
		return 0;
	}
	if (is_stuck || !is_full(r) || tries >= TRIES_MAX) {
		note_error(rm, r);
		walk_forget(w, name);
		return 0;
	}
	/* It was filled again. Its name is still the last one, so it is next. */
	enter(rm, name);
	if (w->levels[w->depth].name == name)
		w->levels[w->depth].tries = (uint16_t)(tries + 1);
	return 0;
}

/* Empties the directory @name in @dir, which stays. -ESTALE: it has to be begun again. */
static long empty_tree(struct removal *rm, long dir, const char *name)
{
	struct serve_walk *w = &rm->s->walk;
	long fd = open_to_empty(rm->s, dir, name), r;
	int rounds = 0;

	if (fd < 0)
		return fd;
	rm->top = raw_syscall(__NR_openat, fd, RAW_ARG("."), O_PATH | O_CLOEXEC, 0, 0, 0);
	r = walk_start(w, fd);
	if (r == 0)
		empty_dir(rm);
	while (r == 0) {
		uint32_t next = walk_next(w);

		if (next != SERVE_NO_NAME) {
			enter(rm, next);
		} else if (w->depth > 0) {
			r = finish(rm);
		} else if (rm->moved && rounds++ < ROUNDS_MAX) {
			rm->moved = 0;
			empty_dir(rm);
		} else {
			break;
		}
	}
	walk_end(w);
	close_fd(rm->top);
	return r;
}

static long remove_tree(struct server *s, long dir, const char *name)
{
	struct removal rm = { .s = s, .top = -1 };

	for (int i = 0;; i++) {
		long r = remove_plainly(dir, name);

		if (!is_full(r) || i == RESTARTS_MAX)
			return rm.error && r < 0 ? rm.error : r;
		rm.error = 0;
		r = empty_tree(&rm, dir, name);
		if (r < 0 && r != -ESTALE && r != -ENOENT && r != -ENOTDIR)
			return r;
		if (rm.error) {
			r = remove_plainly(dir, name);
			return r < 0 ? rm.error : r;
		}
	}
}

/* Is the object the current directory, or does it contain that? */
static int holds_cwd(const struct serve_id *id)
{
	struct serve_id last = { 0, 0, 0 }, now;
	long fd = raw_syscall(__NR_openat, AT_FDCWD, RAW_ARG("."), O_PATH | O_CLOEXEC, 0, 0, 0);
	int found = 0;

	for (int i = 0; fd >= 0 && !found && i < PARENTS_MAX; i++) {
		struct statx st;
		long up;

		if (serve_statx(fd, "", AT_EMPTY_PATH, &st) < 0)
			break;
		now = serve_id_of(&st);
		found = serve_is_same(&now, id);
		if (serve_is_same(&now, &last)) /* above / is / */
			break;
		last = now;
		up = raw_syscall(__NR_openat, fd, RAW_ARG(".."), O_PATH | O_CLOEXEC, 0, 0, 0);
		close_fd(fd);
		fd = up;
	}
	close_fd(fd);
	return found;
}

/* Cuts the path before its last name, which it returns. */
static char *split(char *path)
{
	size_t n = str_len(path);

	while (n > 0 && path[n - 1] != '/')
		n--;
	if (n > 0)
		path[n - 1] = 0;
	return path + n;
}

long serve_remove(struct server *s)
{
	static const char root[] = "/", here[] = ".";
	size_t len = str_len(s->path);
	int is_absolute = s->path[0] == '/';
	struct serve_id id;
	struct statx st;
	const char *name, *parent;
	long dir, r;

	while (len > 0 && s->path[len - 1] == '/')
		s->path[--len] = 0;
	if (len == 0)
		return is_absolute ? -EBUSY : -ENOENT;
	r = serve_statx(AT_FDCWD, s->path, AT_SYMLINK_NOFOLLOW, &st);
	if (r < 0)
		return r;
	id = serve_id_of(&st);
	if (S_ISDIR(st.stx_mode) && holds_cwd(&id))
		return -EBUSY;
	name = split(s->path);
	if (is_dot(name))
		return -EINVAL;
	parent = s->path;
	if (name == s->path)
		parent = here;
	else if (!*parent)
		parent = root;
	dir = raw_syscall(__NR_openat, AT_FDCWD, RAW_ARG(parent), O_PATH | O_DIRECTORY | O_CLOEXEC,
			  0, 0, 0);
	if (dir < 0)
		return dir;
	r = s->request.flags & CORDON_FILES_RECURSIVE ? remove_tree(s, dir, name)
						      : remove_plainly(dir, name);
	close_fd(dir);
	return r;
}

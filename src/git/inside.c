/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. A name that is made, moved or changed gets a new ctime, which cannot be set;
 * so do the directories that gain or lose it. But what lies deeper in a directory that was moved
 * here keeps its old one. So an entry counts as old only in a directory that is *known*: one that
 * was noted before the run, or an old one in a known one.
 *
 * In an old known directory no name has changed. Only its directories are entered, and the few
 * files whose content matters are looked at. Of loose objects, of which there may be a million,
 * only the kind is looked at, where their directory has changed: git never writes into one, and
 * what it reads must have the right hash, but it waits for a pipe.
 */
#include "git/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "git/allowed.h"
#include "git/put_aside.h"
#include "git/read.h"

#define DEPTH_MAX 64	    /* directories inside each other; deeper ones are found as a whole */
#define ENTRIES_MAX 4000000 /* names looked at in one repository */
#define TOP_MAX 10000	    /* names at the top, before the run */
#define PLACEHOLDER_MAX 2   /* bytes */

struct git_inside_name {
	const char *path;
	ino_t ino; /* at the top: the directory entry's, which needs no look at the object */
	bool is_dir;
	struct timespec changed; /* only if it was asked for */
};

struct search {
	const struct git_inside_search *s;
	unsigned long entries;
	char path[PATH_MAX]; /* of the entry being looked at, relative to the repository */
};

/* A directory being read. */
struct dir {
	DIR *stream;
	struct git_place place;
	bool is_known, is_old, is_objects;
	size_t path_len; /* of its path, with the slash */
	int depth;
};

/* Mounts hold these where they exist. Elsewhere they must not come into being. */
static const char *const held[] = { "hooks",	 "config",  "config.worktree",
				    "commondir", "modules", "worktrees" };

/* Where git works below the top, and the user may have something that is not allowed. */
static const char *const deep[] = { "logs/refs", "objects/info" };

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct git_inside_name *)a)->path,
		      ((const struct git_inside_name *)b)->path);
}

/* NULL and errno. */
static DIR *open_stream(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !stream) {
		close(fd);
		errno = ENOMEM;
	}
	return stream;
}

/* --- before the run --- */

static int note(struct arena *arena, const char *path, ino_t ino, bool is_dir,
		struct git_inside *in)
{
	struct git_inside_name *name;

	if (in->n >= TOP_MAX)
		return -E2BIG;
	name = arena_add(arena, &in->v, &in->n, &in->cap, sizeof(*name));
	if (!name)
		return -ENOMEM;
	name->path = arena_strdup(arena, path);
	name->ino = ino;
	name->is_dir = is_dir;
	return name->path ? 0 : -ENOMEM;
}

static int note_top(struct arena *arena, DIR *stream, bool with_times, struct git_inside *in)
{
	struct stat st = { .st_ino = 0 };
	struct dirent *entry;
	int r = 0;

	while (r == 0 && (errno = 0, entry = readdir(stream)) != NULL) {
		bool is_dir = entry->d_type == DT_DIR;

		if (is_dots(entry->d_name))
			continue;
		if ((with_times || entry->d_type == DT_UNKNOWN) &&
		    fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			is_dir = S_ISDIR(st.st_mode);
		r = note(arena, entry->d_name, entry->d_ino, is_dir, in);
		if (r == 0 && with_times)
			in->v[in->n - 1].changed = st.st_ctim;
	}
	return r == 0 && errno ? -errno : r;
}

static int note_deep(struct arena *arena, int git_fd, struct git_inside *in)
{
	struct stat st;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(deep); i++) {
		if (fstatat(git_fd, deep[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = note(arena, deep[i], st.st_ino, S_ISDIR(st.st_mode), in);
		if (r == 0)
			in->v[in->n - 1].changed = st.st_ctim;
	}
	return r;
}

static int note_head(struct arena *arena, int git_fd, struct git_inside *in)
{
	char text[GIT_HEAD_MAX];
	int fd = openat(git_fd, "HEAD", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	if (n <= 0 || n == (ssize_t)sizeof(text))
		return 0; /* what git does not write is not restored */
	in->head = arena_strndup(arena, text, (size_t)n);
	in->head_len = (size_t)n;
	return in->head ? 0 : -ENOMEM;
}

int git_inside_note(struct arena *arena, int git_fd, bool with_times, struct git_inside *ret)
{
	struct git_inside in = { .n = 0 };
	DIR *stream = open_stream(git_fd, ".");
	int r;

	if (!stream)
		return -errno;
	r = note_top(arena, stream, with_times, &in);
	closedir(stream);
	if (r == 0)
		r = note_deep(arena, git_fd, &in);
	if (r == 0)
		r = note_head(arena, git_fd, &in);
	if (r == 0 && in.n)
		qsort(in.v, in.n, sizeof(*in.v), compare_names);
	if (r == 0)
		*ret = in;
	return r;
}

/* --- after it --- */

/* What was noted at the current path. */
static const struct git_inside_name *noted(const struct search *s)
{
	const struct git_inside *before = s->s->before;
	const struct git_inside_name key = { .path = s->path };

	return before->n ? bsearch(&key, before->v, before->n, sizeof(key), compare_names) : NULL;
}

static bool is_old(const struct search *s, const struct stat *st)
{
	return is_before(&st->st_ctim, &s->s->since);
}

/* Is it the directory that was noted, as far as that can be believed? */
static bool is_same_dir(const struct search *s, const struct git_inside_name *before, ino_t ino)
{
	return before && before->is_dir && before->ino == ino &&
	       !(s->s->is_shared && !is_before(&before->changed, &s->s->since));
}

static int find(const struct search *s, const struct dir *d, const char *name, mode_t mode)
{
	return s->s->found(s->s->ctx, dirfd(d->stream), name, s->path, mode);
}

/* 1 = the content is what the name says, 0 = it is not. */
static int is_sound(const struct dir *d, const char *name, enum git_allowed what)
{
	size_t len;
	char *text;
	int r = git_read_file(dirfd(d->stream), name, GIT_CHECKED_MAX, &text, &len);

	if (r < 0)
		return git_is_answer(r) || r == -EFBIG ? 0 : r;
	r = git_content_is_sound(what, name, text, len);
	free(text);
	return r;
}

/* An entry that is no directory, and new or changed. */
static int judge(const struct search *s, const struct dir *d, const char *name, mode_t mode)
{
	enum git_allowed what = git_allowed_in(d->place, name, mode);
	int r = what == GIT_ALLOWED_YES;

	if (what != GIT_ALLOWED_YES && what != GIT_ALLOWED_NO)
		r = is_sound(d, name, what);
	return r == 0 ? find(s, d, name, mode) : r < 0 ? r : 0;
}

static int search_dir(struct search *s, const struct dir *d);

static int enter(struct search *s, const struct dir *d, const char *name, const struct stat *st,
		 bool is_known)
{
	size_t len = d->path_len + strlen(name);
	bool is_top = d->depth == 0;
	struct dir child = {
		.place = git_place_enter(d->place, name),
		.is_known = is_known,
		.is_old = is_known && is_old(s, st),
		.is_objects = d->is_objects || (is_top && strcmp(name, "objects") == 0),
		.path_len = len + 1,
		.depth = d->depth + 1,
	};
	int r;

	if (child.depth > DEPTH_MAX || child.path_len + NAME_MAX >= sizeof(s->path))
		return find(s, d, name, st->st_mode);
	child.stream = open_stream(dirfd(d->stream), name);
	/* What is closed to us is so to git; if it was before, then also to the command. */
	if (!child.stream && errno == EACCES)
		return child.is_old ? 0 : find(s, d, name, st->st_mode);
	if (!child.stream)
		return -errno;
	s->path[len] = '/';
	r = search_dir(s, &child);
	s->path[len] = '\0';
	closedir(child.stream);
	return r;
}

/* What need not be looked at any closer. */
static bool is_settled(const struct dir *d, const char *name, unsigned char type)
{
	if (type == DT_DIR)
		return false;
	/* Whatever such a file contains; there may be many. */
	if (type == DT_REG)
		return (d->is_old || d->is_objects) &&
		       git_allowed_in(d->place, name, S_IFREG | 0600) == GIT_ALLOWED_YES;
	return d->is_old && type != DT_UNKNOWN;
}

/* Below the top. @type: from the directory's entry. */
static int look_at(struct search *s, const struct dir *d, const char *name, unsigned char type)
{
	bool is_known;
	struct stat st;

	if (is_settled(d, name, type))
		return 0;
	if (fstatat(dirfd(d->stream), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	is_known = d->is_known && is_old(s, &st);
	if (!S_ISDIR(st.st_mode))
		return is_known ? 0 : judge(s, d, name, st.st_mode);
	/* Nothing came to these loose objects, and each has the hash that it is called by or is
	 * none. */
	if (is_known && d->is_objects && d->depth == 1 && strlen(name) == 2)
		return 0;
	is_known = is_known || is_same_dir(s, noted(s), st.st_ino);
	if (!is_known && git_allowed_in(d->place, name, st.st_mode) == GIT_ALLOWED_NO)
		return find(s, d, name, st.st_mode);
	return enter(s, d, name, &st, is_known);
}

/* The placeholder of another run, or something else that says no more than it does. */
static bool says_nothing(const struct dir *d, const char *name, const struct stat *st)
{
	size_t len = 0;
	char *text;
	bool ret;

	if (S_ISSOCK(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0))
		return true;
	if (strcmp(name, "commondir") != 0 ||
	    git_read_file(dirfd(d->stream), name, PLACEHOLDER_MAX, &text, &len) < 0)
		return false;
	ret = len == 2 && memcmp(text, ".\n", 2) == 0;
	free(text);
	return ret;
}

static bool is_held(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		if (strcmp(name, held[i]) == 0)
			return true;
	return false;
}

static int look_at_top(struct search *s, const struct dir *d, const char *name, ino_t ino)
{
	const struct git_inside_name *before = noted(s);
	bool is_same;
	struct stat st;

	if (git_is_aside(name) || (before && is_held(name)))
		return 0;
	if (fstatat(dirfd(d->stream), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (is_held(name))
		return says_nothing(d, name, &st) ? 0 : find(s, d, name, st.st_mode);
	if (!S_ISDIR(st.st_mode))
		return is_old(s, &st) ? 0 : judge(s, d, name, st.st_mode);
	is_same = is_same_dir(s, before, ino);
	if (git_allowed_in(d->place, name, st.st_mode) != GIT_ALLOWED_NO)
		return enter(s, d, name, &st, is_same);
	if (!is_same)
		return find(s, d, name, st.st_mode);
	/* A directory that git does not know, of another tool of the user's. */
	return strcmp(name, "remotes") == 0 || strcmp(name, "svn") == 0
		       ? enter(s, d, name, &st, true)
		       : 0;
}

static int search_dir(struct search *s, const struct dir *d)
{
	struct dirent *entry;
	int r = 0;

	while (r == 0 && (errno = 0, entry = readdir(d->stream)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (is_dots(entry->d_name))
			continue;
		if (++s->entries > ENTRIES_MAX)
			return -E2BIG;
		memcpy(s->path + d->path_len, entry->d_name, len + 1);
		r = d->depth == 0 ? look_at_top(s, d, entry->d_name, entry->d_ino)
				  : look_at(s, d, entry->d_name, entry->d_type);
	}
	return r == 0 && errno ? -errno : r;
}

int git_inside_search(const struct git_inside_search *search, int git_fd)
{
	struct search s = { .s = search };
	struct dir top = { .stream = open_stream(git_fd, "."), .is_known = true };
	int r;

	if (!top.stream)
		return -errno;
	r = search_dir(&s, &top);
	closedir(top.stream);
	return r;
}

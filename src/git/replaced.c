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

#define DEPTH_MAX (PATH_MAX / 2 + 1)
#define IGNORES_MAX 64 /* .gitignore files, one in the directory of the other */

/* A tracked directory on the way to the current one. */
struct step {
	size_t len;	  /* of its path */
	long dirs;	  /* how many directories it has, -1 = unknown */
	long tracked;	  /* how many of them the index knows of and are there */
	bool is_old;	  /* nothing has changed in it */
	bool is_in_reach; /* and is there */
};

struct search {
	const struct git_replaced *find;
	const char **repos; /* directories with a `.git`, in those that have changed */
	size_t n, cap;
	/* Of the index, sorted as soon as they are needed. */
	const char **dirs, **links;
	struct git_ignore exclude; /* .git/info/exclude */
	struct step *way;	   /* DEPTH_MAX */
	size_t depth;
	bool has_seen_top;
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

static int sort_dirs(struct search *s)
{
	const struct git_entries *e = s->find->entries;

	if (s->dirs || s->links)
		return 0;
	s->dirs = arena_alloc(s->find->arena, (e->n_dirs + 1) * sizeof(*s->dirs));
	s->links = arena_alloc(s->find->arena, (e->n + 1) * sizeof(*s->links));
	if (!s->dirs || !s->links)
		return -ENOMEM;
	for (size_t i = 0; i < e->n_dirs; i++)
		s->dirs[i] = e->dirs[i];
	for (size_t i = 0; i < e->n; i++)
		s->links[i] = e->v[i].path;
	qsort(s->dirs, e->n_dirs, sizeof(*s->dirs), compare);
	qsort(s->links, e->n, sizeof(*s->links), compare);
	return 0;
}

/* Has the index anything in @path, or an entry for it? Then it is looked into by itself. */
static int is_tracked(struct search *s, const char *path)
{
	const struct git_entries *e = s->find->entries;
	size_t len = strlen(path), low = 0, high = e->n_dirs;
	int r = sort_dirs(s);

	if (r < 0)
		return r;
	/* The first that is PATH/ or comes behind it; PATH itself stands further in front. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int c = strncmp(s->dirs[mid], path, len);

		if (c < 0 || (c == 0 && (unsigned char)s->dirs[mid][len] < '/'))
			low = mid + 1;
		else
			high = mid;
	}
	if (low < e->n_dirs && strncmp(s->dirs[low], path, len) == 0 && s->dirs[low][len] == '/')
		return 1;
	return bsearch(&path, s->dirs, e->n_dirs, sizeof(path), compare) != NULL ||
	       bsearch(&path, s->links, e->n, sizeof(path), compare) != NULL;
}

/* A tracked directory that is being listed. */
struct listing {
	struct search *s;
	const char *path;
	bool is_changed;
	/* From the top down to its own, read as soon as they are needed. */
	struct git_ignore ignored[IGNORES_MAX];
	size_t n_ignored;
};

/* Behind the next component of the path. */
static size_t next_part(const char *path, size_t at)
{
	at += at > 0;
	return at + strcspn(path + at, "/");
}

/* May the directory that the first @len bytes of the path are have lost its .gitignore? */
static bool may_have_lost(const struct listing *l, size_t len)
{
	const struct search *s = l->s;
	const char *top = s->find->top;

	/* Placeholders come and go there with every run. */
	if (len == strlen(top) && strncmp(l->path, top, len) == 0)
		return s->find->had_ignored;
	if (!l->path[len])
		return l->is_changed;
	for (size_t i = 0; i < s->depth; i++)
		if (s->way[i].len == len)
			return s->way[i].is_in_reach && !s->way[i].is_old;
	return false;
}

/* The last one is its own, or stands for it. */
static int read_ignored(struct listing *l)
{
	const struct git_replaced *f = l->s->find;
	const struct git_ignore *above = &l->s->exclude;
	char name[PATH_MAX + sizeof("/.gitignore")];
	bool is_last = l->n_ignored > 0;
	int r = 0;

	for (size_t at = 0; r == 0 && !is_last; at = next_part(l->path, at)) {
		struct git_ignore *own = &l->ignored[l->n_ignored++];

		is_last = !l->path[at] || l->n_ignored == IGNORES_MAX;
		*own = (struct git_ignore){ .above = above, .dir_len = at };
		above = own;
		snprintf(name, sizeof(name), "%.*s%s.gitignore", (int)at, l->path, at ? "/" : "");
		r = git_ignore_read(f->work_fd, name, &f->since, may_have_lost(l, at), own);
		/* Further down it is not looked for. */
		own->is_blind |= is_last && l->path[at];
	}
	return r;
}

/* A directory in it. */
static int look_at_dir(struct listing *l, int dir_fd, const char *name)
{
	const struct git_replaced *f = l->s->find;
	char path[PATH_MAX];
	struct git_untracked_dir dir = {
		.dir_fd = dir_fd,
		.name = name,
		.path = path,
		/* The top is a mount or has one inside, and stays where it is. */
		.is_new = l->is_changed && strcmp(l->path, f->top) != 0,
	};
	int r = 0, n;

	if (l->is_changed)
		r = git_count_step(f->effort);
	if (r == 0 && l->is_changed && has_repository(dir_fd, name))
		r = add_repo(l->s, l->path, name);
	n = snprintf(path, sizeof(path), "%s%s%s", l->path, *l->path ? "/" : "", name);
	/* Too long for git as well. The repository's own directory is looked at elsewhere. */
	if (r < 0 || n >= (int)sizeof(path) ||
	    (strcmp(name, ".git") == 0 && strcmp(l->path, f->top) == 0))
		return r;
	r = is_tracked(l->s, path);
	if (r != 0)
		return r < 0 ? r : 0;
	r = read_ignored(l);
	if (r < 0)
		return r;
	dir.ignore = &l->ignored[l->n_ignored - 1];
	return git_untracked_walk(f->untracked, &dir);
}

/* Takes @fd over. */
static int list(struct listing *l, int fd)
{
	const struct git_pipes *pipes = l->s->find->untracked->pipes;
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (l->is_changed)
			r = git_pipes_check(pipes, fd, entry->d_name, entry->d_type, l->path,
					    false);
		if (r == 0 && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
			r = look_at_dir(l, fd, entry->d_name);
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

static int open_and_list(struct search *s, const char *path, bool is_changed)
{
	const struct git_replaced *f = s->find;
	struct listing l = { .s = s, .path = path, .is_changed = is_changed };
	int fd = git_open_path(f->work_fd, *path ? path : ".", O_DIRECTORY | O_NOFOLLOW,
			       NEITHER_LINKS_NOR_OUT);
	int r;

	/* What is gone or behind a link is no concern of git's either, nor what was closed before.
	 */
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ||
				       (!is_changed && fd == -EACCES)
			       ? 0
			       : fd;
	r = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0)
		r = -errno;
	close(fd);
	if (r < 0)
		return !is_changed && r == -EACCES ? 0 : r;
	r = list(&l, r);
	while (l.n_ignored > 0)
		git_ignore_done(&l.ignored[--l.n_ignored]);
	return r;
}

/* Lists it, if it has changed. */
static int look_into(struct search *s, const char *path, struct step *ret)
{
	const struct git_replaced *f = s->find;
	const char *name = *path ? path : ".";
	struct stat st;
	int r;

	r = git_count_step(f->effort);
	if (r < 0 || !f->is_in_reach(f->ctx, path))
		return r;
	s->has_seen_top |= strcmp(path, f->top) == 0;
	if (fstatat(f->work_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == EACCES ? check_closed(f, path) : 0;
	if (!S_ISDIR(st.st_mode))
		return 0;
	ret->is_in_reach = true;
	ret->is_old = git_is_later(&f->since, &st.st_ctim);
	ret->dirs = git_count_dirs(&f->untracked->counts, &st);
	return ret->is_old ? 0 : open_and_list(s, path, true);
}

/* All in it has been seen that the index knows of. */
static int leave(struct search *s, const char *path)
{
	const struct step *step = &s->way[--s->depth];
	char dir[PATH_MAX];
	bool is_complete = step->dirs == step->tracked;

	/* In both halves of a split index a directory comes twice; it is stepped into again, but
	 * the top is not. */
	if (s->depth == 0)
		is_complete = false;
	if (!step->is_in_reach || !step->is_old || is_complete || step->len >= sizeof(dir))
		return 0;
	memcpy(dir, path, step->len);
	dir[step->len] = '\0';
	return open_and_list(s, dir, false);
}

/* The directory that the first @len bytes of @path are. */
static int step_into(struct search *s, const char *path, size_t len)
{
	struct step *step = &s->way[s->depth];
	char dir[PATH_MAX];
	int r;

	if (s->depth == DEPTH_MAX || len >= sizeof(dir))
		return -EINVAL; /* no path of an index is so long */
	memcpy(dir, path, len);
	dir[len] = '\0';
	*step = (struct step){ .len = len };
	r = look_into(s, dir, step);
	if (s->depth > 0 && step->is_in_reach)
		s->way[s->depth - 1].tracked++;
	s->depth++;
	return r;
}

/* From @before to @dir, by the directories that they lie in. */
static int go(struct search *s, const char *before, const char *dir)
{
	int r = 0;

	while (r == 0 && s->depth > 1) {
		size_t len = s->way[s->depth - 1].len;

		if (strncmp(before, dir, len) == 0 && (!dir[len] || dir[len] == '/'))
			break;
		r = leave(s, before);
	}
	while (r == 0 && dir[s->way[s->depth - 1].len])
		r = step_into(s, dir, next_part(dir, s->way[s->depth - 1].len));
	return r;
}

static int go_everywhere(struct search *s)
{
	const struct git_entries *e = s->find->entries;
	const char *before = "";
	int r = step_into(s, "", 0);

	for (size_t i = 0; r == 0 && i < e->n_dirs; i++) {
		r = go(s, before, e->dirs[i]);
		before = e->dirs[i];
	}
	while (r == 0 && s->depth > 0)
		r = leave(s, before);
	/* The grant, in which the index has nothing. */
	if (r == 0 && !s->has_seen_top) {
		s->depth = 0;
		r = step_into(s, s->find->top, strlen(s->find->top));
		r = r == 0 ? leave(s, s->find->top) : r;
	}
	return r;
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
	struct search s = { .find = find };
	struct stat st;
	bool may_be_gone;
	int r;

	may_be_gone = fstatat(find->git_fd, "info", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		      !git_is_later(&find->since, &st.st_ctim);
	s.way = arena_alloc(find->arena, DEPTH_MAX * sizeof(*s.way));
	r = s.way ? git_ignore_read(find->git_fd, "info/exclude", &find->since, may_be_gone,
				    &s.exclude)
		  : -ENOMEM;
	if (r == 0)
		r = go_everywhere(&s);
	git_ignore_done(&s.exclude);
	if (r < 0 || s.n == 0)
		return r;
	qsort(s.repos, s.n, sizeof(*s.repos), compare);
	return git_entries_files(find->git_fd, find->reading, check_file, &s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. The entries of an index are collected (entries.c). Those that git would
 * enter are visited with what git would obey there (fingerprint.c), then each one's own index. The
 * first walk, before the run, records each repository it finds; the second compares. What is new or
 * different is found, outermost first, and not looked into any further.
 *
 * Nothing depends on a clock: every change of a file changes its ctime, which cannot be set. The
 * caller waits after the first walk until a change would show (a tick of the kernel's clock at
 * most). Only if other runs were going on meanwhile, what is newer than their start is not believed
 * to have been there before: one of them may have made it, and this one may have brought it back.
 */
#include "git/nested.h"

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

#include "base/arena.h"
#include "base/path.h"
#include "git/entries.h"
#include "git/fingerprint.h"
#include "git/plain.h"
#include "git/read.h"
#include "git/replaced.h"

#define NESTED_MAX 10000 /* repositories inside one */
#define DEPTH_MAX 32
#define SPARSE_DEPTH_MAX 128 /* directories inside each other */

/* A repository inside the work tree, before the run. */
struct git_nested_seen {
	const char *path;
	const char *files; /* its fingerprint, NULL = unknown */
	size_t files_len, own_len;
	bool is_blind;	/* its own index was not understood */
	bool is_closed; /* it could not even be looked at */
};

struct walk {
	struct arena *arena;
	const struct git_repo *repo;
	struct git_nested *noted;
	const struct git_nested_walk *args;
	struct git_effort effort;
	struct git_reading reading;
	size_t n_nested;
	bool is_untracked; /* inside a repository that no index names */
};

static int compare_seen(const void *a, const void *b)
{
	return strcmp(((const struct git_nested_seen *)a)->path,
		      ((const struct git_nested_seen *)b)->path);
}

static struct git_nested_seen *find_seen(struct walk *w, const char *path)
{
	const struct git_nested_seen key = { .path = path };

	return w->noted->n ? bsearch(&key, w->noted->v, w->noted->n, sizeof(key), compare_seen)
			   : NULL;
}

static int add_seen(struct walk *w, const char *path, const struct git_fingerprint *fp,
		    bool is_blind)
{
	struct git_nested *noted = w->noted;
	struct git_nested_seen *seen;
	char *files;

	if (git_count_kept(&w->reading, 2 * sizeof(*seen) + (fp ? fp->files.len : 0)) < 0)
		return -E2BIG;
	seen = arena_add(w->arena, &noted->v, &noted->n, &noted->cap, sizeof(*seen));
	files = fp ? arena_alloc(w->arena, fp->files.len + 1) : NULL;
	if (!seen || (fp && !files))
		return -ENOMEM;
	*seen = (struct git_nested_seen){ .path = path, .files = files, .is_blind = is_blind };
	if (fp) {
		memcpy(files, fp->files.data, fp->files.len);
		seen->files_len = fp->files.len;
		seen->own_len = fp->own_len;
	}
	return 0;
}

/* The repository of a submodule, where the command cannot write. */
static bool is_safe_module(const struct walk *w, int git_fd)
{
	static const char modules[] = "/modules/";
	char top[PATH_MAX], path[PATH_MAX];
	size_t len;

	if (!w->repo->has_safe_modules || git_path_of(w->repo->git_fd, top) < 0 ||
	    git_path_of(git_fd, path) < 0)
		return false;
	len = strlen(top);
	return strncmp(path, top, len) == 0 &&
	       strncmp(path + len, modules, sizeof(modules) - 1) == 0 &&
	       path[len + sizeof(modules) - 1] != '\0';
}

/* Is the fingerprint what it was, from @from and @seen_from on? */
static bool is_equal(const struct git_nested_seen *seen, size_t seen_from,
		     const struct git_fingerprint *fp, size_t from)
{
	size_t len = fp->files.len - from;

	return seen && seen->files && seen->files_len - seen_from == len &&
	       (len == 0 || memcmp(seen->files + seen_from, fp->files.data + from, len) == 0);
}

/* May git go on entering it? Of a safe module only what its config names elsewhere can change. */
static bool is_trusted(const struct walk *w, const struct git_nested_seen *seen,
		       const struct git_fingerprint *fp)
{
	if (is_equal(seen, 0, fp, 0))
		return true;
	return is_safe_module(w, fp->git_fd) &&
	       (fp->own_len == fp->files.len ||
		(seen && is_equal(seen, seen->own_len, fp, fp->own_len)));
}

static int visit_all(struct walk *w, const struct git_entries *entries, int git_fd, int work_fd,
		     const char *prefix, int depth);

/* The entries of a repository inside. */
static int descend(struct walk *w, int git_fd, int dir_fd, const char *full, int depth)
{
	struct git_entries entries;
	const char *prefix = arena_printf(w->arena, "%s/", full);
	int r = depth >= DEPTH_MAX ? -ELOOP
				   : git_entries_collect(w->arena, git_fd, &w->reading, &entries);

	if (!prefix)
		return -ENOMEM;
	return r < 0 ? r : visit_all(w, &entries, git_fd, dir_fd, prefix, depth + 1);
}

static bool can_be_written(const struct walk *w, const char *full)
{
	return !w->repo->below || path_is_within(w->repo->below, full);
}

/* When the directories on the way to it were last changed, which shows that one was moved. */
static void add_way(const struct walk *w, const char *full, struct timespec *newest)
{
	char path[PATH_MAX];
	struct stat st;

	for (size_t len = 0; full[len]; len++) {
		len += strcspn(full + len, "/");
		if (len >= sizeof(path))
			break;
		memcpy(path, full, len);
		path[len] = '\0';
		if (fstatat(w->repo->work_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    git_is_later(&st.st_ctim, newest))
			*newest = st.st_ctim;
		if (!full[len])
			break;
	}
}

/* Can it be told from what another run may have made? */
static bool is_older(const struct walk *w, const char *full, struct timespec newest)
{
	if (!w->args->is_shared)
		return true;
	add_way(w, full, &newest);
	return git_is_later(&w->args->since, &newest);
}

/* First walk. */
static int note_nested(struct walk *w, int dir_fd, const char *full, int depth)
{
	struct git_fingerprint fp = GIT_FINGERPRINT_INIT;
	int r = git_fingerprint_take(dir_fd, w->repo->home, &fp, &w->effort);

	if (r == 0 || r == -ENOMEM)
		return r;
	if (r < 0)
		return w->args->is_shared ? 0 : add_seen(w, full, NULL, true);
	r = descend(w, fp.git_fd, dir_fd, full, depth);
	if (r != -ENOMEM)
		r = is_older(w, full, fp.newest) ? add_seen(w, full, &fp, r < 0) : 0;
	git_fingerprint_done(&fp);
	return r;
}

/* Second walk. */
static int check_nested(struct walk *w, int dir_fd, const char *full, int depth)
{
	struct git_fingerprint fp = GIT_FINGERPRINT_INIT;
	const struct git_nested_seen *seen = find_seen(w, full);
	int r = git_fingerprint_take(dir_fd, w->repo->home, &fp, &w->effort);
	bool is_same;

	if (r == 0)
		return 0;
	if (r < 0)
		is_same = seen && !seen->files;
	else
		is_same = is_trusted(w, seen, &fp);
	if (r > 0 && is_same) {
		r = descend(w, fp.git_fd, dir_fd, full, depth);
		is_same = r == 0 || (seen && seen->is_blind);
	}
	git_fingerprint_done(&fp);
	if (is_same || !can_be_written(w, full))
		return 0;
	return w->args->found(w->args->ctx, dir_fd, full);
}

/* An index of another sort than git's: whose is it? */
static bool has_new_index(const struct walk *w, int git_fd)
{
	struct stat st;

	return fstatat(git_fd, "index", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	       !git_is_later(&w->args->since, &st.st_ctim);
}

/* What the index of a repository names that was there before, and no index names. */
static int descend_untracked(struct walk *w, int git_fd, int dir_fd, const char *full, int depth)
{
	bool was_untracked = w->is_untracked;
	int r;

	w->is_untracked = true;
	r = descend(w, git_fd, dir_fd, full, depth);
	w->is_untracked = was_untracked;
	if (r == 0 || r == -ENOMEM || r == -E2BIG)
		return r < 0 ? r : 1;
	return has_new_index(w, git_fd) ? w->args->found(w->args->ctx, dir_fd, full) : 1;
}

/*
 * Second walk: a repository that is merely there. It may stay if it is a plain one, as clones are.
 * @is_new: all of it may be. As git_untracked's found().
 */
static int check_untracked(struct walk *w, int dir_fd, const char *full, int depth, bool is_new)
{
	const struct git_plain how = {
		.top_fd = w->repo->work_fd,
		.home = w->repo->home,
		.since = w->args->since,
		.is_new = is_new,
	};
	int git_fd, r = git_plain_judge(&how, dir_fd, &git_fd);

	if (r == GIT_VERDICT_HOSTILE && !(git_fd >= 0 && is_safe_module(w, git_fd)))
		r = w->args->found(w->args->ctx, dir_fd, full);
	else if (r == GIT_VERDICT_PLAIN && git_fd >= 0 && !is_new)
		r = descend_untracked(w, git_fd, dir_fd, full, depth);
	else if (r > 0)
		r = 0;
	if (git_fd >= 0)
		close(git_fd);
	return r;
}

static int visit_nested(struct walk *w, int dir_fd, const char *full, int depth)
{
	if (++w->n_nested > NESTED_MAX)
		return -E2BIG;
	if (w->is_untracked) {
		int r = check_untracked(w, dir_fd, full, depth, false);

		return r > 0 ? 0 : r;
	}
	return w->args->found ? check_nested(w, dir_fd, full, depth)
			      : note_nested(w, dir_fd, full, depth);
}

static int visit_sparse(struct walk *w, int dir_fd, const char *full, int depth);

static int visit_sparse_child(struct walk *w, int dir_fd, const char *name, const char *full,
			      int depth)
{
	const char *path = arena_printf(w->arena, "%s/%s", full, name);
	int fd, r;

	if (!path)
		return -ENOMEM;
	if (git_count_kept(&w->reading, strlen(path)) < 0)
		return -E2BIG;
	fd = git_open_path(dir_fd, name, O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	r = visit_sparse(w, fd, path, depth + 1);
	close(fd);
	return r;
}

/*
 * A directory of a sparse index: as soon as it is there, git lists what it contains from a tree,
 * which is not read here. Every repository in it counts as one that the index names.
 */
static int visit_sparse(struct walk *w, int dir_fd, const char *full, int depth)
{
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int fd, r = 0;

	if (fstatat(dir_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0)
		return visit_nested(w, dir_fd, full, depth);
	if (depth >= SPARSE_DEPTH_MAX)
		return -ELOOP;
	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (git_count_step(&w->effort) < 0)
			r = -E2BIG;
		else if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
			 strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = visit_sparse_child(w, dir_fd, entry->d_name, full, depth);
	}
	closedir(dir);
	return r;
}

static int open_entry(const struct git_entry *entry, int work_fd)
{
	int fd = git_open_path(work_fd, entry->path, O_DIRECTORY | O_NOFOLLOW,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	return fd == -ENOTDIR || fd == -ELOOP || fd == -ENAMETOOLONG ? -ENOENT : fd;
}

/* What is closed to us is closed to git. It stays so if it was before. */
static int visit_closed(struct walk *w, const char *full)
{
	const struct git_nested_seen *seen;
	int r;

	if (w->args->found) {
		seen = find_seen(w, full);
		return seen && seen->is_closed ? 0 : -EACCES;
	}
	r = add_seen(w, full, NULL, true);
	if (r == 0)
		w->noted->v[w->noted->n - 1].is_closed = true;
	return r;
}

static int visit(struct walk *w, const struct git_entry *entry, int work_fd, const char *prefix,
		 int depth)
{
	const char *full = arena_printf(w->arena, "%s%s", prefix, entry->path);
	int fd, r;

	if (!full)
		return -ENOMEM;
	if (git_count_step(&w->effort) < 0 || git_count_kept(&w->reading, strlen(full)) < 0)
		return -E2BIG;
	if (!can_be_written(w, full) && !path_is_within(full, w->repo->below))
		return 0;
	fd = open_entry(entry, work_fd);
	if (fd == -ENOENT)
		return 0;
	if (fd == -EACCES)
		return visit_closed(w, full);
	if (fd < 0)
		return fd;
	r = entry->is_sparse ? visit_sparse(w, fd, full, depth) : visit_nested(w, fd, full, depth);
	close(fd);
	return r == -EACCES ? visit_closed(w, full) : r;
}

/* A repository whose files are looked at. */
struct repo_files {
	struct walk *walk;
	const char *prefix; /* of its work tree */
	int depth;
};

static bool is_in_reach(void *ctx, const char *dir)
{
	const struct repo_files *files = ctx;
	char full[PATH_MAX];
	int n;

	if (!files->walk->repo->below)
		return true;
	n = snprintf(full, sizeof(full), "%s%s", files->prefix, dir);
	/* The prefix ends in a slash. */
	if (n > 0 && n < (int)sizeof(full) && full[n - 1] == '/')
		full[n - 1] = '\0';
	return n >= (int)sizeof(full) || can_be_written(files->walk, full);
}

static int found_replaced(void *ctx, int dir_fd, const char *path)
{
	const struct repo_files *files = ctx;
	const char *full = arena_printf(files->walk->arena, "%s%s", files->prefix, path);

	return full ? visit_nested(files->walk, dir_fd, full, files->depth) : -ENOMEM;
}

static int found_untracked(void *ctx, int dir_fd, const char *path, bool is_new)
{
	const struct repo_files *files = ctx;
	char full[PATH_MAX];
	int n = snprintf(full, sizeof(full), "%s%s", files->prefix, path);

	/* What is too long is so for git as well. */
	if (n >= (int)sizeof(full) || !can_be_written(files->walk, full))
		return 0;
	return check_untracked(files->walk, dir_fd, full, files->depth, is_new);
}

static int found_pipe(void *ctx, int dir_fd, const char *name, const char *path)
{
	const struct repo_files *files = ctx;
	const struct walk *w = files->walk;
	const char *full = arena_printf(w->arena, "%s%s", files->prefix, path);

	return full ? w->args->found_pipe(w->args->ctx, dir_fd, name, full) : -ENOMEM;
}

static int visit_files(struct walk *w, const struct git_entries *entries, int git_fd, int work_fd,
		       const char *prefix, int depth)
{
	struct repo_files files = { .walk = w, .prefix = prefix, .depth = depth };
	int r;
	struct git_pipes pipes = { .since = w->args->since, .found = found_pipe, .ctx = &files };
	struct git_untracked untracked = {
		.since = w->args->since,
		.pipes = &pipes,
		.found = found_untracked,
		.ctx = &files,
	};
	const struct git_replaced find = {
		.git_fd = git_fd,
		.work_fd = work_fd,
		.entries = entries,
		.top = depth == 0 && w->repo->below ? w->repo->below : "",
		.had_ignored = depth > 0 || w->noted->has_ignored,
		.since = w->args->since,
		.untracked = &untracked,
		.arena = w->arena,
		.effort = &w->effort,
		.reading = &w->reading,
		.is_in_reach = is_in_reach,
		.found = found_replaced,
		.ctx = &files,
	};

	git_counts_init(&untracked.counts, work_fd);
	r = git_replaced_find(&find);
	w->noted->has_failed |= untracked.has_failed;
	return r;
}

static int visit_all(struct walk *w, const struct git_entries *entries, int git_fd, int work_fd,
		     const char *prefix, int depth)
{
	int r = 0, e;

	for (size_t i = 0; i < entries->n; i++) {
		e = visit(w, &entries->v[i], work_fd, prefix, depth);

		if (e == -E2BIG || e == -ENOMEM)
			return e;
		r = r < 0 ? r : e;
	}
	/* Before the run they are what they are. */
	e = w->args->found ? visit_files(w, entries, git_fd, work_fd, prefix, depth) : 0;
	return r < 0 ? r : e;
}

static bool has_ignored(const struct git_repo *repo)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s.gitignore", repo->below ? repo->below : "",
			 repo->below ? "/" : "");

	return n >= (int)sizeof(path) ||
	       fstatat(repo->work_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int git_nested_note(const struct git_nested_walk *args, struct arena *arena,
		    const struct git_repo *repo, struct git_nested *ret, struct timespec *newest)
{
	struct walk w = { .arena = arena, .repo = repo, .noted = ret, .args = args };
	int r = git_entries_collect(arena, repo->git_fd, &w.reading, &ret->entries);

	ret->has_ignored = args->is_shared || has_ignored(repo);
	w.effort.newest = ret->entries.index.st_ctim;
	if (r == 0)
		r = visit_all(&w, &ret->entries, repo->git_fd, repo->work_fd, "", 0);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), compare_seen);
	if (git_is_later(&w.effort.newest, newest))
		*newest = w.effort.newest;
	return r;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int git_nested_check(const struct git_nested_walk *args, struct arena *arena,
		     const struct git_repo *repo, struct git_nested *noted)
{
	struct walk w = { .arena = arena, .repo = repo, .noted = noted, .args = args };
	struct git_entries entries;
	struct stat st;
	int r = 0;

	/* Mostly the index has not changed and need not be read again. */
	if (!noted->entries.is_split && fstatat(repo->git_fd, "index", &st, 0) == 0 &&
	    is_same_file(&st, &noted->entries.index))
		entries = noted->entries;
	else
		r = git_entries_collect(arena, repo->git_fd, &w.reading, &entries);
	return r == 0 ? visit_all(&w, &entries, repo->git_fd, repo->work_fd, "", 0) : r;
}

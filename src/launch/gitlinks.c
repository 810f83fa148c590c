/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. The entries of an index are collected (gitindex.c), those that git would
 * enter are visited with what git would obey there (gitdir.c), and each one's own index after it.
 * The first walk, before the run, writes down each repository it finds; the second compares. What
 * is new or different is renamed, outermost first, and not looked into any further.
 *
 * Nothing depends on a clock: whatever changes a file also changes its ctime, which cannot be set.
 * The first walk waits until a change would show (a tick of the kernel's clock at most).
 *
 * If the second walk cannot tell what git would enter although the first one could, the index is
 * not one that git wrote, and is itself renamed.
 */
#include "launch/gitlinks.h"

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

#include "base/err.h"
#include "base/path.h"
#include "git/index.h"
#include "git/links.h"
#include "git/put_aside.h"
#include "launch/launch.h"

#define INDEX_MAX ((size_t)256 << 20)
#define INDEXES_MAX ((size_t)512 << 20) /* of one walk */
#define DEPTH_MAX 32
#define TICKS_MAX 20

/* Entries of an index that matter. */
struct entries {
	struct entry {
		const char *path;
		bool is_sparse; /* a whole directory whose entries are not listed */
	} *v;
	size_t n, cap;
	struct stat index; /* of which file */
	bool is_split;
};

/* A repository inside the work tree, before the run. */
struct seen {
	const char *path;
	const void *files; /* what it obeyed, NULL = unknown */
	size_t files_len;
	bool is_blind; /* its own index was not understood */
};

struct noted {
	struct entries entries;
	struct seen *v; /* sorted by path */
	size_t n, cap;
	bool is_blind;
};

struct gitlinks {
	struct arena arena;
	struct noted *repos; /* as in the plan */
};

struct walk {
	struct arena *arena;
	const struct plan_repo *repo;
	struct noted *noted;
	struct cordon_run *run; /* the second walk */
	struct git_effort effort;
	struct gitlinks *links;
	size_t bytes, n_links;
};

struct collector {
	struct arena *arena;
	struct entries *entries;
	bool wants_all, has_unnamed;
};

static void *grow(struct arena *arena, void *v, size_t n, size_t *cap, size_t size)
{
	size_t want = *cap ? *cap * 2 : 16;
	void *bigger;

	if (n < *cap)
		return v;
	bigger = arena_alloc(arena, want * size);
	if (!bigger)
		return NULL;
	if (n)
		memcpy(bigger, v, n * size);
	*cap = want;
	return bigger;
}

static int collect(void *ctx, uint32_t mode, const char *path, size_t len)
{
	struct collector *c = ctx;
	struct entries *e = c->entries;
	bool is_link = (mode & GIT_INDEX_TYPE) == GIT_INDEX_LINK;
	bool is_sparse = (mode & GIT_INDEX_TYPE) == GIT_INDEX_SPARSE_DIR;
	struct entry *v;

	if (len == 0) {
		c->has_unnamed |= is_link || is_sparse;
		return 0;
	}
	if (!is_link && !is_sparse && !c->wants_all)
		return 0;
	if (is_sparse && path[len - 1] == '/')
		len--;
	/* Git uses such a path as it stands, and writes none. */
	if (!git_index_path_is_clean(path, len))
		return is_link || is_sparse ? -EINVAL : 0;
	v = grow(c->arena, e->v, e->n, &e->cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	e->v = v;
	v[e->n].path = arena_strndup(c->arena, path, len);
	v[e->n].is_sparse = is_sparse;
	return v[e->n++].path ? 0 : -ENOMEM;
}

static int read_index(struct walk *w, int git_fd, const char *name, char **ret, size_t *ret_len)
{
	int r = git_read_file(git_fd, name, INDEX_MAX, ret, ret_len);

	if (r < 0)
		return r;
	w->bytes += *ret_len;
	if (w->bytes <= INDEXES_MAX)
		return 0;
	free(*ret);
	return -EFBIG;
}

/* Both halves of a split index; which entries of the base are replaced is not looked at. */
static int collect_base(struct walk *w, int git_fd, const struct git_index_info *info,
			unsigned hash_len, struct collector *c)
{
	char name[sizeof("sharedindex.") + 2 * GIT_INDEX_HASH_MAX], *data;
	struct git_index_info unused;
	int at = snprintf(name, sizeof(name), "sharedindex."), r;
	size_t len;

	for (unsigned i = 0; i < hash_len; i++)
		at += snprintf(name + at, sizeof(name) - (size_t)at, "%02x", info->base[i]);
	r = read_index(w, git_fd, name, &data, &len);
	if (r < 0)
		return r == -ENOENT ? -EINVAL : r;
	/* An entry without a name takes one from the base: it could be any. */
	c->wants_all = c->has_unnamed;
	c->entries->is_split = true;
	r = git_index_read(data, len, hash_len, collect, c, &unused);
	free(data);
	return r;
}

/* Which hash a repository uses is said in its config; an index seldom can be read both ways, and
 * if it can, both count. */
static int collect_entries(struct walk *w, int git_fd, struct entries *ret)
{
	static const unsigned hash_lens[] = { 20, 32 };
	struct entries found = { .n = 0 };
	int r, best = -EINVAL;
	size_t len;
	char *data;

	if (fstatat(git_fd, "index", &found.index, 0) < 0)
		memset(&found.index, 0, sizeof(found.index));
	r = read_index(w, git_fd, "index", &data, &len);
	if (r == -ENOENT)
		*ret = found;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < ARRAY_SIZE(hash_lens); i++) {
		struct collector c = { .arena = w->arena, .entries = &found };
		struct git_index_info info;
		size_t n = found.n;

		r = git_index_read(data, len, hash_lens[i], collect, &c, &info);
		if (r == 0 && info.has_base)
			r = collect_base(w, git_fd, &info, hash_lens[i], &c);
		if (r == 0)
			best = 0;
		else
			found.n = n;
	}
	free(data);
	if (best == 0)
		*ret = found;
	return best;
}

static int compare_seen(const void *a, const void *b)
{
	return strcmp(((const struct seen *)a)->path, ((const struct seen *)b)->path);
}

static struct seen *find_seen(struct walk *w, const char *path)
{
	const struct seen key = { .path = path };

	return w->noted->n ? bsearch(&key, w->noted->v, w->noted->n, sizeof(key), compare_seen)
			   : NULL;
}

static int add_seen(struct walk *w, const char *path, const struct git_print *print, bool is_blind)
{
	struct noted *noted = w->noted;
	struct seen *v = grow(w->arena, noted->v, noted->n, &noted->cap, sizeof(*v));
	void *files = print ? arena_alloc(w->arena, print->files.len + 1) : NULL;

	if (!v || (print && !files))
		return -ENOMEM;
	noted->v = v;
	v[noted->n] = (struct seen){ .path = path, .files = files, .is_blind = is_blind };
	if (print) {
		memcpy(files, print->files.data, print->files.len);
		v[noted->n].files_len = print->files.len;
	}
	noted->n++;
	return 0;
}

/* The repository of a submodule, where the command cannot write. */
static bool is_safe_module(const struct walk *w, int git_fd)
{
	char name[32], top[PATH_MAX], path[PATH_MAX];
	static const char modules[] = "/modules/";
	ssize_t n, m;

	if (!w->repo->has_safe_modules)
		return false;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", w->repo->git_fd);
	n = readlink(name, top, sizeof(top));
	snprintf(name, sizeof(name), "/proc/self/fd/%d", git_fd);
	m = readlink(name, path, sizeof(path));
	return n > 0 && m < (ssize_t)sizeof(path) && m > n + (ssize_t)sizeof(modules) - 1 &&
	       memcmp(path, top, (size_t)n) == 0 &&
	       memcmp(path + n, modules, sizeof(modules) - 1) == 0;
}

/* @held: the new name of @path, NULL = it could not be renamed. Out of memory: nothing is said. */
static void add_denial(struct walk *w, const char *what, const char *target, const char *path,
		       const char *held)
{
	struct arena *arena = &w->run->arena;
	const struct cordon_denial denial = {
		.what = what,
		.target = arena_strdup(arena, target),
		.rule = "fs.protect",
		.fix = held ? git_put_aside_undo(arena, held, path) : NULL,
	};

	if (denial.target)
		result_deny(w->run, &denial);
}

/* As the caller would type it. */
static const char *shown(const struct walk *w, const char *dir, const char *path)
{
	const char *cwd = w->run->plan->cwd;

	if (cwd && strcmp(cwd, dir) == 0)
		return path;
	if (cwd && path_is_within(cwd, dir))
		return arena_printf(w->arena, "%s/%s", dir + strlen(cwd) + (cwd[1] != '\0'), path);
	return arena_printf(w->arena, "%s/%s", dir, path);
}

static int hold_link(struct walk *w, int dir_fd, const char *full)
{
	const char *target = shown(w, w->repo->work_dir, full), *path, *held;
	char suffix[32];
	int r = git_put_aside(dir_fd, ".git", suffix, sizeof(suffix));

	path = target ? arena_printf(w->arena, "%s/.git", target) : NULL;
	held = path ? arena_printf(w->arena, "%s%s", path, suffix) : NULL;
	if (held)
		add_denial(w, "nested repository", target, path, r == 0 ? held : NULL);
	return r;
}

static void hold_index(struct walk *w)
{
	const char *path = shown(w, w->repo->git_dir, "index"), *held;
	char suffix[32];
	int r = git_put_aside(w->repo->git_fd, "index", suffix, sizeof(suffix));

	held = path ? arena_printf(w->arena, "%s%s", path, suffix) : NULL;
	if (held && r != -ENOENT)
		add_denial(w, "git index", path, path, r == 0 ? held : NULL);
}

static int visit_all(struct walk *w, const struct entries *entries, int work_fd, const char *prefix,
		     int depth);

/* The entries of a repository inside. */
static int descend(struct walk *w, int git_fd, int dir_fd, const char *full, int depth)
{
	struct entries entries;
	const char *prefix = arena_printf(w->arena, "%s/", full);
	int r = depth >= DEPTH_MAX ? -ELOOP : collect_entries(w, git_fd, &entries);

	if (!prefix)
		return -ENOMEM;
	return r < 0 ? r : visit_all(w, &entries, dir_fd, prefix, depth + 1);
}

static bool can_be_written(const struct walk *w, const char *full)
{
	return !w->repo->below || path_is_within(w->repo->below, full);
}

/* First walk. */
static int note_link(struct walk *w, int dir_fd, const char *full, int depth)
{
	struct git_print print = GIT_PRINT_INIT;
	int r = git_print_take(dir_fd, &print, &w->effort);

	if (r == 0 || r == -ENOMEM)
		return r;
	if (r < 0)
		return add_seen(w, full, NULL, true);
	r = descend(w, print.git_fd, dir_fd, full, depth);
	if (r != -ENOMEM)
		r = add_seen(w, full, &print, r < 0);
	git_print_done(&print);
	return r;
}

/* Second walk. */
static int check_link(struct walk *w, int dir_fd, const char *full, int depth)
{
	struct git_print print = GIT_PRINT_INIT;
	const struct seen *seen = find_seen(w, full);
	int r = git_print_take(dir_fd, &print, &w->effort);
	bool is_same;

	if (r == 0)
		return 0;
	is_same = seen &&
		  (r < 0 ? !seen->files
			 : seen->files && seen->files_len == print.files.len &&
				   memcmp(seen->files, print.files.data, print.files.len) == 0);
	if (r > 0 && (is_same || is_safe_module(w, print.git_fd))) {
		r = descend(w, print.git_fd, dir_fd, full, depth);
		is_same = r == 0 || (seen && seen->is_blind);
	}
	git_print_done(&print);
	return is_same || !can_be_written(w, full) ? 0 : hold_link(w, dir_fd, full);
}

static int visit_link(struct walk *w, int dir_fd, const char *full, int depth)
{
	if (++w->n_links > GITLINKS_MAX)
		return -E2BIG;
	return w->run ? check_link(w, dir_fd, full, depth) : note_link(w, dir_fd, full, depth);
}

static int visit_sparse(struct walk *w, int dir_fd, const char *full, int depth);

static int visit_sparse_child(struct walk *w, int dir_fd, const char *name, const char *full,
			      int depth)
{
	const char *path = arena_printf(w->arena, "%s/%s", full, name);
	int fd, r;

	if (!path)
		return -ENOMEM;
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
		return visit_link(w, dir_fd, full, depth);
	if (depth >= DEPTH_MAX)
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
		if (++w->effort.steps > GITLINKS_STEPS_MAX)
			r = -E2BIG;
		else if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
			 strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = visit_sparse_child(w, dir_fd, entry->d_name, full, depth);
	}
	closedir(dir);
	return r;
}

static int visit(struct walk *w, const struct entry *entry, int work_fd, const char *prefix,
		 int depth)
{
	const char *full = arena_printf(w->arena, "%s%s", prefix, entry->path);
	int fd, r;

	if (!full)
		return -ENOMEM;
	if (++w->effort.steps > GITLINKS_STEPS_MAX)
		return -E2BIG;
	if (!can_be_written(w, full) && !path_is_within(full, w->repo->below))
		return 0;
	fd = git_open_path(work_fd, entry->path, O_DIRECTORY | O_NOFOLLOW,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENAMETOOLONG)
		return 0;
	if (fd < 0)
		return fd;
	r = entry->is_sparse ? visit_sparse(w, fd, full, depth) : visit_link(w, fd, full, depth);
	close(fd);
	return r;
}

static int visit_all(struct walk *w, const struct entries *entries, int work_fd, const char *prefix,
		     int depth)
{
	int r = 0;

	for (size_t i = 0; i < entries->n; i++) {
		int e = visit(w, &entries->v[i], work_fd, prefix, depth);

		if (e == -E2BIG || e == -ENOMEM)
			return e;
		r = r < 0 ? r : e;
	}
	return r;
}

static int note_repo(struct arena *arena, const struct plan_repo *repo, struct noted *noted,
		     struct timespec *newest)
{
	struct walk w = { .arena = arena, .repo = repo, .noted = noted };
	int r = collect_entries(&w, repo->git_fd, &noted->entries);

	w.effort.newest = noted->entries.index.st_ctim;
	if (r == 0)
		r = visit_all(&w, &noted->entries, repo->work_fd, "", 0);
	noted->is_blind = r < 0;
	if (noted->n)
		qsort(noted->v, noted->n, sizeof(*noted->v), compare_seen);
	if (w.effort.newest.tv_sec > newest->tv_sec ||
	    (w.effort.newest.tv_sec == newest->tv_sec && w.effort.newest.tv_nsec > newest->tv_nsec))
		*newest = w.effort.newest;
	return r == -ENOMEM ? r : 0;
}

/* Until a file that is changed from now on gets another time than the newest one seen. */
static void wait_for_tick(const struct timespec *newest)
{
	struct timespec now;

	for (int i = 0; i < TICKS_MAX; i++) {
		if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0 || now.tv_sec > newest->tv_sec ||
		    (now.tv_sec == newest->tv_sec && now.tv_nsec > newest->tv_nsec))
			return;
		usleep(1000);
	}
}

int gitlinks_note(struct cordon_run *run, struct cordon_error *err)
{
	const struct plan *plan = run->plan;
	struct timespec newest = { 0, 0 };
	struct gitlinks *links;
	int r = 0;

	gitlinks_free(TAKE_PTR(run->gitlinks));
	if (plan->n_repos == 0)
		return 0;
	links = calloc(1, sizeof(*links));
	if (links)
		links->repos = arena_alloc(&links->arena, plan->n_repos * sizeof(*links->repos));
	if (!links || !links->repos)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < plan->n_repos; i++)
		r = note_repo(&links->arena, &plan->repos[i], &links->repos[i], &newest);
	if (r < 0) {
		gitlinks_free(links);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	wait_for_tick(&newest);
	run->gitlinks = links;
	return 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void hold_follower(void *ctx, int dir_fd, const char *name, const char *path)
{
	struct walk *w = ctx;
	const char *target = shown(w, w->repo->git_dir, path), *held;
	char suffix[32];
	int r = git_put_aside(dir_fd, name, suffix, sizeof(suffix));

	held = target ? arena_printf(w->arena, "%s%s", target, suffix) : NULL;
	if (held)
		add_denial(w, "link in a repository", target, target, r == 0 ? held : NULL);
}

static void check_repo(struct cordon_run *run, const struct plan_repo *repo, struct noted *noted)
{
	struct walk w = { .arena = &run->gitlinks->arena,
			  .repo = repo,
			  .noted = noted,
			  .run = run,
			  .links = run->gitlinks };
	struct entries entries;
	struct stat st;
	int r = 0;

	if (!repo->below)
		git_links_search(repo->git_fd, &run->started_at, hold_follower, &w);
	/* Mostly it is the index of before, and need not be read again. */
	if (!noted->is_blind && !noted->entries.is_split &&
	    fstatat(repo->git_fd, "index", &st, 0) == 0 && is_same_file(&st, &noted->entries.index))
		entries = noted->entries;
	else
		r = collect_entries(&w, repo->git_fd, &entries);
	if (r == 0)
		r = visit_all(&w, &entries, repo->work_fd, "", 0);
	if (r < 0 && !noted->is_blind && !repo->below)
		hold_index(&w);
}

void gitlinks_check(struct cordon_run *run)
{
	if (!run->gitlinks || !run->plan)
		return;
	for (size_t i = 0; i < run->plan->n_repos; i++)
		check_repo(run, &run->plan->repos[i], &run->gitlinks->repos[i]);
	gitlinks_free(TAKE_PTR(run->gitlinks));
}

void gitlinks_free(struct gitlinks *links)
{
	if (!links)
		return;
	arena_done(&links->arena);
	free(links);
}

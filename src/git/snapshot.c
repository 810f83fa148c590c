/* SPDX-License-Identifier: Apache-2.0 */
#include "git/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "git/fingerprint.h"
#include "git/inside.h"
#include "git/put_aside.h"

#define TICKS_MAX 20
#define FINDINGS_MAX 1000 /* in one repository */
#define SECOND_NS 1000000000LL

struct noted {
	struct git_since since;
	struct git_nested nested;
	struct git_inside inside;
};

struct git_snapshot {
	struct arena arena;
	struct noted *repos; /* one for each that the caller gave */
};

struct check {
	const struct git_repo *repo;
	struct noted *noted;
	void (*found)(void *ctx, const struct git_finding *finding);
	void *ctx;
	unsigned findings;
	int failed; /* -errno of what could not be put aside */
	char about[PATH_MAX];
};

static bool is_bare(const struct git_repo *repo)
{
	return strcmp(repo->git_dir, repo->work_dir) == 0;
}

static int note_repo(struct arena *arena, const struct git_repo *repo,
		     const struct git_since *since, struct noted *noted, struct timespec *newest)
{
	const struct git_nested_walk walk = { .since = since->at, .is_shared = since->is_shared };
	int r;

	noted->since = *since;
	/* Above the grant nothing can be written. */
	r = repo->below ? 0
			: git_inside_note(arena, repo->git_fd, since->is_shared, &noted->inside);
	if (r == 0 && !is_bare(repo))
		r = git_nested_note(&walk, arena, repo, &noted->nested, newest);
	return r;
}

/* Until a file that is changed from now on gets another time than the newest one seen. */
static void wait_for_tick(const struct timespec *newest)
{
	struct timespec now;

	for (int i = 0; i < TICKS_MAX; i++) {
		if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0 || git_is_later(&now, newest))
			return;
		usleep(1000);
	}
}

/* The command has not begun yet. What is changed shortly before is told from what it changes. */
static void begin_now(struct noted *noted, size_t n)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME_COARSE, &now) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (!noted[i].since.is_shared && git_is_later(&now, &noted[i].since.at))
			noted[i].since.at = now;
}

int git_snapshot_take(const struct git_repo *repos, const struct git_since *since, size_t n,
		      struct git_snapshot **ret, size_t *failed)
{
	struct git_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct timespec newest = { 0, 0 };
	int r = 0;

	*failed = 0;
	if (snapshot)
		snapshot->repos = arena_alloc(&snapshot->arena, n * sizeof(*snapshot->repos));
	if (!snapshot || !snapshot->repos)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++) {
		*failed = i;
		r = note_repo(&snapshot->arena, &repos[i], &since[i], &snapshot->repos[i], &newest);
	}
	if (r < 0) {
		git_snapshot_free(snapshot);
		return r;
	}
	wait_for_tick(&newest);
	begin_now(snapshot->repos, n);
	*ret = snapshot;
	return 0;
}

/* @to_fd: where it goes. @dir: the path of that, with a slash. */
static int put_aside(struct check *c, enum git_finding_kind kind, int dir_fd, const char *name,
		     int to_fd, const char *dir, const char *path)
{
	char aside[NAME_MAX + 1], full[PATH_MAX + NAME_MAX + 2];
	const struct git_finding finding = {
		.kind = kind, .repo = c->repo, .path = path, .aside = full
	};
	int r = ++c->findings > FINDINGS_MAX ? -E2BIG : git_put_aside(dir_fd, name, to_fd, aside);

	if (r < 0) {
		c->failed = c->failed ? c->failed : r;
		snprintf(c->about, sizeof(c->about), "%s", path);
		return r;
	}
	snprintf(full, sizeof(full), "%s%s", dir, aside);
	c->found(c->ctx, &finding);
	return 0;
}

static int found_nested(void *ctx, int dir_fd, const char *path)
{
	char dir[PATH_MAX + 1];

	snprintf(dir, sizeof(dir), "%s/", path);
	return put_aside(ctx, GIT_FOUND_NESTED, dir_fd, ".git", dir_fd, dir, path);
}

static int found_pipe(void *ctx, int dir_fd, const char *name, const char *path)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%.*s", (int)(strlen(path) - strlen(name)), path);
	return put_aside(ctx, GIT_FOUND_PIPE, dir_fd, name, dir_fd, dir, path);
}

/* Without a HEAD git would look for a repository further up. */
static int restore_head(struct check *c)
{
	const struct git_inside *inside = &c->noted->inside;
	int fd, r;

	if (!inside->head)
		return 0;
	fd = openat(c->repo->git_fd, "HEAD", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0644);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	r = write_full(fd, inside->head, inside->head_len);
	close(fd);
	return r < 0 ? r : 0;
}

static int found_inside(void *ctx, int dir_fd, const char *name, const char *path, mode_t mode)
{
	struct check *c = ctx;
	int r;
	enum git_finding_kind kind = S_ISLNK(mode)		  ? GIT_FOUND_LINK
				     : strcmp(path, "index") == 0 ? GIT_FOUND_INDEX
								  : GIT_FOUND_FILE;

	/* The grant is the repository itself, and other runs may reserve names in it. */
	if (is_bare(c->repo) && S_ISSOCK(mode))
		return 0;
	/* To the top: below refs/ and logs/ it would be a branch of another name. */
	r = put_aside(c, kind, dir_fd, name, c->repo->git_fd, "", path);

	return r == 0 && strcmp(path, "HEAD") == 0 ? restore_head(c) : r;
}

static int check_inside(struct check *c)
{
	const struct git_inside_search search = {
		.before = &c->noted->inside,
		.since = c->noted->since.at,
		.is_shared = c->noted->since.is_shared,
		.found = found_inside,
		.ctx = c,
	};

	return git_inside_search(&search, c->repo->git_fd);
}

static int check_nested(struct check *c, struct arena *arena)
{
	const struct git_nested_walk walk = {
		.since = c->noted->since.at,
		.is_shared = c->noted->since.is_shared,
		.found = found_nested,
		.found_pipe = found_pipe,
		.ctx = c,
	};
	int r = git_nested_check(&walk, arena, c->repo, &c->noted->nested);

	/* Git did not write that index, or we cannot tell what it would enter. */
	if (r == 0 || c->failed || c->repo->below || c->noted->nested.has_failed)
		return r;
	r = put_aside(c, GIT_FOUND_INDEX, c->repo->git_fd, "index", c->repo->git_fd, "", "index");
	/* Without it everything is untracked, and `git add .` enters what nobody has looked at yet.
	 */
	return r == 0 ? git_nested_check(&walk, arena, c->repo, &c->noted->nested) : r;
}

/* Without `.git`, or HEAD in a repository without a work tree, there is none for git. */
static void put_out_of_reach(struct check *c, int error)
{
	const char *name = is_bare(c->repo) ? "HEAD" : ".git";
	char aside[NAME_MAX + 1];
	int r = git_put_aside(c->repo->work_fd, name, c->repo->work_fd, aside);
	const struct git_finding finding = {
		.kind = GIT_FOUND_REPOSITORY,
		.repo = c->repo,
		.path = name,
		.aside = r == 0 ? aside : NULL,
		.error = error,
		.about = c->about[0] ? c->about : NULL,
	};

	c->found(c->ctx, &finding);
}

static struct timespec earlier(struct timespec at, long long back)
{
	at.tv_sec -= (time_t)(back / SECOND_NS);
	at.tv_nsec -= (long)(back % SECOND_NS);
	if (at.tv_nsec < 0) {
		at.tv_nsec += SECOND_NS;
		at.tv_sec--;
	}
	return at;
}

static void check_repo(struct check *c, struct arena *arena)
{
	const struct git_repo *repo = c->repo;
	struct git_opened work = { .fd = repo->work_fd };
	struct git_opened top = { .fd = repo->git_fd };
	int r = 0;

	/* The command may have closed both. Above the grant it cannot. */
	if (!repo->below) {
		git_open_dir(&work);
		git_open_dir(&top);
		r = check_inside(c);
	}
	if (r == 0 && !is_bare(repo))
		r = check_nested(c, arena);
	git_close_dir(&top);
	git_close_dir(&work);
	if (r < 0)
		put_out_of_reach(c, r);
}

void git_snapshot_check(struct git_snapshot *snapshot, const struct git_repo *repos, size_t n,
			long long back, void (*found)(void *ctx, const struct git_finding *finding),
			void *ctx)
{
	for (size_t i = 0; i < n; i++) {
		struct check c = {
			.repo = &repos[i],
			.noted = &snapshot->repos[i],
			.found = found,
			.ctx = ctx,
		};

		if (back > 0)
			c.noted->since.at = earlier(c.noted->since.at, back);
		check_repo(&c, &snapshot->arena);
	}
}

void git_snapshot_free(struct git_snapshot *snapshot)
{
	if (!snapshot)
		return;
	arena_done(&snapshot->arena);
	free(snapshot);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configs wait in a queue and are read once each. Git resolves a relative include against the
 * directory of the name by which it opened the config, not of the file that a link leads to. So a
 * config is told by its real directory and that name.
 */
#include "git/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "git/read.h"

struct config {
	char *path;
	bool is_repository; /* not the user's and not included: can turn on config.worktree */
};

struct queue {
	const struct git_follow *f;
	const char *git_dir; /* NULL = none */
	const char *common;  /* the directory shared with other work trees, NULL = none */
	struct config v[GIT_FOLLOW_CONFIGS_MAX];
	size_t n, current;
};

static int add_config(struct queue *q, enum git_obeyed what, const char *path, bool is_repository)
{
	char dir[PATH_MAX], real[PATH_MAX];
	size_t len = path_dir_len(path);
	int r = q->f->found(q->f->ctx, what, path);

	if (r != 0)
		return r;
	snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
	if (!realpath(dir, real))
		return git_is_answer(-errno) ? 0 : -errno;
	/* "/" is no config, and one whose path is too long cannot be opened by git either. */
	if (path_normalise(real, path + len + (path[len] == '/'), dir, sizeof(dir)) < 0)
		return 0;
	for (size_t i = 0; i < q->n; i++)
		if (strcmp(q->v[i].path, dir) == 0)
			return 0;
	if (q->n == GIT_FOLLOW_CONFIGS_MAX)
		return -E2BIG;
	q->v[q->n].path = strdup(dir);
	q->v[q->n].is_repository = is_repository;
	return q->v[q->n].path ? (q->n++, 0) : -ENOMEM;
}

static int add_config_in(struct queue *q, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (!dir || path_normalise(dir, name, path, sizeof(path)) < 0)
		return 0;
	return add_config(q, GIT_OBEYED_CONFIG, path, strcmp(name, "config") == 0);
}

static int add_dir(struct queue *q, const char *dir)
{
	int r = q->f->found(q->f->ctx, GIT_OBEYED_DIR, dir);

	return r == 0 ? add_config_in(q, dir, "config") : r;
}

static int add_user_config(void *ctx, const char *path)
{
	return add_config(ctx, GIT_OBEYED_CONFIG, path, false);
}

/* config.worktree counts only if the repository's config says so. */
static int add_worktree_configs(struct queue *q)
{
	int r;

	if (!q->v[q->current].is_repository)
		return 0;
	r = add_config_in(q, q->git_dir, "config.worktree");
	return r == 0 ? add_config_in(q, q->common, "config.worktree") : r;
}

static int say_closed(const struct queue *q, const char *path, int error)
{
	return q->f->closed ? q->f->closed(q->f->ctx, path, error) : 0;
}

/* @dir: what a relative @value is relative to. */
static int follow_path(struct queue *q, enum git_order what, const char *dir, const char *value)
{
	char path[PATH_MAX];
	struct stat st;

	/* Too long for a path: git cannot open it either. */
	if (path_normalise(dir, value, path, sizeof(path)) < 0)
		return 0;
	if (what == GIT_ORDER_INCLUDE)
		return add_config(q, GIT_OBEYED_INCLUDE, path, false);
	if (what == GIT_ORDER_HOOKS)
		return q->f->found(q->f->ctx, GIT_OBEYED_HOOKS, path);
	/* Only a guess that this word is a file: "refs/x" and "https://x" are none. */
	return stat(path, &st) == 0 && S_ISREG(st.st_mode)
		       ? q->f->found(q->f->ctx, GIT_OBEYED_PROGRAM, path)
		       : 0;
}

/* "~/x" and "~name/x". */
static int follow_home(struct queue *q, enum git_order what, const char *value)
{
	const struct git_user *user = q->f->user;
	size_t len = strcspn(value + 1, "/");
	const char *rest = value + 1 + len + strspn(value + 1 + len, "/");
	char home[PATH_MAX];

	if (len == 0)
		snprintf(home, sizeof(home), "%s", user->home ? user->home : "");
	else if (!git_home_of(user->passwd, value + 1, len, home))
		return what == GIT_ORDER_COMMAND ? 0 : say_closed(q, value, -ENOENT);
	return home[0] == '/' ? follow_path(q, what, home, *rest ? rest : ".") : 0;
}

/* "%(prefix)/x": below the directory that git was installed in, which is one of those above the
 * directories of programs. */
static int follow_prefix(struct queue *q, enum git_order what, const char *rest)
{
	const char *path = q->f->user->variable("PATH");
	int r = follow_path(q, what, "/usr", rest);

	while (r == 0 && path && *path) {
		size_t len = strcspn(path, ":");
		char dir[PATH_MAX];

		if (path[0] == '/' && len < sizeof(dir)) {
			snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
			dir[path_dir_len(dir)] = '\0';
			r = follow_path(q, what, *dir ? dir : "/", rest);
		}
		path += len + (path[len] == ':');
	}
	return r;
}

/* The words of a command line that can be paths. Quotes are no part of them; a name with a blank or
 * with something of the shell's in it is not found. */
static int follow_command(struct queue *q, const char *line)
{
	static const char ends[] = " \t\n\"'\\;&|<>()$`=";
	char word[PATH_MAX];
	int r = 0;

	while (r == 0 && *(line += strspn(line, ends))) {
		size_t len = strcspn(line, ends);
		const char *s = line + (line[0] == '!');

		line += len;
		if (s == line || len >= sizeof(word))
			continue;
		snprintf(word, sizeof(word), "%.*s", (int)(line - s), s);
		if (!strchr(word, '/'))
			continue;
		r = q->f->user && word[0] == '~'
			    ? follow_home(q, GIT_ORDER_COMMAND, word)
			    : follow_path(q, GIT_ORDER_COMMAND, q->f->work_dir, word);
	}
	return r;
}

static int follow_order(void *ctx, enum git_order what, const char *value)
{
	static const char prefix[] = "%(prefix)/";
	const size_t prefix_len = sizeof(prefix) - 1;
	struct queue *q = ctx;
	const char *config = q->v[q->current].path;
	char dir[PATH_MAX];

	if (what == GIT_ORDER_WORKTREE)
		return add_worktree_configs(q);
	if (what == GIT_ORDER_COMMAND)
		return follow_command(q, value);
	if (q->f->user && value[0] == '~')
		return follow_home(q, what, value);
	if (q->f->user && strncmp(value, prefix, prefix_len) == 0) {
		value += prefix_len;
		return follow_prefix(q, what, value + strspn(value, "/"));
	}
	if (what != GIT_ORDER_INCLUDE)
		return follow_path(q, what, q->f->work_dir, value);
	snprintf(dir, sizeof(dir), "%.*s", (int)path_dir_len(config), config);
	return follow_path(q, what, dir, value);
}

static int read_config(struct queue *q)
{
	char *text = NULL;
	size_t len;
	int r = git_read_file(AT_FDCWD, q->v[q->current].path, GIT_CONFIG_MAX, &text, &len);

	if (r == -EACCES || r == -EPERM)
		return say_closed(q, q->v[q->current].path, r);
	if (r < 0)
		return git_is_answer(r) ? 0 : r;
	if (q->f->with_dormant)
		r = add_worktree_configs(q);
	if (r == 0)
		r = git_config_orders(text, len, follow_order, q);
	free(text);
	return r;
}

int git_follow(const struct git_follow *f, const char *git_dir)
{
	struct queue q = { .f = f, .git_dir = git_dir };
	char common[PATH_MAX];
	int r = 0;

	if (git_dir) {
		r = git_pointed_dir(git_dir, "commondir", "", common);
		if (r == 1 && strcmp(common, git_dir) != 0)
			q.common = common;
		r = r < 0 ? r : add_dir(&q, git_dir);
	}
	if (r == 0 && q.common)
		r = add_dir(&q, q.common);
	if (r == 0 && f->user)
		r = git_user_configs(f->user, add_user_config, &q);
	for (; r == 0 && q.current < q.n; q.current++)
		r = read_config(&q);
	for (size_t i = 0; i < q.n; i++)
		free(q.v[i].path);
	return r;
}

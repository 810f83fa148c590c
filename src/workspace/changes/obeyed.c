/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git obeys in the base, under whatever name: the configs of the user and of the repository
 * that the base is or lies in, as they are now, and what they name and include (git/follow.h). The
 * same for repositories further down: submodules, and those that the walk comes through.
 * Each is kept as a name in a directory; where it does not exist, as the first name that is missing
 * on the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "git/entries.h"
#include "git/follow.h"
#include "git/read.h"
#include "workspace/changes/collect.h"

#define OBEYED_MAX 65536
#define SUBMODULES_MAX 4096

static bool is_kept(const struct ws_collect *c, const struct stat *st, const char *name)
{
	for (size_t i = 0; i < c->n_obeyed; i++) {
		if (c->obeyed[i].ino == st->st_ino && c->obeyed[i].dev == st->st_dev &&
		    strcmp(c->obeyed[i].name, name) == 0)
			return true;
	}
	return false;
}

/* Keeps what @path is: a name in a directory that exists. */
static int keep(struct ws_collect *c, const char *path)
{
	char real[PATH_MAX], dir[PATH_MAX];
	struct ws_obeyed *v;
	struct stat st;
	char *slash;

	if (snprintf(dir, sizeof(dir), "%s", realpath(path, real) ? real : path) >=
	    (int)sizeof(dir))
		return 0;
	/* One step up, and on as long as there is nothing. */
	do {
		slash = strrchr(dir, '/');
		if (!slash || !slash[1])
			return 0;
		(void)snprintf(real, sizeof(real), "%s", slash + 1);
		slash[slash == dir] = '\0';
	} while (stat(dir, &st) < 0 && slash != dir);
	if (is_kept(c, &st, real))
		return 0;
	if (c->n_obeyed == OBEYED_MAX)
		return -EOVERFLOW;
	v = reallocarray(c->obeyed, c->n_obeyed + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	c->obeyed = v;
	v[c->n_obeyed] = (struct ws_obeyed){ .dev = st.st_dev, .ino = st.st_ino };
	v[c->n_obeyed].name = arena_strdup(&c->out->arena, real);
	return v[c->n_obeyed].name ? (c->n_obeyed++, 0) : -ENOMEM;
}

static int keep_found(void *ctx, enum git_obeyed what, const char *path)
{
	char hooks[PATH_MAX];

	if (what != GIT_OBEYED_DIR)
		return keep(ctx, path);
	/* The rest of a repository's directory is known by its names. */
	return path_normalise(path, "hooks", hooks, sizeof(hooks)) < 0 ? 0 : keep(ctx, hooks);
}

/* What the repository of @dir says, and the user. @at is room. 1 if there is one; 0, or -errno. */
static int follow(struct ws_collect *c, const char *dir, struct git_location *at)
{
	const struct git_user user = { .home = getenv("HOME"), .variable = getenv };
	/* A commit may turn config.worktree on. */
	struct git_follow follow = {
		.user = &user, .work_dir = dir, .with_dormant = true, .found = keep_found, .ctx = c
	};
	int has = git_locate(dir, at), r;

	if (has < 0)
		return has;
	if (has == 1)
		follow.work_dir = at->work_dir;
	r = git_follow(&follow, has == 1 ? at->git_dir : NULL);
	return r < 0 ? r : has;
}

static int follow_nested(struct ws_collect *c, const char *dir)
{
	struct git_location at;
	int r = follow(c, dir, &at);

	return r < 0 ? r : 0;
}

/* Those that the index names; it is only read where git keeps any. */
static int follow_submodules(struct ws_collect *c, const struct git_location *top)
{
	struct arena arena = ARENA_INIT;
	struct git_entries entries = { 0 };
	char dir[PATH_MAX], git[PATH_MAX];
	struct git_reading reading = { 0 };
	struct stat st;
	int r = 0, fd = open(top->git_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fstatat(fd, "modules", &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = git_entries_collect(&arena, fd, &reading, &entries);
	close(fd);
	if (r == 0 && entries.n > SUBMODULES_MAX)
		r = -EOVERFLOW;
	for (size_t i = 0; r == 0 && i < entries.n; i++) {
		if (path_normalise(top->work_dir, entries.v[i].path, dir, sizeof(dir)) >= 0 &&
		    path_normalise(dir, ".git", git, sizeof(git)) >= 0 && lstat(git, &st) == 0)
			r = follow_nested(c, dir);
	}
	arena_done(&arena);
	return r;
}

int ws_find_obeyed(struct ws_collect *c, const char *base)
{
	struct git_location at;
	int r;

	if (base[0] != '/')
		return 0;
	c->base = base;
	r = follow(c, base, &at);
	return r == 1 ? follow_submodules(c, &at) : r;
}

int ws_find_nested_obeyed(struct ws_collect *c, uint32_t node)
{
	struct strbuf way = STRBUF_INIT;
	char dir[PATH_MAX];
	struct stat st;
	int r = 0;

	if (!c->base || node == WS_NO_NODE ||
	    fstatat(c->lo.fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	ws_node_path(c->out, node, &way);
	if (way.failed)
		r = -ENOMEM;
	/* One whose path is too long cannot be used by git either. */
	else if (path_normalise(c->base, way.data, dir, sizeof(dir)) >= 0)
		r = follow_nested(c, dir);
	strbuf_done(&way);
	return r;
}

bool ws_is_obeyed(const struct ws_collect *c, const char *name)
{
	const struct cursor_level *level = &c->lo.levels[c->lo.depth];

	for (size_t i = 0; i < c->n_obeyed; i++) {
		if (c->obeyed[i].ino == level->ino && c->obeyed[i].dev == level->dev &&
		    strcmp(c->obeyed[i].name, name) == 0)
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git obeys in the base, under whatever name: the configs of the user and of the repository
 * that the base is or lies in, as they are now, and what they name and include (git/follow.h).
 * Each is kept as a name in a directory; where it does not exist, as the first name that is missing
 * on the way.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "git/follow.h"
#include "git/read.h"
#include "workspace/changes/collect.h"

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

int ws_find_obeyed(struct ws_collect *c, const char *base)
{
	const struct git_user user = { .home = getenv("HOME"), .variable = getenv };
	struct git_location at;
	/* A commit may turn config.worktree on. */
	struct git_follow follow = {
		.user = &user, .work_dir = base, .with_dormant = true, .found = keep_found, .ctx = c
	};
	int r;

	if (base[0] != '/')
		return 0;
	r = git_locate(base, &at);
	if (r < 0)
		return r;
	if (r == 1)
		follow.work_dir = at.work_dir;
	return git_follow(&follow, r == 1 ? at.git_dir : NULL);
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

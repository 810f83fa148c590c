/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What git obeys outside of .git: the directory that core.hooksPath names, or that .git/hooks is a
 * link to, and the files that the config includes. They may lie in the base, under any name.
 *
 * The config that counts is the user's, his own and that of the repository that the base is or lies
 * in, as it is now, with what it includes and what that includes. Each is kept as a name in a
 * directory; where it does not exist, as the first name that is missing on the way.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "git/config.h"
#include "base/path.h"
#include "workspace/changes/collect.h"

#define POINTER_MAX 4096
#define CONFIGS_MAX 64 /* read; nobody has so many */

struct finder {
	struct ws_collect *c;
	char *configs[CONFIGS_MAX]; /* those read and those still to be read */
	size_t n_configs, current;
	char work[PATH_MAX]; /* the top of the work tree */
	char git[PATH_MAX];  /* what all of its work trees share */
};

/* A small file as text, or NULL. */
static char *read_small(const char *path, size_t max)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char *text = NULL;
	struct stat st;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size <= max)
		text = malloc((size_t)st.st_size + 1);
	if (text)
		n = read(fd, text, (size_t)st.st_size);
	close(fd);
	if (text && n >= 0)
		text[n] = '\0';
	if (n < 0) {
		free(text);
		return NULL;
	}
	return text;
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
	v = reallocarray(c->obeyed, c->n_obeyed + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	c->obeyed = v;
	v[c->n_obeyed] = (struct ws_obeyed){ .dev = st.st_dev, .ino = st.st_ino };
	v[c->n_obeyed].name = arena_strdup(&c->out->arena, real);
	return v[c->n_obeyed].name ? (c->n_obeyed++, 0) : -ENOMEM;
}

/* One more config to be read, once. */
static int add_config(struct finder *f, const char *path)
{
	char real[PATH_MAX];

	if (!realpath(path, real))
		return 0;
	for (size_t i = 0; i < f->n_configs; i++)
		if (strcmp(f->configs[i], real) == 0)
			return 0;
	if (f->n_configs == CONFIGS_MAX)
		return 0;
	f->configs[f->n_configs] = strdup(real);
	return f->configs[f->n_configs] ? (f->n_configs++, 0) : -ENOMEM;
}

static int keep_order(void *arg, enum git_order what, const char *value)
{
	struct finder *f = arg;
	const char *config = f->configs[f->current], *dir = f->work, *home = getenv("HOME");
	char path[PATH_MAX], place[PATH_MAX];
	int r;

	if (what == GIT_ORDER_INCLUDE) {
		(void)snprintf(place, sizeof(place), "%.*s", (int)path_dir_len(config), config);
		dir = place[0] ? place : "/";
	}
	if (value[0] == '~' && value[1] == '/' && home) {
		dir = home;
		value += 2;
	}
	if (path_normalise(dir, value, path, sizeof(path)) < 0)
		return 0;
	r = keep(f->c, path);
	return r == 0 && what == GIT_ORDER_INCLUDE ? add_config(f, path) : r;
}

static int add_config_in(struct finder *f, const char *dir, const char *name)
{
	char path[PATH_MAX + 32];

	if (!dir || dir[0] != '/')
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return add_config(f, path);
}

/* The user's own: a relative core.hooksPath there counts in every repository. */
static int add_own_config(void *arg, const char *path)
{
	struct finder *f = arg;
	int r = keep(f->c, path);

	return r == 0 ? add_config(f, path) : r;
}

/* All that are known, and those that they include. With @r < 0 they are only given up. */
static int read_configs(struct finder *f, int r)
{
	for (; r == 0 && f->current < f->n_configs; f->current++) {
		char *text = read_small(f->configs[f->current], GIT_CONFIG_MAX);

		if (text)
			r = git_config_orders(text, keep_order, f);
		free(text);
	}
	for (size_t i = 0; i < f->n_configs; i++)
		free(f->configs[i]);
	return r;
}

/* @file may say, behind @prefix, that f->git is another directory; relative to @dir. */
static void follow(struct finder *f, const char *file, const char *prefix, const char *dir)
{
	char *text = read_small(file, POINTER_MAX), path[PATH_MAX];

	if (text && strncmp(text, prefix, strlen(prefix)) == 0) {
		text[strcspn(text, "\r\n")] = '\0';
		if (path_normalise(dir, text + strlen(prefix), path, sizeof(path)) >= 0)
			(void)snprintf(f->git, sizeof(f->git), "%s", path);
	}
	free(text);
}

/* The repository that the directory f->work is the top of, if it is. */
static bool find_repository(struct finder *f)
{
	char path[PATH_MAX + 32];
	struct stat st;

	if (snprintf(f->git, sizeof(f->git), "%s/.git", f->work) >= (int)sizeof(f->git) ||
	    stat(f->git, &st) < 0)
		return false;
	if (S_ISREG(st.st_mode)) {
		(void)snprintf(path, sizeof(path), "%s", f->git);
		follow(f, path, "gitdir: ", f->work);
	}
	return true;
}

int ws_find_obeyed(struct ws_collect *c, const char *base)
{
	struct finder f = { .c = c };
	char path[PATH_MAX + 32];
	int r;

	if (base[0] != '/' || snprintf(f.work, sizeof(f.work), "%s", base) >= (int)sizeof(f.work))
		return 0;
	while (!find_repository(&f)) {
		char *slash = strrchr(f.work, '/');

		if (!slash || !slash[1])
			return 0;
		slash[slash == f.work] = '\0';
	}
	r = add_config_in(&f, f.git, "config.worktree");
	(void)snprintf(path, sizeof(path), "%s/commondir", f.git);
	follow(&f, path, "", f.git);
	if (r == 0)
		r = add_config_in(&f, f.git, "config");
	if (r == 0)
		r = git_config_own(getenv("HOME"), add_own_config, &f);
	r = read_configs(&f, r);
	(void)snprintf(path, sizeof(path), "%s/hooks", f.git);
	return r == 0 ? keep(c, path) : r;
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

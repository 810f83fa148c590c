/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a program's real path to the directory tree it was installed as.
 *
 * P/bin/x stands for P if P looks like an installation. "Looks like" matters: ~/project/bin/deploy
 * has the same shape as ~/node-v22/bin/node, but must not grant the project.
 */
#include "discover/discover_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char *const program_dirs[] = { "bin", "sbin", "libexec", "shims", "Scripts" };

/* Only virtual environments, conda and version managers have these. */
static const char *const sure_marks[] = { "pyvenv.cfg", "conda-meta", "shims" };

static const char *const likely_marks[] = {
	"lib", "lib64", "libexec", "share", "versions", "installs", "tools", "pkg",
};

/* Package stores: everything in them is meant to be world-readable, and only a package itself knows
 * which others it needs. */
static const char *const stores[] = { "/nix/store", "/gnu/store" };

static const char *join(struct discover_ctx *ctx, const char *dir, const char *name)
{
	return arena_printf(ctx->arena, "%s/%s", dir, name);
}

static bool has_entry(struct discover_ctx *ctx, const char *dir, const char *name)
{
	const char *path = join(ctx, dir, name);

	return path && disk_exists(path);
}

static bool has_any(struct discover_ctx *ctx, const char *dir, const char *const *names, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (has_entry(ctx, dir, names[i]))
			return true;
	return false;
}

static bool is_named(const char *start, size_t len, const char *const *names, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (strlen(names[i]) == len && memcmp(start, names[i], len) == 0)
			return true;
	return false;
}

bool prefix_is_program_dir(const char *name)
{
	return is_named(name, strlen(name), program_dirs, ARRAY_SIZE(program_dirs)) ||
	       strcmp(name, "condabin") == 0;
}

size_t prefix_len(const char *path)
{
	size_t dir = path_dir_len(path), prefix = dir;

	while (prefix > 0 && path[prefix - 1] != '/')
		prefix--;
	/* Now after the slash before "bin"; the prefix of "/bin" is the root. */
	if (prefix < 2 ||
	    !is_named(path + prefix, dir - prefix, program_dirs, ARRAY_SIZE(program_dirs)))
		return 0;
	return prefix - 1;
}

/* A directory in the caller's PATH has commands that are meant to be used. */
static bool is_in_search_path(const struct discover_ctx *ctx, const char *dir, size_t len)
{
	const char *entry = ctx->search_path;

	while (*entry) {
		size_t n = strcspn(entry, ":");
		size_t bare = n;

		while (bare > 1 && entry[bare - 1] == '/')
			bare--;
		if (bare == len && memcmp(entry, dir, len) == 0)
			return true;
		entry += n + (entry[n] == ':');
	}
	return false;
}

static bool is_installation(struct discover_ctx *ctx, const char *prefix, const char *real)
{
	if (is_in_search_path(ctx, real, path_dir_len(real)))
		return true;
	/*
	 * An earlier run may have written what a file in the workspace names (by `#!`, link or
	 * pyvenv.cfg), to be shown a neighbouring project: only directories made for
	 * installations count.
	 */
	if (ctx->derived && !path_is_within(ctx->in->cwd, prefix))
		return known_dirs_is_managed(ctx->in->home, prefix);
	if (has_any(ctx, prefix, sure_marks, ARRAY_SIZE(sure_marks)))
		return true;
	/* A directory right below the root may be anything: /data, /work, /app. */
	if (!strchr(prefix + 1, '/'))
		return false;
	return has_any(ctx, prefix, likely_marks, ARRAY_SIZE(likely_marks)) &&
	       !has_entry(ctx, prefix, ".git");
}

/* P, and for a conda environment (BASE/envs/NAME) what it shares with its base. */
int prefix_grant_whole(struct discover_ctx *ctx, const char *prefix)
{
	size_t envs = path_dir_len(prefix), base;
	int rc = grants_tree(ctx, prefix);
	const char *dir;

	if (rc < 0 || envs < 6 || memcmp(prefix + envs - 5, "/envs", 5) != 0)
		return rc;
	base = envs - 5;
	dir = arena_strndup(ctx->arena, prefix, base);
	if (!dir)
		return -ENOMEM;
	if (!discover_tree_allowed(ctx->in->home, dir) || !has_entry(ctx, dir, "conda-meta"))
		return 0;
	return grants_tree(ctx, dir);
}

/*
 * Layouts in which the prefix is not the parent of the parent. The length of the prefix, or 0.
 * node_modules: a package's file may lie anywhere in it, and its dependencies beside it.
 * Cellar: a keg's libraries are linked from the tree around it.
 */
static size_t known_layout(const char *real)
{
	const char *mark;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(stores); i++)
		if (path_is_within(stores[i], real))
			return strlen(stores[i]);
	mark = strstr(real, "/node_modules/");
	if (mark)
		return (size_t)(mark - real) + strlen("/node_modules");
	mark = strstr(real, "/Cellar/");
	if (mark)
		return (size_t)(mark - real);
	if (strncmp(real, "/opt/", 5) == 0) {
		size_t len = 5 + strcspn(real + 5, "/");

		return real[len] == '/' ? len : 0;
	}
	return 0;
}

/* ~/.cargo has credentials beside bin/; rustup's proxies there need the toolchains as well. */
int prefix_grant_cargo(struct discover_ctx *ctx, const char *cargo)
{
	const char *bin = join(ctx, cargo, "bin"), *rustup;
	int rc;

	if (!bin)
		return -ENOMEM;
	rc = grants_tree(ctx, bin);
	if (rc < 0 || !has_entry(ctx, bin, "rustup"))
		return rc;
	rustup = arena_printf(ctx->arena, "%.*s/.rustup", (int)path_dir_len(cargo), cargo);
	return rustup ? prefix_grant_dir(ctx, rustup) : -ENOMEM;
}

int prefix_grant(struct discover_ctx *ctx, const char *real)
{
	const char *home = ctx->in->home, *prefix, *rest;
	size_t len;

	if (ctx->files_only || grants_is_system(real))
		return 0;
	len = known_layout(real);
	if (len > 0) {
		prefix = arena_strndup(ctx->arena, real, len);
		if (!prefix)
			return -ENOMEM;
		if (discover_tree_allowed(home, prefix))
			return grants_tree(ctx, prefix);
	}
	len = prefix_len(real);
	if (len == 0)
		return grants_file(ctx, real);
	prefix = arena_strndup(ctx->arena, real, len);
	if (!prefix)
		return -ENOMEM;
	if (discover_tree_allowed(home, prefix) && is_installation(ctx, prefix, real))
		return prefix_grant_whole(ctx, prefix);
	rest = known_dirs_below_home(home, prefix);
	if (rest && strcmp(rest, ".cargo") == 0 && strncmp(real + len, "/bin/", 5) == 0)
		return prefix_grant_cargo(ctx, prefix);
	return grants_file(ctx, real);
}

int prefix_grant_loader(struct discover_ctx *ctx, const char *real)
{
	size_t dir_len = path_dir_len(real), name = dir_len, len = known_layout(real);
	const char *dir;

	if (ctx->files_only || grants_is_system(real))
		return 0;
	if (len == 0) {
		while (name > 0 && real[name - 1] != '/')
			name--;
		/* Its libraries are beside it if the directory's name says so. */
		if (strncmp(real + name, "lib", 3) != 0)
			return grants_file(ctx, real);
		len = dir_len;
	}
	dir = arena_strndup(ctx->arena, real, len);
	if (!dir)
		return -ENOMEM;
	/* A program in the workspace may name any directory for its loader. */
	if (!discover_tree_allowed(ctx->in->home, dir) ||
	    (ctx->derived && !path_is_within(ctx->in->cwd, dir) &&
	     !known_dirs_is_managed(ctx->in->home, dir)))
		return grants_file(ctx, real);
	return grants_tree(ctx, dir);
}

/* @within: where links may lead; NULL = anywhere. */
static int grant_dir(struct discover_ctx *ctx, const char *path, const char *within)
{
	const char *real = NULL;
	int rc;

	if (ctx->files_only)
		return 0;
	rc = links_resolve_dir(ctx, path, &real);
	if (rc == -ENOMEM || rc == -E2BIG)
		return rc;
	if (rc < 0 || !discover_tree_allowed(ctx->in->home, real))
		return 0;
	return !within || path_is_within(within, real) ? grants_tree(ctx, real) : 0;
}

int prefix_grant_dir(struct discover_ctx *ctx, const char *path)
{
	return grant_dir(ctx, path, NULL);
}

int prefix_grant_parts(struct discover_ctx *ctx, const char *prefix, const char *const *names,
		       size_t n)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n && names[i]; i++) {
		const char *path = join(ctx, prefix, names[i]);

		rc = path ? grant_dir(ctx, path, prefix) : -ENOMEM;
	}
	return rc;
}

bool prefix_is_project(struct discover_ctx *ctx, const char *prefix)
{
	static const char *const names[] = { ".git", ".hg", ".svn", ".jj", ".env", ".envrc" };

	return has_any(ctx, prefix, names, ARRAY_SIZE(names));
}

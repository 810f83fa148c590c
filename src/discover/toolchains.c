/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tool chains in the caller's PATH. What a script finds there outside it finds inside, too: a
 * directory of a kind that is known here is shown as the command's own installation is.
 *
 * PATH is the caller's word, but a directory in it may be anything: ~/bin, a project, the home
 * itself. So only known kinds count, and only the part that programs run from: where a tool keeps
 * credentials beside its programs (~/.cargo, ~/.bun), only the directories in the table below. What
 * cannot be shown is left out of PATH and is never an error: the command may not need it.
 *
 * Directories of the system cost no system call, any other one about ten.
 */
#include "discover/discover_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "arch/arch.h"

/* Below a home: a directory in PATH, and what its programs need. */
static const struct {
	const char *dir;
	const char *needs[3];
} home_dirs[] = {
	{ "go/bin", { "go/bin" } },
	{ ".bun/bin", { ".bun/bin", ".bun/install/global/node_modules" } },
	{ ".deno/bin", { ".deno/bin" } },
	{ ".volta/bin", { ".volta/bin", ".volta/tools" } },
};

#define PARTS_MAX 14

/*
 * A prefix with both marks is an installation, wherever it lies. Any program could have made them
 * in a project whose bin is in PATH, so only the parts that the installation needs are shown.
 */
static const struct {
	const char *marks[2];
	const char *parts[PARTS_MAX];
} kinds[] = {
	{ { "conda-meta", "bin/python" },
	  { "bin", "condabin", "conda-meta", "lib", "libexec", "sbin", "include", "share", "ssl",
	    "compiler_compat", (ARCH_NAME "-conda-linux-gnu"), "envs" } },
	/* pyenv, rbenv, jenv */
	{ { "shims", "versions" },
	  { "shims", "versions", "bin", "libexec", "plugins", "pyenv.d", "rbenv.d",
	    "completions" } },
	/* asdf, mise */
	{ { "shims", "installs" }, { "shims", "installs", "bin", "lib", "plugins" } },
	{ { "bin/node", "lib/node_modules" }, { "bin", "lib", "include", "share" } },
	{ { "bin/go", "pkg/tool" }, { "bin", "pkg", "src", "lib", "misc", "api" } },
	{ { "bin/rustc", "lib/rustlib" }, { "bin", "lib", "libexec", "share" } },
	{ { "bin/java", "lib/modules" }, { "bin", "lib", "conf", "jmods", "legal", "include" } },
	{ { "bin/ruby", "lib/ruby" }, { "bin", "lib", "include", "share" } },
};

/* Files beside them that are asked for at the start. */
static const char *const kind_files[] = { "VERSION", "go.env", "release", "version" };

static bool has(struct discover_ctx *ctx, const char *dir, const char *name)
{
	const char *path = arena_printf(ctx->arena, "%s/%s", dir, name);

	return path && disk_exists(path);
}

/* 1 = shown, 0 = it has no marks. */
static int show_kind(struct discover_ctx *ctx, const char *prefix)
{
	size_t kind = 0;
	int rc;

	while (kind < ARRAY_SIZE(kinds) &&
	       !(has(ctx, prefix, kinds[kind].marks[0]) && has(ctx, prefix, kinds[kind].marks[1])))
		kind++;
	if (kind == ARRAY_SIZE(kinds) || prefix_is_project(ctx, prefix))
		return 0;
	rc = prefix_grant_parts(ctx, prefix, kinds[kind].parts, PARTS_MAX);
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(kind_files); i++) {
		const char *path = arena_printf(ctx->arena, "%s/%s", prefix, kind_files[i]);

		if (!path)
			return -ENOMEM;
		if (disk_is_file(path))
			rc = grants_file(ctx, path);
	}
	return rc < 0 ? rc : 1;
}

/* ~/.local/bin has programs of all kinds; of these only uv, with what it installed, is known. */
static int show_uv(struct discover_ctx *ctx, const char *dir)
{
	static const char *const names[] = { "uv", "uvx" };
	int shown = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *path = arena_printf(ctx->arena, "%s/%s", dir, names[i]);

		if (!path)
			return -ENOMEM;
		if (disk_exists(path) && program_add(ctx, path, NULL) == 0)
			shown = 1;
	}
	return shown;
}

/* A home's directories that are never shown as a whole. 1 = shown, 0 = it is none of these. */
static int show_part_of_home(struct discover_ctx *ctx, const char *dir, const char *real)
{
	const char *rest = known_dirs_below_home(ctx->in->home, real), *path;
	int home_len, rc = 0;

	if (!rest || !*rest)
		return 0;
	home_len = (int)(rest - real) - 1;
	if (strcmp(rest, ".local/bin") == 0)
		return show_uv(ctx, dir);
	if (strcmp(rest, ".cargo/bin") == 0) {
		path = arena_printf(ctx->arena, "%.*s/.cargo", home_len, real);
		rc = path ? prefix_grant_cargo(ctx, path) : -ENOMEM;
		return rc < 0 ? rc : 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(home_dirs); i++) {
		if (strcmp(rest, home_dirs[i].dir) != 0)
			continue;
		for (size_t j = 0; rc == 0 && j < ARRAY_SIZE(home_dirs[i].needs); j++) {
			if (!home_dirs[i].needs[j])
				break;
			path = arena_printf(ctx->arena, "%.*s/%s", home_len, real,
					    home_dirs[i].needs[j]);
			rc = path ? prefix_grant_dir(ctx, path) : -ENOMEM;
		}
		return rc < 0 ? rc : 1;
	}
	return 0;
}

/* PREFIX/bin or the like of an installation. 1 = shown, 0 = it is none. */
static int show_installation(struct discover_ctx *ctx, const char *real)
{
	const char *home = ctx->in->home, *prefix;
	size_t len = path_dir_len(real);
	int rc;

	if (!prefix_is_program_dir(real + len + 1))
		return 0;
	prefix = arena_strndup(ctx->arena, real, len);
	if (!prefix)
		return -ENOMEM;
	if (!discover_tree_allowed(home, prefix))
		return 0;
	if (known_dirs_below_home(home, prefix) && known_dirs_is_managed(home, prefix)) {
		rc = venv_follow(ctx, prefix);
		if (rc >= 0)
			rc = prefix_grant_whole(ctx, prefix);
		return rc < 0 ? rc : 1;
	}
	/* An earlier run may have made the link that led here. */
	if (ctx->derived)
		return 0;
	rc = venv_show(ctx, prefix);
	return rc != 0 ? rc : show_kind(ctx, prefix);
}

static bool is_granted(const struct discover_ctx *ctx, const char *real)
{
	for (size_t i = 0; i < ctx->n_grants; i++)
		if (ctx->grants[i].kind == DISCOVER_TREE &&
		    path_is_within(ctx->grants[i].path, real))
			return true;
	return false;
}

/* 1 = shown, 0 = not. */
static int show(struct discover_ctx *ctx, const char *dir, const char *real)
{
	const char *unused;
	int rc = 1;

	ctx->derived = path_is_within(ctx->in->cwd, dir) && !path_is_within(ctx->in->cwd, real);
	if (!is_granted(ctx, real)) {
		rc = show_part_of_home(ctx, dir, real);
		if (rc == 0)
			rc = show_installation(ctx, real);
	}
	/* The links on the way, so that the path means the same inside. */
	if (rc > 0 && strcmp(dir, real) != 0) {
		int links = links_resolve_dir(ctx, dir, &unused);

		if (links < 0)
			rc = links;
	}
	ctx->derived = false;
	return rc;
}

static int add_dir(struct discover_ctx *ctx, const char *dir, struct discover_result *res)
{
	struct discover_path_dir *entry = &res->search[res->n_search];
	CLEANUP(disk_close) int fd = -1;
	size_t n_grants = ctx->n_grants;
	char real[PATH_MAX];
	int rc;

	for (size_t i = 0; i < res->n_search; i++)
		if (strcmp(res->search[i].path, dir) == 0)
			return 0;
	entry->path = entry->real = arena_strdup(ctx->arena, dir);
	entry->is_shown = true;
	if (!entry->path)
		return -ENOMEM;
	if (!grants_is_system(dir)) {
		fd = disk_open(dir, O_PATH | O_DIRECTORY);
		if (fd < 0 || disk_fd_path(fd, real, sizeof(real)) < 0)
			return 0;
		entry->real = arena_strdup(ctx->arena, real);
		if (!entry->real)
			return -ENOMEM;
		rc = show(ctx, entry->path, entry->real);
		if (rc == -ENOMEM)
			return rc;
		/* Too many grants, or gone by now: then it is not shown. */
		if (rc < 0)
			ctx->n_grants = n_grants;
		entry->is_shown = rc > 0 || strlist_has(&ctx->path_dirs, entry->path);
	}
	res->n_search++;
	return 0;
}

int toolchains_add(struct discover_ctx *ctx, struct discover_result *res)
{
	const char *entries = ctx->in->search_path, *dir;
	struct cordon_error *err = ctx->err;
	char path[PATH_MAX], text[PATH_MAX];
	size_t len;
	int rc = 0;

	if (!entries)
		return 0;
	res->search = arena_alloc(ctx->arena, DISCOVER_PATH_DIRS_MAX * sizeof(*res->search));
	if (!res->search)
		return -ENOMEM;
	ctx->err = NULL;
	while (rc == 0 && res->n_search < DISCOVER_PATH_DIRS_MAX &&
	       search_next_dir(&entries, &dir, &len)) {
		if (len >= sizeof(text))
			continue;
		memcpy(text, dir, len);
		text[len] = '\0';
		if (path_normalise(NULL, text, path, sizeof(path)) < 0 || path_has_dotdot(path))
			continue;
		rc = add_dir(ctx, path, res);
	}
	ctx->err = err;
	return rc;
}

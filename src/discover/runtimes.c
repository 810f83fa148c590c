/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What certain tools need besides their prefix, as tables. Each entry is something that the tool
 * does not start without and that follows from its path alone.
 */
#include "discover/discover_internal.h"

#include <errno.h>
#include <string.h>

/* Wrapper scripts that look for another program in PATH. */
static const struct {
	const char *program, *companion;
} companions[] = {
	{ "mvn", "java" },     { "gradle", "java" }, { "ant", "java" },	    { "sbt", "java" },
	{ "scala", "java" },   { "kotlin", "java" }, { "kotlinc", "java" }, { "groovy", "java" },
	{ "clojure", "java" }, { "lein", "java" },
};

/* Parts of a home's catch-all directory that a program in it needs. */
static const struct {
	const char *program; /* real path below the home; a trailing slash: anything in there */
	bool scripts_only;
	const char *dirs[6];
} parts[] = {
	{ ".dotnet/dotnet",
	  false,
	  { ".dotnet/host", ".dotnet/shared", ".dotnet/sdk", ".dotnet/packs",
	    ".dotnet/templates" } },
	/* pip install --user; npm with its prefix there */
	{ ".local/bin/", true, { ".local/lib" } },
	{ ".juliaup/", false, { ".julia/juliaup" } },
};

/* uv keeps interpreters and tools here, wherever it is installed. */
static const char *const uv_dirs[] = { ".local/share/uv/python", ".local/share/uv/tools" };

/* Where packages of the distribution keep the part of a prefix that an administrator may change:
 * without lib/jvm.cfg a JVM does not start. */
static const char *const config_links[] = { "conf", "lib/jvm.cfg" };

static const char *base_name(const char *path)
{
	return path + path_dir_len(path) + 1;
}

const char *runtimes_companion(const char *program)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(companions); i++)
		if (strcmp(base_name(program), companions[i].program) == 0)
			return companions[i].companion;
	return NULL;
}

static int grant_parts(struct discover_ctx *ctx, const char *real, bool is_script)
{
	const char *rest = known_dirs_below_home(ctx->in->home, real);
	size_t i, j, home_len;
	int rc;

	if (!rest || !*rest)
		return 0;
	home_len = (size_t)(rest - real) - 1;
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t len = strlen(parts[i].program);
		bool is_dir = parts[i].program[len - 1] == '/';

		if (strncmp(rest, parts[i].program, len) != 0 || (!is_dir && rest[len]) ||
		    (parts[i].scripts_only && !is_script))
			continue;
		for (j = 0; j < ARRAY_SIZE(parts[i].dirs) && parts[i].dirs[j]; j++) {
			const char *path = arena_printf(ctx->arena, "%.*s/%s", (int)home_len, real,
							parts[i].dirs[j]);

			rc = path ? prefix_grant_dir(ctx, path) : -ENOMEM;
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static int grant_uv(struct discover_ctx *ctx)
{
	const char *home = ctx->in->home;
	size_t i;
	int rc;

	for (i = 0; home && i < ARRAY_SIZE(uv_dirs); i++) {
		const char *path = arena_printf(ctx->arena, "%s/%s", home, uv_dirs[i]);

		if (!path)
			return -ENOMEM;
		rc = prefix_grant_dir(ctx, path);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* /usr/share/maven/conf -> /etc/maven, /usr/lib/jvm/X/lib/jvm.cfg -> /etc/java-17-openjdk/... */
static int grant_config(struct discover_ctx *ctx, const char *real)
{
	size_t i, len = prefix_len(real), end;
	char text[PATH_MAX];
	const char *path;
	int rc;

	if (len == 0 || grants_is_standard_bin(real, path_dir_len(real)))
		return 0;
	for (i = 0; i < ARRAY_SIZE(config_links); i++) {
		path = arena_printf(ctx->arena, "%.*s/%s", (int)len, real, config_links[i]);
		if (!path)
			return -ENOMEM;
		if (disk_readlink(path, text, sizeof(text)) < 0 || strncmp(text, "/etc/", 5) != 0 ||
		    path_has_dotdot(text))
			continue;
		end = 5 + strcspn(text + 5, "/");
		text[end] = '\0';
		if (end == 5 || !disk_is_dir(text))
			continue;
		rc = grants_tree(ctx, text);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int runtimes_grant(struct discover_ctx *ctx, const char *real, bool is_script)
{
	const char *name = base_name(real);
	int rc;

	if (ctx->files_only)
		return 0;
	if (grants_is_system(real))
		rc = grant_config(ctx, real);
	else
		rc = grant_parts(ctx, real, is_script);
	if (rc == 0 && (strcmp(name, "uv") == 0 || strcmp(name, "uvx") == 0))
		rc = grant_uv(ctx);
	return rc;
}

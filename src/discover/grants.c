/* SPDX-License-Identifier: Apache-2.0 */
/* The list of grants, without what needs none, duplicates, and what another grant covers. */
#include "discover/discover_internal.h"

#include <errno.h>
#include <string.h>

#define ALTERNATIVES "/etc/alternatives"

static const char *const system_dirs[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32",
};

/* File systems of the kernel: their links cannot be re-created. */
static const char *const kernel_dirs[] = { "/proc", "/sys", "/dev" };

static const char *const standard_bins[] = {
	"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin",
};

static bool is_within_any(const char *path, const char *const *dirs, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		size_t len = strlen(dirs[i]);

		/* path_is_within() is costly, so only where it can be true. */
		if (strncmp(dirs[i], path, len) == 0 && path_is_within(dirs[i], path))
			return true;
	}
	return false;
}

bool grants_is_system(const char *path)
{
	return is_within_any(path, system_dirs, ARRAY_SIZE(system_dirs));
}

bool grants_is_standard_bin(const char *dir, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(standard_bins); i++)
		if (strlen(standard_bins[i]) == len && memcmp(standard_bins[i], dir, len) == 0)
			return true;
	return false;
}

static bool is_covered(const struct discover_grant *by, const struct discover_grant *grant)
{
	return by->kind == DISCOVER_TREE && path_is_within(by->path, grant->path);
}

static int add(struct discover_ctx *ctx, int kind, const char *path, const char *target)
{
	struct discover_grant grant = { .kind = kind, .path = path };
	size_t i;

	if (ctx->files_only || grants_is_system(path))
		return 0;
	for (i = 0; i < ctx->n_grants; i++) {
		const struct discover_grant *old = &ctx->grants[i];

		if (is_covered(old, &grant) || (old->kind == kind && !strcmp(old->path, path)))
			return 0;
	}
	if (ctx->n_grants == DISCOVER_GRANTS_MAX)
		return -E2BIG;
	grant.path = arena_strdup(ctx->arena, path);
	if (!grant.path)
		return -ENOMEM;
	if (target) {
		grant.target = arena_strdup(ctx->arena, target);
		if (!grant.target)
			return -ENOMEM;
	}
	ctx->grants[ctx->n_grants++] = grant;
	return 0;
}

int grants_tree(struct discover_ctx *ctx, const char *path)
{
	return add(ctx, DISCOVER_TREE, path, NULL);
}

int grants_file(struct discover_ctx *ctx, const char *path)
{
	return add(ctx, DISCOVER_FILE, path, NULL);
}

int grants_link(struct discover_ctx *ctx, const char *path, const char *target)
{
	if (is_within_any(path, kernel_dirs, ARRAY_SIZE(kernel_dirs)))
		return 0;
	/* Only links made by the distribution, and one alternative needs another (mvn needs
	 * java). */
	if (path_is_within(ALTERNATIVES, path) && path[strlen(ALTERNATIVES)] == '/')
		return grants_tree(ctx, ALTERNATIVES);
	return add(ctx, DISCOVER_LINK, path, target);
}

int grants_path_dir(struct discover_ctx *ctx, const char *program)
{
	size_t len = path_dir_len(program);
	const char *dir;

	if (ctx->files_only || len < 2 || grants_is_standard_bin(program, len))
		return 0;
	dir = arena_strndup(ctx->arena, program, len);
	if (!dir)
		return -ENOMEM;
	/* A colon would split it into two directories. */
	if (strchr(dir, ':') || strlist_has(&ctx->path_dirs, dir))
		return 0;
	return strlist_add(ctx->arena, &ctx->path_dirs, dir) < 0 ? -ENOMEM : 0;
}

/* A tree may have come after what it covers. */
static bool is_covered_by_later(const struct discover_ctx *ctx, size_t i)
{
	size_t j;

	for (j = i + 1; j < ctx->n_grants; j++)
		if (is_covered(&ctx->grants[j], &ctx->grants[i]))
			return true;
	return false;
}

int grants_finish(struct discover_ctx *ctx, struct discover_result *ret)
{
	struct discover_grant *grants = NULL;
	size_t i, n = 0;

	if (ctx->n_grants > 0) {
		grants = arena_alloc(ctx->arena, ctx->n_grants * sizeof(*grants));
		if (!grants)
			return -ENOMEM;
	}
	for (i = 0; i < ctx->n_grants; i++)
		if (!is_covered_by_later(ctx, i))
			grants[n++] = ctx->grants[i];
	ret->grants = grants;
	ret->n_grants = n;
	ret->path_dirs = ctx->path_dirs.v;
	ret->n_path_dirs = ctx->path_dirs.n;
	return 0;
}

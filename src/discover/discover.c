/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/discover.h"

#include <errno.h>
#include <string.h>

#include "discover/discover_internal.h"

static int init_ctx(struct discover_ctx *ctx, struct arena *arena, const struct discover_input *in,
		    struct cordon_error *err)
{
	if (!in->cwd || in->cwd[0] != '/' || (in->home && in->home[0] != '/'))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "the working directory and the home must be absolute paths");
	ctx->arena = arena;
	ctx->in = in;
	ctx->search_path = in->search_path ? in->search_path : DISCOVER_DEFAULT_PATH;
	ctx->err = err;
	return 0;
}

/* A program that another one will look for. If it is missing, that program's message is better. */
static void add_companion(struct discover_ctx *ctx, const char *program)
{
	const char *name = runtimes_companion(program), *path = NULL;
	struct cordon_error *err = ctx->err;

	if (!name || search_name(ctx, name, &path) < 0)
		return;
	ctx->err = NULL;
	if (program_add(ctx, path, NULL) == 0)
		(void)grants_path_dir(ctx, path);
	ctx->err = err;
}

int discover_program(struct arena *arena, const struct discover_input *in,
		     struct discover_result *ret, struct cordon_error *err)
{
	struct discover_ctx ctx = { .arena = NULL };
	struct discover_result result = { .exec_path = NULL };
	const char *path = NULL;
	int rc;

	rc = init_ctx(&ctx, arena, in, err);
	if (rc < 0)
		return rc;
	if (!in->command)
		return cordon_err(err, CORDON_E_USAGE, 0, "no command given");
	rc = search_program(&ctx, in->command, &path);
	if (rc == 0)
		rc = program_add(&ctx, path, &result.exec_path);
	if (rc < 0)
		return rc;
	/* Of a path with a slash only if it is a directory of programs, not "." of "./a.out". */
	if (!strchr(in->command, '/') || prefix_len(path) > 0)
		rc = grants_path_dir(&ctx, path);
	add_companion(&ctx, path);
	if (rc == 0)
		rc = venv_check_workspace(&ctx);
	if (rc == 0 && in->show_search)
		rc = toolchains_add(&ctx, &result);
	if (rc == 0)
		rc = grants_finish(&ctx, &result);
	if (rc < 0)
		return program_fail(&ctx, rc, path);
	*ret = result;
	return 0;
}

int discover_search(struct arena *arena, const struct discover_input *in,
		    struct discover_result *ret, struct cordon_error *err)
{
	struct discover_ctx ctx = { .arena = NULL };
	struct discover_result result = { .exec_path = NULL };
	int rc = init_ctx(&ctx, arena, in, err);

	if (rc < 0)
		return rc;
	rc = toolchains_add(&ctx, &result);
	if (rc == 0)
		rc = grants_finish(&ctx, &result);
	if (rc < 0)
		return program_fail(&ctx, rc, "");
	*ret = result;
	return 0;
}

int discover_prefix_for_commands(struct arena *arena, const struct discover_input *in,
				 const char *const *commands, size_t n_commands,
				 struct discover_exec_file **ret_files, size_t *ret_n,
				 struct cordon_error *err)
{
	struct discover_ctx ctx = { .files_only = true };
	struct discover_exec_file *files;
	const char *path = NULL;
	size_t i;
	int rc;

	rc = init_ctx(&ctx, arena, in, err);
	for (i = 0; rc == 0 && i < n_commands; i++) {
		rc = search_program(&ctx, commands[i], &path);
		if (rc == 0)
			rc = program_add(&ctx, path, NULL);
	}
	if (rc < 0)
		return rc;
	files = arena_alloc(arena, (ctx.exec_files.n + 1) * sizeof(*files));
	if (!files)
		return program_fail(&ctx, -ENOMEM, "");
	for (i = 0; i < ctx.exec_files.n; i++)
		files[i].path = ctx.exec_files.v[i];
	*ret_files = files;
	*ret_n = ctx.exec_files.n;
	return 0;
}

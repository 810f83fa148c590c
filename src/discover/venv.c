/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's virtual environments: PREFIX/pyvenv.cfg says with `home = DIR` where the base Python's
 * programs are.
 *
 * The file may have been written by anyone, so what it names counts only if a Python interpreter is
 * there, and grants only that interpreter's prefix.
 */
#include "discover/discover_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define CONFIG "pyvenv.cfg"
#define CONFIG_MAX 4096 /* bytes read; real ones have about 300 */

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* The value of `home` in @text; its length in *ret_len. NULL if there is none. */
static const char *find_home(const char *text, size_t *ret_len)
{
	while (*text) {
		const char *p = skip_blanks(text);
		size_t len;

		if (strncmp(p, "home", 4) == 0) {
			p = skip_blanks(p + 4);
			if (*p == '=') {
				p = skip_blanks(p + 1);
				len = strcspn(p, "\r\n");
				while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t'))
					len--;
				*ret_len = len;
				return p;
			}
		}
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return NULL;
}

static bool is_python(const char *real)
{
	const char *name = real + path_dir_len(real) + 1;

	return strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0;
}

/* The base interpreter in @dir, if there is one. */
static int add_base(struct discover_ctx *ctx, const char *dir, size_t dir_len)
{
	static const char *const names[] = { "python3", "python", "pypy3" };
	CLEANUP(disk_close) int fd = -1;
	struct program_location base = { .fd = -1 };
	char real[PATH_MAX];
	const char *path = NULL;
	struct stat st;
	bool derived;
	size_t i;
	int rc;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		path = arena_printf(ctx->arena, "%.*s/%s", (int)dir_len, dir, names[i]);
		if (!path)
			return -ENOMEM;
		if (disk_stat(path, &st) == 0 && disk_can_execute(path, &st) == 0)
			break;
	}
	if (i == ARRAY_SIZE(names) || ctx->depth >= DISCOVER_DEPTH_MAX)
		return 0;
	fd = disk_open(path, O_PATH);
	if (fd < 0 || disk_fd_path(fd, real, sizeof(real)) < 0 || !is_python(real))
		return 0;
	disk_close(&fd);
	derived = ctx->derived;
	ctx->derived = true;
	ctx->depth++;
	rc = program_locate(ctx, path, &base);
	disk_close(&base.fd);
	ctx->depth--;
	ctx->derived = derived;
	/* Python itself complains about a broken base. */
	return rc == -ENOMEM || rc == -E2BIG ? rc : 0;
}

int venv_follow(struct discover_ctx *ctx, const char *prefix)
{
	CLEANUP(disk_close) int fd = -1;
	const char *path = arena_printf(ctx->arena, "%s/" CONFIG, prefix), *home;
	char text[CONFIG_MAX + 1];
	size_t len = 0;
	int n, rc = 0;

	if (!path)
		return -ENOMEM;
	/* No link: the file itself may be shown. */
	fd = disk_open(path, O_RDONLY | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	n = disk_read_at(fd, 0, text, CONFIG_MAX);
	if (n < 0)
		return 0;
	text[n] = '\0';
	disk_close(&fd);
	home = find_home(text, &len);
	if (home && len > 0 && len < PATH_MAX - 16 && home[0] == '/')
		rc = add_base(ctx, home, len);
	return rc < 0 ? rc : 1;
}

/* Has @prefix anything in it that is not a virtual environment's? People make them in the top
 * directory of a project. */
static bool has_more(const char *prefix)
{
	static const char *const own[] = { ".",	      "..",    "bin",	     "lib",	    "lib64",
					   "include", "share", "etc",	     "man",	    "local",
					   CONFIG,    ".lock", ".gitignore", "CACHEDIR.TAG" };
	struct dirent *entry;
	bool more = false;
	DIR *dir = opendir(prefix);

	if (!dir)
		return true;
	while (!more && (entry = readdir(dir))) {
		more = true;
		for (size_t i = 0; more && i < ARRAY_SIZE(own); i++)
			more = strcmp(entry->d_name, own[i]) != 0;
	}
	closedir(dir);
	return more;
}

int venv_show(struct discover_ctx *ctx, const char *prefix)
{
	static const char *const parts[] = { "bin", "lib", "lib64", "include", "share", "etc" };
	const char *path;
	int rc = venv_follow(ctx, prefix);

	if (rc <= 0)
		return rc;
	if (!has_more(prefix)) {
		rc = grants_tree(ctx, prefix);
		return rc < 0 ? rc : 1;
	}
	path = arena_printf(ctx->arena, "%s/" CONFIG, prefix);
	rc = path ? grants_file(ctx, path) : -ENOMEM;
	if (rc == 0)
		rc = prefix_grant_parts(ctx, prefix, parts, ARRAY_SIZE(parts));
	return rc < 0 ? rc : 1;
}

/* @program: canonical path of a link or file that stands for the program. */
int venv_check_program(struct discover_ctx *ctx, const char *program)
{
	size_t len = prefix_len(program);
	const char *prefix;
	int rc;

	if (ctx->files_only || len == 0 || grants_is_standard_bin(program, path_dir_len(program)))
		return 0;
	if (ctx->venv_asked && strlen(ctx->venv_asked) == len &&
	    memcmp(ctx->venv_asked, program, len) == 0)
		return 0;
	prefix = arena_strndup(ctx->arena, program, len);
	if (!prefix)
		return -ENOMEM;
	ctx->venv_asked = prefix;
	rc = venv_follow(ctx, prefix);
	if (rc <= 0)
		return rc;
	return discover_tree_allowed(ctx->in->home, prefix) ? grants_tree(ctx, prefix) : 0;
}

/* `uv run`, `poetry run`, a shell: they start the environment of the project they are in. */
int venv_check_workspace(struct discover_ctx *ctx)
{
	const char *cwd = ctx->in->cwd, *dir;
	int rc;

	/* A home is not a project, and is not granted either. */
	if (strcmp(cwd, "/") == 0 || (ctx->in->home && strcmp(cwd, ctx->in->home) == 0))
		return 0;
	dir = arena_printf(ctx->arena, "%s/.venv", cwd);
	if (!dir)
		return -ENOMEM;
	rc = venv_follow(ctx, dir);
	/* It may be a link to elsewhere; otherwise it comes with its parent. */
	return rc <= 0 ? rc : prefix_grant_dir(ctx, dir);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From the command that was typed to an absolute path. */
#include "discover/discover_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

bool search_next_dir(const char **path, const char **ret_dir, size_t *ret_len)
{
	while (**path) {
		const char *dir = *path;
		size_t len = strcspn(dir, ":");

		*path += len + (dir[len] == ':');
		/* Empty, "." and other relative ones: a workspace must not decide what runs. */
		if (len > 0 && dir[0] == '/') {
			*ret_dir = dir;
			*ret_len = len;
			return true;
		}
	}
	return false;
}

static int absolute(struct discover_ctx *ctx, const char *path, const char **ret_path);

int search_name(struct discover_ctx *ctx, const char *name, const char **ret_path)
{
	__attribute__((uninitialized)) char path[PATH_MAX];
	const char *entries = ctx->search_path, *dir;
	size_t len, name_len = strlen(name);
	int rc, result = -ENOENT;
	struct stat st;

	if (name_len == 0 || name_len > NAME_MAX)
		return -ENOENT;
	while (search_next_dir(&entries, &dir, &len)) {
		if (len + 1 + name_len >= sizeof(path))
			continue;
		memcpy(path, dir, len);
		path[len] = '/';
		memcpy(path + len + 1, name, name_len + 1);
		if (disk_stat(path, &st) < 0)
			continue;
		rc = disk_can_execute(path, &st);
		if (rc == 0)
			return absolute(ctx, path, ret_path);
		/* Remember it, but a later directory may have one that works. */
		if (rc == -EACCES && S_ISREG(st.st_mode))
			result = rc;
	}
	return result;
}

/*
 * Normalises the text. The part before a ".." is replaced by its real path, so that the result
 * means the same in a tree that has only the grants.
 */
static int absolute(struct discover_ctx *ctx, const char *path, const char **ret_path)
{
	__attribute__((uninitialized)) char text[PATH_MAX];
	__attribute__((uninitialized)) char real[PATH_MAX];
	CLEANUP(disk_close) int fd = -1;
	char *up = NULL, *p;
	int rc;

	rc = path_normalise(ctx->in->cwd, path, text, sizeof(text));
	if (rc < 0)
		return rc;
	for (p = text; (p = strstr(p, "/..")); p += 3)
		if (p[3] == '/' || p[3] == '\0')
			up = p + 3;
	if (up) {
		char behind = *up;

		*up = '\0';
		fd = disk_open(text, O_PATH | O_DIRECTORY);
		*up = behind;
		rc = fd < 0 ? fd : disk_fd_path(fd, real, sizeof(real));
		if (rc < 0)
			return rc;
		*ret_path = arena_printf(ctx->arena, "%s%s", strcmp(real, "/") ? real : "", up);
	} else {
		*ret_path = arena_strdup(ctx->arena, text);
	}
	return *ret_path ? 0 : -ENOMEM;
}

static int path_not_executable(struct discover_ctx *ctx, const char *command, int rc)
{
	if (rc != -EACCES)
		return program_fail(ctx, rc, command);
	cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, EACCES, "cannot execute '%s'", command);
	cordon_err_hint(ctx->err, "if it is a program: chmod +x '%s'", command);
	return -CORDON_E_NOT_EXECUTABLE;
}

static int search_path_given(struct discover_ctx *ctx, const char *command, const char **ret_path)
{
	struct stat st = { .st_mode = 0 };
	int rc;

	rc = absolute(ctx, command, ret_path);
	if (rc == 0)
		rc = disk_stat(*ret_path, &st);
	if (rc < 0) {
		if (rc == -ENOENT && *ret_path && disk_exists(*ret_path))
			return cordon_err(ctx->err, CORDON_E_NOT_FOUND, ENOENT,
					  "'%s' is a symbolic link to nothing", command);
		return program_fail(ctx, rc, command);
	}
	/* A slash at the end asks for a directory. */
	if (S_ISREG(st.st_mode) && command[strlen(command) - 1] == '/')
		return program_fail(ctx, -ENOTDIR, command);
	rc = disk_can_execute(*ret_path, &st);
	return rc < 0 ? path_not_executable(ctx, command, rc) : 0;
}

int search_program(struct discover_ctx *ctx, const char *command, const char **ret_path)
{
	const char *path = NULL;
	int rc;

	if (strchr(command, '/')) {
		rc = search_path_given(ctx, command, &path);
		if (rc < 0)
			return rc;
	} else {
		rc = search_name(ctx, command, &path);
		if (rc == -ENOENT)
			return missing_name(ctx, command);
		if (rc == -EACCES)
			return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, 0,
					  "'%s' is in PATH, but it is not executable", command);
		if (rc < 0)
			return program_fail(ctx, rc, command);
	}
	*ret_path = path;
	return 0;
}

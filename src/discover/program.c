/* SPDX-License-Identifier: Apache-2.0 */
/* One program: its file, its links, its installation, and the interpreters below it. */
#include "discover/discover_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <unistd.h>

#include "arch/arch.h"
#include "sys/calls.h"

int program_fail(struct discover_ctx *ctx, int rc, const char *path)
{
	switch (-rc) {
	case ENOMEM:
		return cordon_err(ctx->err, CORDON_E_NOMEM, 0, "out of memory");
	case E2BIG:
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, 0,
				  "'%s' needs more than %d files and directories to start", path,
				  DISCOVER_GRANTS_MAX);
	case ENOENT:
	case ENOTDIR:
		return cordon_err(ctx->err, CORDON_E_NOT_FOUND, -rc, "cannot find '%s'", path);
	case EISDIR:
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, 0, "'%s' is a directory",
				  path);
	default:
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, -rc, "cannot execute '%s'",
				  path);
	}
}

/* A link in a directory of shims stands for the version manager around it (mise, asdf). */
static int grant_shims(struct discover_ctx *ctx, const char *path)
{
	size_t len = prefix_len(path);
	const char *prefix;

	if (len == 0 || strncmp(path + len, "/shims/", 7) != 0)
		return 0;
	prefix = arena_strndup(ctx->arena, path, len);
	if (!prefix)
		return -ENOMEM;
	return discover_tree_allowed(ctx->in->home, prefix) ? grants_tree(ctx, prefix) : 0;
}

static int grant_installation(struct discover_ctx *ctx, const char *path,
			      const struct discover_resolved *res)
{
	const char *cwd = ctx->in->cwd;
	bool derived = ctx->derived;
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < res->n_hops; i++) {
		if (!res->hops[i].is_file)
			continue;
		rc = grant_shims(ctx, res->hops[i].path);
		if (rc == 0)
			rc = venv_check_program(ctx, res->hops[i].path);
	}
	/* The guest can write links in the workspace. */
	if (path_is_within(cwd, path) && !path_is_within(cwd, res->real))
		ctx->derived = true;
	if (rc == 0)
		rc = prefix_grant(ctx, res->real);
	ctx->derived = derived;
	return rc < 0 ? rc : venv_check_program(ctx, res->real);
}

/*
 * Asking the kernel for the real path of an open file costs as much as four links (3 us), but saves
 * looking at each directory on the way; so not for what is one step from the root.
 */
static int resolve(struct discover_ctx *ctx, const char *path, int fd,
		   struct discover_resolved *ret)
{
	__attribute__((uninitialized)) char real[PATH_MAX];
	int rc;

	if (grants_is_standard_bin(path, path_dir_len(path))) {
		rc = links_resolve(ctx, path, NULL, ret);
		if (rc == 0 || rc == -ENOMEM || rc == -E2BIG)
			return rc;
	}
	rc = disk_fd_path(fd, real, sizeof(real));
	return links_resolve(ctx, path, rc < 0 ? NULL : real, ret);
}

int program_locate(struct discover_ctx *ctx, const char *path, struct program_location *ret)
{
	__attribute__((uninitialized)) struct discover_resolved res;
	int rc;

	ret->is_blind = false;
	ret->fd = disk_open(path, O_RDONLY);
	if (ret->fd == -EACCES) {
		ret->is_blind = true;
		ret->fd = disk_open(path, O_PATH);
	}
	if (ret->fd < 0)
		return ret->fd;
	rc = resolve(ctx, path, ret->fd, &res);
	if (rc < 0)
		return rc;
	/* A memfd or a deleted file has no name that means the same inside. */
	if (res.magic && !disk_exists(res.real))
		return -ENOENT;
	ret->real = res.real;
	ret->magic = res.magic;
	return ctx->files_only ? 0 : grant_installation(ctx, path, &res);
}

static int note_exec_file(struct discover_ctx *ctx, const char *real)
{
	if (!ctx->files_only || strlist_has(&ctx->exec_files, real))
		return 0;
	return strlist_add(ctx->arena, &ctx->exec_files, real) < 0 ? -ENOMEM : 0;
}

static int bad_elf(struct discover_ctx *ctx, int verdict, const char *path)
{
	const char *what = "is a damaged ELF file";

	if (verdict < 0)
		return program_fail(ctx, verdict, path);
	if (verdict == ELF_32BIT)
		what = "is a 32-bit program; only " ARCH_NAME " programs can run";
	else if (verdict == ELF_FOREIGN)
		what = "is a program for another processor architecture";
	else if (verdict == ELF_NO_PROGRAM)
		what = "is an ELF file, but not a program";
	return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOEXEC, "'%s' %s", path, what);
}

/* A loader outside the system directories must be one: a workspace's binary may name any file. */
static int check_loader(struct discover_ctx *ctx, const char *loader)
{
	CLEANUP(disk_close) int fd = disk_open(loader, O_RDONLY);
	__attribute__((uninitialized)) unsigned char head[DISCOVER_HEAD_MAX];
	const char *unused;
	struct stat st;
	int n;

	if (fd < 0)
		return fd;
	if (disk_stat(loader, &st) < 0 || disk_can_execute(loader, &st) < 0)
		return -EACCES;
	n = disk_read_at(fd, 0, head, sizeof(head));
	if (n < 0 || !elf_is_elf(head, (size_t)n) ||
	    elf_inspect(ctx->arena, fd, head, (size_t)n, &unused) != ELF_FINE)
		return -ELIBBAD;
	return 0;
}

/*
 * Is it the system's loader, as a file or as a link to a neighbour? One system call instead of
 * three, for nearly every program.
 */
static bool is_system_loader(const char *loader)
{
	__attribute__((uninitialized)) char text[PATH_MAX];
	const char *rest = text;
	int rc;

	if (!grants_is_system(loader))
		return false;
	rc = disk_readlink(loader, text, sizeof(text));
	if (rc < 0)
		return rc == -EINVAL;
	if (strncmp(rest, "../lib", 6) == 0)
		rest += 3;
	return !path_has_dotdot(rest) && (rest[0] != '/' || grants_is_system(rest));
}

static int locate_loader(struct discover_ctx *ctx, const char *loader)
{
	__attribute__((uninitialized)) struct discover_resolved res;
	__attribute__((uninitialized)) char real[PATH_MAX];
	CLEANUP(disk_close) int fd = -1;
	bool has_real;
	int rc;

	if (!ctx->files_only && is_system_loader(loader))
		return 0;
	fd = disk_open(loader, O_PATH);
	if (fd < 0)
		return fd;
	has_real = disk_fd_path(fd, real, sizeof(real)) >= 0;
	if (has_real && grants_is_system(loader) && grants_is_system(real)) {
		const char *copy = arena_strdup(ctx->arena, real);

		return copy ? note_exec_file(ctx, copy) : -ENOMEM;
	}
	rc = check_loader(ctx, loader);
	if (rc < 0)
		return rc;
	rc = links_resolve(ctx, loader, has_real ? real : NULL, &res);
	if (rc == 0)
		rc = note_exec_file(ctx, res.real);
	return rc < 0 ? rc : prefix_grant_loader(ctx, res.real);
}

static int add_elf(struct discover_ctx *ctx, const char *path, int fd, const void *head, size_t len)
{
	const char *loader = NULL;
	int rc = elf_inspect(ctx->arena, fd, head, len, &loader);

	if (rc != ELF_FINE)
		return bad_elf(ctx, rc, path);
	if (!loader)
		return 0;
	/* A relative one would depend on the directory it is started in: the workspace's choice. */
	rc = loader[0] == '/' ? locate_loader(ctx, loader) : -ELIBBAD;
	if (rc == -ENOENT || rc == -ENOTDIR) {
		cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOENT,
			   "'%s' needs the loader '%s', which does not exist", path, loader);
		cordon_err_hint(ctx->err, "it was built for another Linux distribution; "
					  "install that loader or rebuild the program");
		return -CORDON_E_NOT_EXECUTABLE;
	}
	if (rc == -ENOMEM || rc == -E2BIG)
		return program_fail(ctx, rc, path);
	if (rc < 0)
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, -rc,
				  "'%s' needs the loader '%s', which cannot be used", path, loader);
	return 0;
}

static int bad_shebang(struct discover_ctx *ctx, const char *path, const char *name, bool is_crlf,
		       int rc)
{
	if (is_crlf) {
		cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOENT,
			   "the first line of '%s' ends in CR LF, so its interpreter is '%s'", path,
			   name);
		cordon_err_hint(ctx->err,
				"give the script Unix line endings: "
				"sed -i 's/\\r$//' '%s'",
				path);
		return -CORDON_E_NOT_EXECUTABLE;
	}
	if (rc == -ENOENT || rc == -ENOTDIR)
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOENT,
				  "'%s' needs the interpreter '%s', which does not exist", path,
				  name);
	return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, rc == -EISDIR ? EISDIR : -rc,
			  "'%s' needs the interpreter '%s', which cannot be executed", path, name);
}

/* `#!/usr/bin/env NAME`: NAME comes from PATH, also inside. */
static int add_env_name(struct discover_ctx *ctx, const char *path, const struct shebang *sb)
{
	const char *name = NULL, *found = NULL;
	int rc;

	rc = shebang_env_name(ctx->arena, sb->arg, &name);
	if (rc < 0)
		return program_fail(ctx, rc, path);
	if (!name || strchr(name, '/'))
		return 0;
	rc = search_name(ctx, name, &found);
	if (rc == -ENOMEM)
		return program_fail(ctx, rc, path);
	if (rc < 0)
		return bad_shebang(ctx, path, name, sb->is_crlf, rc);
	rc = program_add(ctx, found, NULL);
	if (rc < 0)
		return rc;
	rc = grants_path_dir(ctx, found);
	return rc < 0 ? program_fail(ctx, rc, path) : 0;
}

static int add_interpreter(struct discover_ctx *ctx, const char *path, const struct shebang *sb)
{
	bool derived = ctx->derived;
	struct stat st;
	int rc;

	rc = disk_stat(sb->interp, &st);
	if (rc == 0)
		rc = disk_can_execute(sb->interp, &st);
	if (rc < 0)
		return bad_shebang(ctx, path, sb->interp, sb->is_crlf && !sb->arg, rc);
	ctx->derived = true;
	rc = program_add(ctx, sb->interp, NULL);
	ctx->derived = derived;
	return rc;
}

/* The process that executes the script inside is Cordon's at that moment: its program is none of
 * the command's business. */
static bool is_by_magic(const char *interp)
{
	int fd = sys_openat2(AT_FDCWD, interp, O_PATH, RESOLVE_NO_MAGICLINKS);

	if (fd >= 0)
		close(fd);
	return fd == -ELOOP;
}

static int add_script(struct discover_ctx *ctx, const char *path, const struct shebang *sb)
{
	const char *base;
	int rc;

	if (!sb->interp)
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOEXEC,
				  "the '#!' line of '%s' names no interpreter", path);
	if (sb->is_cut)
		return cordon_err(
			ctx->err, CORDON_E_NOT_EXECUTABLE, ENOEXEC,
			"the '#!' line of '%s' is longer than the %d bytes that the kernel "
			"reads",
			path, DISCOVER_SHEBANG_MAX - 1);
	if (sb->interp[0] != '/')
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOEXEC,
				  "'%s' needs the interpreter '%s', which is not an absolute path",
				  path, sb->interp);
	if (is_by_magic(sb->interp)) {
		cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOEXEC,
			   "'%s' needs the interpreter '%s', which is another program inside", path,
			   sb->interp);
		cordon_err_hint(ctx->err, "name the interpreter by its own path");
		return -CORDON_E_NOT_EXECUTABLE;
	}
	if (ctx->depth >= DISCOVER_DEPTH_MAX)
		return cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ELOOP,
				  "'%s' has interpreters that are scripts, more than %d deep", path,
				  DISCOVER_DEPTH_MAX);
	ctx->depth++;
	rc = add_interpreter(ctx, path, sb);
	base = sb->interp + path_dir_len(sb->interp);
	if (rc == 0 && sb->arg && strcmp(base, "/env") == 0)
		rc = add_env_name(ctx, path, sb);
	ctx->depth--;
	return rc;
}

static int add_by_content(struct discover_ctx *ctx, const char *path, int fd, bool *ret_is_script)
{
	__attribute__((uninitialized)) unsigned char head[DISCOVER_HEAD_MAX];
	struct shebang sb = { NULL, NULL, false, false };
	const char *interpreter;
	int rc, n;

	n = disk_read_at(fd, 0, head, sizeof(head));
	if (n < 0)
		return program_fail(ctx, n, path);
	if (elf_is_elf(head, (size_t)n))
		return add_elf(ctx, path, fd, head, (size_t)n);
	rc = shebang_parse(ctx->arena, head, (size_t)n, &sb);
	if (rc < 0)
		return program_fail(ctx, rc, path);
	if (rc > 0) {
		*ret_is_script = true;
		return add_script(ctx, path, &sb);
	}
	cordon_err(ctx->err, CORDON_E_NOT_EXECUTABLE, ENOEXEC,
		   "'%s' is neither an ELF program nor a script that starts with '#!'", path);
	interpreter = missing_interpreter(path);
	cordon_err_hint(ctx->err, "name its interpreter, such as: %s '%s'",
			interpreter ? interpreter : "sh", path);
	return -CORDON_E_NOT_EXECUTABLE;
}

int program_add(struct discover_ctx *ctx, const char *path, const char **ret_exec_path)
{
	struct program_location at = { .fd = -1 };
	bool is_script = false;
	int rc;

	rc = program_locate(ctx, path, &at);
	if (rc == 0)
		rc = note_exec_file(ctx, at.real);
	if (rc < 0)
		rc = program_fail(ctx, rc, path);
	else if (!at.is_blind)
		rc = add_by_content(ctx, path, at.fd, &is_script);
	disk_close(&at.fd);
	if (rc < 0)
		return rc;
	rc = runtimes_grant(ctx, at.real, is_script);
	if (rc < 0)
		return program_fail(ctx, rc, path);
	if (ret_exec_path)
		*ret_exec_path = at.magic ? at.real : path;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fake installations in a temporary directory, for the tests of src/discover.
 *
 * Paths given to the helpers are below the fixture's root; "%" in an expected path stands for it.
 */
#ifndef TESTS_UNIT_TEST_DISCOVER_LIB_H
#define TESTS_UNIT_TEST_DISCOVER_LIB_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "discover/discover.h"
#include "tap.h"

struct fixture {
	char root[64];
	struct arena arena;
	struct discover_input in;
	struct discover_result res;
	struct cordon_error err;
	int rc;
};

#define UNUSED_OK __attribute__((unused))

/* @text with each "%" replaced by the root; lives in the fixture's arena. */
UNUSED_OK static const char *fx(struct fixture *f, const char *text)
{
	const char *head = text, *mark;
	const char *out = arena_strdup(&f->arena, "");

	while ((mark = strchr(head, '%'))) {
		out = arena_printf(&f->arena, "%s%.*s%s", out, (int)(mark - head), head, f->root);
		head = mark + 1;
	}
	return arena_printf(&f->arena, "%s%s", out, head);
}

UNUSED_OK static void fx_dirs_for(struct fixture *f, const char *path)
{
	char full[PATH_MAX], *p;

	snprintf(full, sizeof(full), "%s/%s", f->root, path);
	for (p = full + strlen(f->root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0755);
		*p = '/';
	}
}

UNUSED_OK static const char *fx_path(struct fixture *f, const char *path)
{
	return arena_printf(&f->arena, "%s/%s", f->root, path);
}

UNUSED_OK static void fx_dir(struct fixture *f, const char *path)
{
	fx_dirs_for(f, path);
	if (mkdir(fx_path(f, path), 0755) < 0 && errno != EEXIST)
		abort();
}

UNUSED_OK static void fx_bytes(struct fixture *f, const char *path, const void *data, size_t len,
			       mode_t mode)
{
	FILE *file;

	fx_dirs_for(f, path);
	file = fopen(fx_path(f, path), "we");
	if (!file || fwrite(data, 1, len, file) != len || fclose(file) != 0 ||
	    chmod(fx_path(f, path), mode) < 0)
		abort();
}

/* An executable text; "%" stands for the root. */
UNUSED_OK static void fx_script(struct fixture *f, const char *path, const char *text)
{
	const char *full = fx(f, text);

	fx_bytes(f, path, full, strlen(full), 0755);
}

UNUSED_OK static void fx_file(struct fixture *f, const char *path, const char *text)
{
	const char *full = fx(f, text);

	fx_bytes(f, path, full, strlen(full), 0644);
}

/* A program: a copy of one of the system's. */
UNUSED_OK static void fx_elf(struct fixture *f, const char *path)
{
	static char data[256 << 10];
	FILE *file = fopen("/bin/true", "re");
	size_t len;

	if (!file)
		abort();
	len = fread(data, 1, sizeof(data), file);
	fclose(file);
	fx_bytes(f, path, data, len, 0755);
}

UNUSED_OK static void fx_link(struct fixture *f, const char *path, const char *target)
{
	fx_dirs_for(f, path);
	if (symlink(fx(f, target), fx_path(f, path)) < 0)
		abort();
}

UNUSED_OK static int fx_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

UNUSED_OK static void fx_init(struct fixture *f)
{
	char name[] = "/tmp/discover-XXXXXX", *real;

	memset(f, 0, sizeof(*f));
	if (!mkdtemp(name))
		abort();
	real = realpath(name, NULL);
	if (!real)
		abort();
	snprintf(f->root, sizeof(f->root), "%s", real);
	free(real);
	fx_dir(f, "home/u");
	fx_dir(f, "home/u/proj");
	f->in.home = fx(f, "%/home/u");
	f->in.cwd = fx(f, "%/home/u/proj");
}

UNUSED_OK static void fx_done(struct fixture *f)
{
	nftw(f->root, fx_remove, 16, FTW_DEPTH | FTW_PHYS);
	arena_done(&f->arena);
}

/* Runs the discovery of @command with @path (both with "%") as PATH; NULL: the default. */
UNUSED_OK static int fx_run(struct fixture *f, const char *command, const char *path)
{
	memset(&f->res, 0, sizeof(f->res));
	memset(&f->err, 0, sizeof(f->err));
	f->in.command = fx(f, command);
	f->in.search_path = path ? fx(f, path) : NULL;
	f->rc = discover_program(&f->arena, &f->in, &f->res, &f->err);
	return f->rc;
}

UNUSED_OK static const struct discover_grant *fx_grant(struct fixture *f, int kind,
						       const char *path)
{
	const char *full = fx(f, path);
	size_t i;

	for (i = 0; i < f->res.n_grants; i++)
		if (f->res.grants[i].kind == kind && strcmp(f->res.grants[i].path, full) == 0)
			return &f->res.grants[i];
	return NULL;
}

UNUSED_OK static void fx_show(struct fixture *f)
{
	static const char *const kinds[] = { "TREE", "FILE", "LINK" };
	size_t i;

	if (f->rc < 0)
		printf("# error %d: %s (%s)\n", f->rc, f->err.msg, f->err.hint);
	for (i = 0; i < f->res.n_grants; i++)
		printf("# %s %s %s\n", kinds[f->res.grants[i].kind], f->res.grants[i].path,
		       f->res.grants[i].target ? f->res.grants[i].target : "");
}

/*
 * Checks that the grants are exactly the given ones, in any order: "TREE path", "FILE path",
 * "LINK path -> target", separated by newlines.
 */
UNUSED_OK static void fx_expect(struct fixture *f, const char *file, int line, const char *want)
{
	char *text = arena_strdup(&f->arena, want), *item, *save = NULL;
	unsigned before = tap_failures;
	size_t n = 0;

	if (f->rc < 0)
		tap_fail(file, line, "discovery failed: %s", f->err.msg);
	for (item = strtok_r(text, "\n", &save); item; item = strtok_r(NULL, "\n", &save)) {
		int kind = !strncmp(item, "TREE ", 5)	? DISCOVER_TREE
			   : !strncmp(item, "FILE ", 5) ? DISCOVER_FILE
							: DISCOVER_LINK;
		char *arrow = strstr(item, " -> ");
		const struct discover_grant *grant;

		if (arrow)
			*arrow = '\0';
		grant = fx_grant(f, kind, item + 5);
		if (!grant)
			tap_fail(file, line, "no grant %s", fx(f, item));
		else if (arrow && strcmp(grant->target, fx(f, arrow + 4)) != 0)
			tap_fail(file, line, "%s -> %s", grant->path, grant->target);
		n++;
	}
	if (n != f->res.n_grants)
		tap_fail(file, line, "%zu grants instead of %zu", f->res.n_grants, n);
	if (tap_failures != before)
		fx_show(f);
}

#define EXPECT_GRANTS(f, want) fx_expect((f), __FILE__, __LINE__, (want))

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A tree to plan against, and ways to ask a plan what it says about a path. */
#ifndef TESTS_UNIT_TEST_PLAN_LIB_H
#define TESTS_UNIT_TEST_PLAN_LIB_H

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/plan.h"
#include "plan/plan_read.h"
#include "tap.h"
#include "uapi/landlock.h"

#define NO_SUCH_UID 54321 /* in no user database: the name inside is "user" */

struct fixture {
	char base[PATH_MAX]; /* real path, with the directories project and home in it */
	char root[PATH_MAX]; /* the project, with the directories ws and data: caller's cwd */
	struct cordon_policy *policy;
	struct cordon_run_options options;
	struct probe_machine machine;
	struct cordon_error err;
	const char *argv[4], *env[16];
	char cwd[PATH_MAX], home[PATH_MAX], tmpdir[PATH_MAX];
	int level;
	struct plan_workspace workspace; /* if it has a base */
	const struct plan_private *private_dir;
	const struct plan_private_dir *code;
	struct plan *plan;
};

__attribute__((unused)) static const char *fx_path(const struct fixture *f, const char *name)
{
	static char paths[8][PATH_MAX + 256];
	static unsigned next;
	char *path = paths[next++ % 8];

	if (*name == '/' || !*name)
		snprintf(path, sizeof(paths[0]), "%s", *name ? name : f->root);
	else
		snprintf(path, sizeof(paths[0]), "%s/%s", f->root, name);
	return path;
}

__attribute__((unused)) static void fx_dir(const struct fixture *f, const char *name)
{
	char path[PATH_MAX + 256];

	snprintf(path, sizeof(path), "%s", fx_path(f, name));
	for (char *s = path + strlen(f->root) + 1; (s = strchr(s, '/')) != NULL; s++) {
		*s = '\0';
		mkdir(path, 0755);
		*s = '/';
	}
	CHECK_MSG(mkdir(path, 0755) == 0, "cannot make %s", path);
}

__attribute__((unused)) static void fx_file(const struct fixture *f, const char *name,
					    const char *text)
{
	FILE *file = fopen(fx_path(f, name), "w");

	CHECK_MSG(file != NULL, "cannot make %s", name);
	if (!file)
		return;
	fputs(text, file);
	fclose(file);
}

__attribute__((unused)) static void fx_link(const struct fixture *f, const char *name,
					    const char *text)
{
	CHECK(symlink(text, fx_path(f, name)) == 0);
}

__attribute__((unused)) static void fx_init(struct fixture *f)
{
	char template[] = "/tmp/cordon-plan-XXXXXX";

	memset(f, 0, sizeof(*f));
	if (!mkdtemp(template) || !realpath(template, f->base))
		abort();
	snprintf(f->root, sizeof(f->root), "%.4000s/project", f->base);
	snprintf(f->home, sizeof(f->home), "%.4000s/home", f->base);
	snprintf(f->tmpdir, sizeof(f->tmpdir), "%.4000s/scratch", f->base);
	if (mkdir(f->root, 0755) < 0 || mkdir(f->home, 0700) < 0 || mkdir(f->tmpdir, 0700) < 0)
		abort();
	snprintf(f->cwd, sizeof(f->cwd), "%s", f->root);
	fx_dir(f, "ws");
	fx_dir(f, "data");
	f->machine = (struct probe_machine){ .landlock_abi = 7,
					     .landlock_fs = landlock_fs_rights(7),
					     .landlock_net = landlock_net_rights(7),
					     .landlock_scoped = landlock_scopes(7),
					     .uid = NO_SUCH_UID,
					     .gid = NO_SUCH_UID };
	f->level = PLAN_LEVEL_NAMESPACES;
	f->argv[0] = "/bin/sh";
	f->options = (struct cordon_run_options)CORDON_RUN_OPTIONS_INIT;
	f->options.argv = f->argv;
	f->options.envp = f->env;
	f->options.cwd = f->cwd;
	f->options.home = f->home;
	f->options.search_path = "/usr/bin:/bin";
	if (cordon_policy_new(&f->policy, &f->err) < 0)
		abort();
}

__attribute__((unused)) static int fx_remove(const char *path, const struct stat *st, int type,
					     struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

__attribute__((unused)) static void fx_done(struct fixture *f)
{
	plan_free(f->plan);
	cordon_policy_free(f->policy);
	nftw(f->base, fx_remove, 16, FTW_DEPTH | FTW_PHYS);
}

__attribute__((unused)) static void fx_set(struct fixture *f, const char *key, const char *value)
{
	CHECK_MSG(cordon_policy_set(f->policy, key, value, &f->err) == 0, "%s=%s: %s", key, value,
		  f->err.msg);
}

/* Keeps what init would be told ahead. */
__attribute__((unused)) static int fx_keep_common(void *ctx, const struct plan *common,
						  struct cordon_error *err)
{
	struct plan *kept = ctx;

	(void)err;
	CHECK_INT(plan_read_check(common->block, common->block_size), 0);
	CHECK(!kept->block);
	kept->block = malloc(common->block_size);
	CHECK(kept->block);
	if (kept->block)
		memcpy(kept->block, common->block, common->block_size);
	return 0;
}

/* Plans anew; 0 or the negative code. */
__attribute__((unused)) static int fx_build(struct fixture *f)
{
	struct plan common = { 0 };
	const struct plan_input input = { .policy = f->policy,
					  .options = &f->options,
					  .level = f->level,
					  .machine = &f->machine,
					  .is_main_thread = 1,
					  .tmpdir = f->tmpdir,
					  .workspace = f->workspace.base ? &f->workspace : NULL,
					  .private_dir = f->private_dir,
					  .code = f->code,
					  .common_is_known = fx_keep_common,
					  .ctx = &common };
	struct plan *plan = NULL;
	int r;

	f->err = (struct cordon_error)CORDON_ERROR_INIT;
	r = plan_build(&input, &plan, &f->err);
	if (r == 0 && f->level == PLAN_LEVEL_NAMESPACES)
		CHECK(common.block && plan_has_common(plan, &common));
	if (r == 0 && f->level != PLAN_LEVEL_NAMESPACES)
		CHECK(!common.block);
	free(common.block);
	if (r < 0)
		return r;
	plan_free(f->plan);
	f->plan = plan;
	CHECK_INT(plan_read_check(plan->block, plan->block_size), 0);
	return 0;
}

/* clang-format off */
#define FX_BUILD(f) \
	do { \
		if (fx_build(f) < 0) { \
			tap_fail(__FILE__, __LINE__, "plan: %s", (f)->err.msg); \
			fx_done(f); \
			return; \
		} \
	} while (0)
/* clang-format on */

/* Index of the first step of @type (0 = any) on @name, -1 if there is none. */
__attribute__((unused)) static int op_find(const struct fixture *f, unsigned type, const char *name)
{
	const struct plan_header *h = f->plan->block;
	const char *path = fx_path(f, name);

	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = plan_ops(h) + i;
		const char *at = plan_string(h, op->dst ? op->dst : op->src);

		if ((type == 0 || op->type == type) && strcmp(at, path) == 0)
			return (int)i;
	}
	return -1;
}

__attribute__((unused)) static const struct plan_op *op_get(const struct fixture *f, unsigned type,
							    const char *name)
{
	static const struct plan_op none;
	int i = op_find(f, type, name);

	CHECK_MSG(i >= 0, "no step %s on %s", plan_op_name(type), name);
	return i < 0 ? &none : plan_ops(f->plan->block) + i;
}

__attribute__((unused)) static int is_reserved(const struct fixture *f, const char *name)
{
	for (size_t i = 0; i < f->plan->n_reserved; i++) {
		if (strcmp(f->plan->reserved[i].path, fx_path(f, name)) == 0)
			return 1;
	}
	return 0;
}

__attribute__((unused)) static int list_has(const char **list, const char *part)
{
	for (; *list; list++) {
		if (strstr(*list, part))
			return 1;
	}
	return 0;
}

/* Value of a variable inside, NULL if it is not set. */
__attribute__((unused)) static const char *env_get(const struct fixture *f, const char *name)
{
	const struct plan_header *h = f->plan->block;
	size_t len = strlen(name);

	for (uint32_t i = 0; i < h->n_envp; i++) {
		const char *entry = plan_string(h, plan_envp(h)[i]);

		if (strncmp(entry, name, len) == 0 && entry[len] == '=')
			return entry + len + 1;
	}
	return NULL;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allow-list of programs.
 *
 * Nothing but the listed files gets Landlock's execute right, what can be written is mounted
 * noexec, and directories of programs cannot be read, so that the dynamic loader, which must be
 * executable, finds nothing to load there when it is called by hand. What this cannot promise: a
 * listed interpreter does whatever its script says, and libraries (and programs that a distribution
 * keeps among them) stay readable.
 */
#include <errno.h>
#include <string.h>

#include "plan/plan_internal.h"
#include "seccomp/seccomp.h"

static bool has_file(const struct discover_exec_file *files, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(files[i].path, path) == 0)
			return true;
	}
	return false;
}

/* "~/bin/x" is a path of the policy, too. */
static int with_home(struct build *b, const struct strlist *list, const char ***ret)
{
	char path[PATH_MAX];

	*ret = arena_alloc(b->arena, list->n * sizeof(**ret));
	for (size_t i = 0; *ret && i < list->n; i++) {
		(*ret)[i] = list->v[i];
		if (list->v[i][0] == '~' && plan_typed_path(b, list->v[i], path) >= 0)
			(*ret)[i] = arena_strdup(b->arena, path);
		if (!(*ret)[i])
			return plan_nomem(b);
	}
	return *ret ? 0 : plan_nomem(b);
}

int plan_collect_commands(struct build *b, const struct discover_input *in)
{
	const struct strlist *list = &b->policy->commands;
	/* The calling process runs already, and serving files executes nothing. */
	const bool has_own = !b->in->is_self && !b->in->options->files && b->in->options->argv &&
			     b->in->options->argv[0];
	const char *const own[] = { has_own ? b->in->options->argv[0] : NULL };
	struct discover_exec_file *files = NULL;
	size_t n = 0;
	int r = 0;

	if (b->in->machine->landlock_abi <= 0)
		return cordon_err(
			b->err, CORDON_E_UNSUPPORTED, 0,
			"an allow-list of commands needs Landlock, which this kernel lacks");
	if (has_own)
		r = discover_prefix_for_commands(b->arena, in, own, 1, &files, &n, b->err);
	if (r < 0)
		return r;
	b->exec_files = files;
	b->n_exec_files = n;
	if (list->n > 0) {
		const char **names = NULL;

		r = with_home(b, list, &names);
		if (r < 0)
			return r;
		r = discover_prefix_for_commands(b->arena, in, names, list->n, &b->exec_files,
						 &b->n_exec_files, b->err);
		/* A listed command that does not exist is an error in the policy. */
		if (r == -CORDON_E_NOT_FOUND || r == -CORDON_E_NOT_EXECUTABLE) {
			cordon_err_prefix(b->err, "commands (--commands)");
			if (b->err)
				b->err->code = CORDON_E_POLICY;
			return -CORDON_E_POLICY;
		}
		if (r < 0)
			return r;
	}
	if (!has_own)
		return 0;
	/* The program itself comes first in its own list. */
	if (n == 0 || !has_file(b->exec_files, b->n_exec_files, files[0].path)) {
		r = cordon_err(b->err, CORDON_E_POLICY, 0, "'%s' is not among the allowed commands",
			       own[0]);
		cordon_err_hint(b->err, "add it: --commands %s", own[0]);
		return r;
	}
	return 0;
}

static bool is_program_dir(const char *name)
{
	static const char *const names[] = { "bin", "sbin", "games", "libexec" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static int readable(struct build *b, const char *path, unsigned step_type, bool is_dir)
{
	bool is_rule = step_type == PLAN_OP_RULE;
	struct step *step = plan_step(b, step_type, is_rule ? NULL : path, is_rule ? path : NULL);

	if (!step)
		return plan_nomem(b);
	step->op.flags = (uint16_t)((is_dir ? 0 : PLAN_FILE) | (is_rule ? 0 : PLAN_RDONLY));
	step->op.access = plan_rights(b, RIGHTS_READ, is_dir);
	return 0;
}

/* /usr/local, or a tool that was put beside it as a whole. */
static bool has_programs(struct build *b, const char *dir)
{
	const char *path = plan_join(b, dir, "bin");
	struct stat st;

	return path && lstat(path, &st) == 0;
}

static int split_entry(struct build *b, const char *tree, const char *name, unsigned step_type)
{
	const char *path = plan_join(b, tree, name);
	struct resolved res;

	if (!path)
		return plan_nomem(b);
	if (is_program_dir(name) || plan_is_denied(b, path) || plan_resolve(b, path, &res) < 0 ||
	    res.n_links > 0)
		return 0;
	if (!S_ISDIR(res.st.st_mode) && !S_ISREG(res.st.st_mode))
		return 0;
	if (S_ISDIR(res.st.st_mode) && has_programs(b, path))
		return plan_split_tree(b, path, step_type);
	return readable(b, path, step_type, S_ISDIR(res.st.st_mode));
}

int plan_split_tree(struct build *b, const char *tree, unsigned step_type)
{
	CLEANUP(close_dir) DIR *dir = opendir(tree);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return cordon_err(b->err, CORDON_E_PATH, errno, "cannot list '%s'", tree);
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = split_entry(b, tree, entry->d_name, step_type);
	}
	return r;
}

/* Is @path already in the system part of the view, so that a rule on it is enough? */
static bool is_system_file(const struct build *b, const char *path)
{
	return b->in->level == PLAN_LEVEL_LANDLOCK || plan_in_common(b, path);
}

static int allow_file(struct build *b, const char *path)
{
	struct grant *g;
	struct step *step;
	int r;

	if (plan_is_denied(b, path))
		return 0;
	if (is_system_file(b, path)) {
		step = plan_step(b, PLAN_OP_RULE, NULL, path);
		if (!step)
			return plan_nomem(b);
		step->op.flags = PLAN_FILE;
		step->op.access = plan_rights(b, LL_FS_EXECUTE | LL_FS_READ_FILE, false);
		return 0;
	}
	/* Root's files may lie where init cannot go any more: by descriptor, as a mount of its own.
	 */
	r = plan_add_grant(b, path, GRANT_TOOL, false, &g);
	if (r == 0)
		g->is_exec = true;
	return r;
}

int plan_command_rules(struct build *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && b->in->level == PLAN_LEVEL_NAMESPACES && i < b->n_common;
	     i++) {
		const char *path = b->common[i].path;

		if (strcmp(path, "/usr") == 0)
			r = plan_split_tree(b, path, PLAN_OP_RULE);
		else if (strncmp(path, "/lib", 4) == 0)
			r = readable(b, path, PLAN_OP_RULE, true);
	}
	for (size_t i = 0; r == 0 && i < b->n_exec_files; i++)
		r = allow_file(b, b->exec_files[i].path);
	return r;
}

int plan_choose_filter(const struct build *b)
{
	enum seccomp_variant variant = SECCOMP_NAMESPACES;

	if (b->in->level == PLAN_LEVEL_LANDLOCK)
		variant = seccomp_variant_for_landlock(b->in->machine->landlock_abi);
	if (b->is_commands)
		variant = seccomp_variant_with_commands(variant);
	if (b->in->level == PLAN_LEVEL_LANDLOCK && b->in->proxy_port)
		variant = seccomp_variant_with_net(variant);
	/* A process that confines itself has no init that could send them. */
	if (b->in->level == PLAN_LEVEL_LANDLOCK && !b->in->is_self)
		variant = seccomp_variant_with_signals(variant, b->in->machine->landlock_abi);
	return (int)variant;
}

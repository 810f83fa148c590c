/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's PATH: the caller's, in order, without what the command cannot see.
 *
 * A directory that is left out can make a script fail, or make it run another program of the same
 * name. What a script will call cannot be known, except the words that stand on the command line
 * where a shell takes them for programs: these are looked up, and told (if the shell will not find
 * them, only when it really did not: exit status 127).
 */
#include <string.h>
#include <unistd.h>

#include "plan/plan_internal.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define WORDS_MAX 16 /* of a shell's script, that are looked up */

/* Below the prefix of an installation: where package managers keep tokens. */
static const char *const credentials[] = {
	".condarc", "condarc", ".npmrc",      "etc/npmrc",	  "pip.conf",
	".netrc",   ".pypirc", "credentials", "credentials.toml",
};

/* Is it shown for another reason than that a program lies beside it? */
static bool is_asked_for(const struct build *b, const char *path)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->origin != GRANT_TOOL && path_is_within(g->real, path))
			return true;
	}
	return false;
}

int plan_hide_credentials(struct build *b)
{
	int r = 0;

	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->origin != GRANT_TOOL || !g->is_dir || path_is_within("/etc", g->real))
			continue;
		for (size_t j = 0; r == 0 && j < ARRAY_SIZE(credentials); j++) {
			const char *path = plan_join(b, g->real, credentials[j]);
			struct stat st;

			if (!path)
				return plan_nomem(b);
			if (lstat(path, &st) == 0 && !is_asked_for(b, path))
				r = plan_mark(b, path, MARK_MASK, !S_ISDIR(st.st_mode));
		}
	}
	return r;
}

/* A list of directories, as PATH has it. */
static int append(struct build *b, const char **path, const char *dir)
{
	const char *longer = **path ? arena_printf(b->arena, "%s:%s", *path, dir) : dir;

	if (!longer)
		return plan_nomem(b);
	*path = longer;
	return 0;
}

/* How the command calls a directory of the caller's PATH; NULL = it does not see it. */
static const char *seen_as(struct build *b, const struct discover_path_dir *dir)
{
	if (plan_in_workspace(b, dir->real))
		return plan_workspace_path(b, dir->real);
	if (dir->is_shown)
		return dir->path;
	return plan_is_shown(b, dir->real) ? dir->real : NULL;
}

/* The program's own directories, unless the caller's PATH has them. */
static int put_own_first(struct build *b, const char **path)
{
	const struct discover_result *program = &b->program;
	int r = 0;

	for (size_t i = 0; r == 0 && i < program->n_path_dirs; i++) {
		bool has = false;

		for (size_t j = 0; j < program->n_search; j++)
			has |= strcmp(program->search[j].path, program->path_dirs[i]) == 0;
		if (!has)
			r = append(b, path, program->path_dirs[i]);
	}
	return r;
}

static bool has_program(struct build *b, const char *dir, const char *name)
{
	const char *path = plan_join(b, dir, name);
	struct stat st;

	return path && access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* A word that a shell takes for the name of a program. */
static int check_word(struct build *b, const char *name)
{
	const struct discover_path_dir *search = b->program.search, *hidden = NULL;
	size_t i;

	for (i = 0; i < b->program.n_search; i++) {
		if (!has_program(b, search[i].path, name))
			continue;
		if (seen_as(b, &search[i]))
			break;
		if (!hidden)
			hidden = &search[i];
	}
	if (!hidden)
		return 0;
	if (i < b->program.n_search)
		return plan_note(b,
				 "'%s' is the one in %s: '%s' comes first in PATH, but is not "
				 "shown to the command; show it with -r '%s'",
				 name, search[i].path, hidden->path, hidden->path);
	return plan_late_note(b,
			      "'%s' is in '%s', which is not shown to the command; show it with "
			      "-r '%s'",
			      name, hidden->path, hidden->path);
}

/* The first word of each simple command of a script, where that is plain to see. */
static int check_script(struct build *b, const char *script)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._+-";
	static const char ends[] = ";|&(\n";
	int r = 0;

	for (unsigned n = 0; r == 0 && *script && n < WORDS_MAX; n++) {
		const char *word;
		size_t len;

		script += strspn(script, " \t;|&(\n");
		len = strspn(script, plain);
		if (len > 0 && len <= NAME_MAX && strchr(" \t;|&)\n", script[len])) {
			word = arena_strndup(b->arena, script, len);
			r = word ? check_word(b, word) : plan_nomem(b);
		}
		script += strcspn(script, ends);
	}
	return r;
}

/* sh -c SCRIPT, with any options before. */
static int check_command(struct build *b)
{
	static const char *const shells[] = { "sh", "bash", "dash", "zsh", "ksh", "busybox" };
	const char *const *argv = b->in->options->argv;
	const char *name = argv && argv[0] ? strrchr(argv[0], '/') : NULL;
	bool is_shell = false;

	name = name ? name + 1 : argv ? argv[0] : NULL;
	for (size_t i = 0; name && i < ARRAY_SIZE(shells); i++)
		is_shell |= strcmp(name, shells[i]) == 0;
	for (size_t i = 1; is_shell && argv[i] && (argv[i][0] == '-' || i == 1); i++) {
		size_t len = strlen(argv[i]);

		if (argv[i][0] == '-' && argv[i][1] != '-' && argv[i][len - 1] == 'c')
			return argv[i + 1] ? check_script(b, argv[i + 1]) : 0;
	}
	return 0;
}

int plan_set_path(struct build *b)
{
	const char *path = "", *hidden = "";
	int r = put_own_first(b, &path);

	for (size_t i = 0; r == 0 && i < b->program.n_search; i++) {
		const char *dir = seen_as(b, &b->program.search[i]);

		r = dir ? append(b, &path, dir) : append(b, &hidden, b->program.search[i].path);
	}
	if (r == 0 && b->program.n_search == 0)
		r = append(b, &path, DEFAULT_PATH);
	if (r == 0)
		r = plan_env_set(b, "PATH", *path ? path : DEFAULT_PATH);
	if (r < 0 || !*hidden)
		return r;
	r = check_command(b);
	if (r == 0 && b->late_notes.n == 0)
		r = plan_late_note(b,
				   "not everything in PATH is shown to the command, which may not "
				   "have found a program: '%s'; show a directory with -r DIR",
				   hidden);
	return r;
}

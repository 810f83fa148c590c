/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that is not in PATH: what was probably meant.
 *
 * Nothing here decides what runs. A file of the current directory is named in the hint and never
 * started for its name alone.
 */
#include "discover/discover_internal.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/nearest.h"

/* A suggestion is not worth searching a network share. */
#define SUGGEST_DIRS_MAX 32
#define SUGGEST_ENTRIES_MAX 16384

/* What every shell does itself, as POSIX has it. Programs that exist as well (echo, test, pwd) are
 * found before anyone looks here. */
static const char *const sh_builtins[] = {
	".",	":",	  "alias",    "bg",	 "break", "cd",	   "command", "continue",
	"eval", "exec",	  "exit",     "export",	 "fc",	  "fg",	   "getopts", "hash",
	"jobs", "read",	  "readonly", "return",	 "set",	  "shift", "times",   "trap",
	"type", "ulimit", "umask",    "unalias", "unset", "wait",
};

static const char *const bash_builtins[] = {
	"bind",	  "builtin", "caller", "compgen", "complete", "declare", "dirs",
	"disown", "enable",  "help",   "history", "let",      "local",	 "mapfile",
	"popd",	  "pushd",   "shopt",  "source",  "suspend",  "typeset",
};

/* Scripts that are usually handed to their interpreter. */
static const struct {
	const char *ending, *interpreter;
} scripts[] = {
	{ ".py", "python3" }, { ".sh", "sh" },	 { ".bash", "bash" }, { ".js", "node" },
	{ ".mjs", "node" },   { ".rb", "ruby" }, { ".pl", "perl" },
};

const char *missing_interpreter(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(scripts); i++) {
		if (strcmp(scripts[i].ending, dot) == 0)
			return scripts[i].interpreter;
	}
	return NULL;
}

static bool is_among(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(words[i], word) == 0)
			return true;
	}
	return false;
}

static bool hint_builtin(struct discover_ctx *ctx, const char *name)
{
	const char *shell = "sh";

	if (is_among(bash_builtins, ARRAY_SIZE(bash_builtins), name))
		shell = "bash";
	else if (!is_among(sh_builtins, ARRAY_SIZE(sh_builtins), name))
		return false;
	cordon_err_hint(ctx->err, "it is a shell's own command: cordon run -- %s -c '%s ...'",
			shell, name);
	return true;
}

/* Entries of PATH that were passed over because they are relative. */
static bool hint_relative_entry(struct discover_ctx *ctx, const char *name)
{
	const char *path = ctx->search_path;

	for (unsigned n = 0; *path && n < SUGGEST_DIRS_MAX; n++) {
		const char *dir = path, *typed, *full;
		size_t len = strcspn(dir, ":");
		struct stat st;

		path += len + (dir[len] == ':');
		if (dir[0] == '/')
			continue;
		typed = len ? arena_printf(ctx->arena, "%.*s/%s", (int)len, dir, name)
			    : arena_printf(ctx->arena, "./%s", name);
		full = typed ? arena_printf(ctx->arena, "%s/%s", ctx->in->cwd, typed) : NULL;
		if (!full || disk_stat(full, &st) < 0 || disk_can_execute(full, &st) < 0)
			continue;
		cordon_err_hint(ctx->err, "relative entries of PATH are ignored; it is at '%s'",
				typed);
		return true;
	}
	return false;
}

/* Something of that name in the current directory, which a shell does not search either. */
static bool hint_here(struct discover_ctx *ctx, const char *name)
{
	const char *interpreter = missing_interpreter(name);
	const char *full = arena_printf(ctx->arena, "%s/%s", ctx->in->cwd, name);
	struct stat st;

	if (!full || disk_stat(full, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		cordon_err_hint(ctx->err, "'./%s' is a directory", name);
	else if (!S_ISREG(st.st_mode))
		return false;
	else if (disk_can_execute(full, &st) == 0)
		cordon_err_hint(ctx->err, "did you mean './%s'?", name);
	else if (interpreter)
		cordon_err_hint(ctx->err, "did you mean '%s %s'?", interpreter, name);
	else
		cordon_err_hint(ctx->err,
				"'./%s' is not executable; if it is a program: chmod +x '%s'", name,
				name);
	return true;
}

static void suggest_from(struct discover_ctx *ctx, const char *dir, struct nearest *near,
			 unsigned *budget)
{
	struct dirent *entry;
	DIR *d = opendir(dir);

	while (d && *budget > 0 && (entry = readdir(d))) {
		unsigned before = near->distance;
		const char *best = near->best;

		--*budget;
		if (entry->d_name[0] == '.')
			continue;
		nearest_offer(near, entry->d_name);
		if (near->best != best || near->distance != before) {
			near->best = arena_strdup(ctx->arena, entry->d_name);
			if (!near->best)
				break;
		}
	}
	if (d)
		closedir(d);
}

static void hint_nearest(struct discover_ctx *ctx, const char *name)
{
	unsigned n = 0, budget = SUGGEST_ENTRIES_MAX;
	const char *entries = ctx->search_path, *dir;
	struct nearest near;
	size_t len;

	nearest_init(&near, name);
	while (n++ < SUGGEST_DIRS_MAX && search_next_dir(&entries, &dir, &len)) {
		char *copy = arena_strndup(ctx->arena, dir, len);

		if (copy)
			suggest_from(ctx, copy, &near, &budget);
	}
	if (near.best)
		cordon_err_hint(ctx->err, "did you mean '%s'?", near.best);
}

int missing_name(struct discover_ctx *ctx, const char *name)
{
	cordon_err(ctx->err, CORDON_E_NOT_FOUND, 0, "cannot find '%s' in PATH", name);
	if (ctx->err && *name && strlen(name) <= NAME_MAX && !hint_builtin(ctx, name) &&
	    !hint_relative_entry(ctx, name) && !hint_here(ctx, name))
		hint_nearest(ctx, name);
	return -CORDON_E_NOT_FOUND;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Our own options once more, for another process or a client's configuration. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/path.h"
#include "config.h"

/* Of this call alone. */
static int is_for_us(int id)
{
	return id == OPT_WRAP || id == OPT_WRAP_CONFIG || id == OPT_PRINT_CONFIG ||
	       id == OPT_SELFTEST || id == OPT_YES || id == OPT_HELP;
}

/* A client starts its servers wherever it likes. */
static int is_relative_path(const struct option *o, const char *value)
{
	return (o->complete == COMPLETE_FILE || o->complete == COMPLETE_DIR) && value[0] != '/' &&
	       value[0] != '~';
}

/* @value from the current directory, which is no part of a pattern. 0, or -errno. */
static int make_absolute(const char *value, int is_pattern, char ret[PATH_MAX])
{
	char cwd[PATH_MAX], base[PATH_MAX];
	int r = 0;

	if (!getcwd(cwd, sizeof(cwd)))
		return -errno;
	if (is_pattern)
		r = glob_escape(cwd, base, sizeof(base));
	return r < 0 ? r : path_normalise(is_pattern ? base : cwd, value, ret, PATH_MAX);
}

static int add_option(struct words *w, const struct parsed_option *p, struct cordon_error *err)
{
	const struct option *o = &option_table[p->id];
	const int is_pattern = p->id == OPT_DENY && p->value && glob_is_pattern(p->value);
	const char *value = p->value, *word;
	char path[PATH_MAX];
	int r;

	/* A pattern without a place stands for every place: made absolute, it would deny less. */
	if (value && is_relative_path(o, value) && !(is_pattern && glob_is_anywhere(value))) {
		r = make_absolute(value, is_pattern, path);
		if (r < 0)
			return cordon_err(err, CORDON_E_PATH, -r, "--%s: '%s'", o->name, value);
		value = path;
	}
	word = value ? arena_printf(&w->arena, "--%s=%s", o->name, value)
		     : arena_printf(&w->arena, "--%s", o->name);
	if (!word || strlist_add(&w->arena, &w->list, word) < 0)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return 0;
}

int words_make(struct words *w, const struct parsed *args, struct cordon_error *err)
{
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int r = 0;

	*w = (struct words){ .arena = ARENA_INIT };
	if (len <= 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot find our own file");
	w->program = arena_strndup(&w->arena, path, (size_t)len);
	if (!w->program)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	for (size_t i = 0; r >= 0 && i < args->n_options; i++)
		if (!is_for_us(args->options[i].id))
			r = add_option(w, &args->options[i], err);
	return r;
}

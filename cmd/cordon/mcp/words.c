/* SPDX-License-Identifier: Apache-2.0 */
/* Our own options once more, for another process or a client's configuration. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
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

static int add_option(struct words *w, const struct parsed_option *p, struct cordon_error *err)
{
	const struct option *o = &option_table[p->id];
	char cwd[PATH_MAX], path[PATH_MAX];
	const char *value = p->value, *word;
	int r;

	if (value && is_relative_path(o, value)) {
		r = getcwd(cwd, sizeof(cwd)) ? path_normalise(cwd, value, path, sizeof(path))
					     : -errno;
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packages for a run. The installer's lines are shown on a terminal as they come, one in the place
 * of the other, and with -v all of them. If it fails, its last lines are shown wherever messages
 * go.
 *
 * Ctrl-C ends the command here as usual, and the installer's sandbox with it.
 */
#include "packages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "out.h"
#include "verbs.h"

#define TAIL_LINES 12
#define LINE_MAX_BYTES 400

struct view {
	int is_terminal, is_verbose;
	int has_line; /* one that goes away */
	char tail[TAIL_LINES][LINE_MAX_BYTES];
	size_t n;
};

/* Reachable until the end: the layers are in use as long as the run. */
static struct cordon_packages *used;
static char *search_path;
static const char *const *specs, *const *files;

static void clear_line(struct view *v)
{
	if (v->has_line)
		(void)write_full(STDERR_FILENO, "\r\033[K", 4);
	v->has_line = 0;
}

/* As much as fits, and no part of a character. */
static size_t fitting(const char *line, size_t room)
{
	size_t len = strlen(line);

	len = len < room ? len : room;
	while (len > 0 && line[len] && ((unsigned char)line[len] & 0xc0) == 0x80)
		len--;
	return len;
}

static void show_line(struct view *v, const char *line)
{
	static const char prefix[] = "\r\033[Kcordon: packages: ";
	struct winsize size = { 0 };
	struct strbuf sb = STRBUF_INIT;
	size_t width = 80;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 30)
		width = size.ws_col;
	strbuf_puts(&sb, prefix);
	strbuf_add(&sb, line, fitting(line, width - (sizeof(prefix) - 4)));
	if (!sb.failed)
		(void)write_full(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
	v->has_line = 1;
}

static int told_line(void *arg, const char *line)
{
	struct view *v = arg;

	snprintf(v->tail[v->n++ % TAIL_LINES], LINE_MAX_BYTES, "%s", line);
	if (v->is_verbose)
		say_line("packages: %s", line);
	else if (v->is_terminal)
		show_line(v, line);
	return 0;
}

static void show_tail(const struct view *v)
{
	size_t first = v->n > TAIL_LINES ? v->n - TAIL_LINES : 0;

	if (v->is_verbose)
		return;
	for (size_t i = first; i < v->n; i++)
		say_line("packages: %s", v->tail[i % TAIL_LINES]);
}

/* The values of an option, NULL-terminated. Never freed: a command parses once. */
static const char *const *values_of(const struct parsed *args, int id)
{
	const char **values = calloc(args->n_options + 1, sizeof(*values));
	size_t n = 0;

	for (size_t i = 0; values && i < args->n_options; i++) {
		if (args->options[i].id == id)
			values[n++] = args->options[i].value;
	}
	return values;
}

/* The interpreter that the command line names, otherwise the one in PATH. */
static const char *python_of(const struct parsed *args)
{
	const char *program = args->n_rest ? args->rest[0] : ""; /* a session may have none */
	const char *slash = strrchr(program, '/');
	const char *name = slash ? slash + 1 : program;

	return strncmp(name, "python", 6) == 0 && !name[6 + strspn(name + 6, "0123456789.")]
		       ? program
		       : NULL;
}

/* Programs of packages come before others, as in a virtual environment. */
static int put_in_path(struct cordon_run_options *options, struct cordon_error *err)
{
	const char *const *dirs;
	struct strbuf sb = STRBUF_INIT;
	const char *path = getenv("PATH");

	cordon_packages_needs(used, NULL, NULL, &dirs);
	for (; *dirs; dirs++) {
		if (access(*dirs, X_OK) < 0)
			continue;
		strbuf_puts(&sb, *dirs);
		strbuf_putc(&sb, ':');
	}
	if (!sb.len)
		return 0;
	strbuf_puts(&sb, path && *path ? path : "/usr/local/bin:/usr/bin:/bin");
	search_path = strbuf_take(&sb);
	if (!search_path)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	options->search_path = search_path;
	return 0;
}

static int refuse_leftover(const struct parsed *args, struct cordon_error *err)
{
	if (!parsed_has(args, OPT_WITH_BUILD))
		return 0;
	(void)cordon_err(err, CORDON_E_USAGE, 0, "--with-build says how, but no package is named");
	(void)cordon_err_hint(err, "name one with --with");
	return -CORDON_E_USAGE;
}

int packages_use(const struct parsed *args, struct cordon_launcher *launcher,
		 struct cordon_policy *policy, struct cordon_run_options *options,
		 struct cordon_error *err)
{
	struct cordon_packages_options wanted = CORDON_PACKAGES_OPTIONS_INIT;
	struct view v = { .is_terminal = isatty(STDERR_FILENO) && !parsed_has(args, OPT_QUIET),
			  .is_verbose = parsed_has(args, OPT_VERBOSE) };
	const char *space = getenv("CORDON_PACKAGE_SPACE");
	int r;

	if (!parsed_has(args, OPT_WITH) && !parsed_has(args, OPT_WITH_FILE))
		return refuse_leftover(args, err);
	specs = values_of(args, OPT_WITH);
	files = values_of(args, OPT_WITH_FILE);
	if (!specs || !files)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	wanted.specs = specs;
	wanted.files = files;
	wanted.may_build = parsed_has(args, OPT_WITH_BUILD);
	wanted.only_cached = parsed_has(args, OPT_DRY_RUN);
	wanted.python = python_of(args);
	wanted.envp = options->envp;
	wanted.home = options->home;
	wanted.isolation = parsed_value(args, OPT_ISOLATION);
	wanted.hosts = getenv("CORDON_PACKAGE_HOSTS");
	if (space && units_parse_size(space, &wanted.max_bytes, err) < 0) {
		cordon_err_prefix(err, "CORDON_PACKAGE_SPACE");
		return -err->code;
	}
	wanted.policy = policy;
	wanted.line = told_line;
	wanted.arg = &v;
	r = cordon_packages_install(launcher, &wanted, &used, err);
	clear_line(&v);
	if (r < 0 && err->code == CORDON_E_SETUP)
		show_tail(&v);
	if (r < 0 && err->code == CORDON_E_STATE && wanted.only_cached)
		(void)cordon_err_hint(err, "run it once without --dry-run");
	if (r < 0)
		return r;
	r = cordon_packages_apply(used, policy, options->envp, err);
	return r < 0 ? r : put_in_path(options, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cordon check: what this machine offers. */
#include <string.h>
#include <unistd.h>

#include <cordon/check.h>

#include "base/err.h"
#include "out.h"
#include "verbs.h"

/* Decided by the best level, so that scripts can tell "all", "some" and "nothing" apart. */
static int status_of_level(int level)
{
	if (level >= CORDON_LEVEL_NAMESPACES)
		return 0;
	return level == CORDON_LEVEL_LANDLOCK ? 1 : STATUS_FAILED;
}

static const char *color_of_state(const char *state)
{
	if (!strcmp(state, "yes"))
		return "\033[32m";
	return !strcmp(state, "no") ? "\033[31m" : "\033[33m";
}

static void add_item(struct strbuf *sb, const struct cordon_check_item *item, int width, int color)
{
	strbuf_printf(sb, "  %-*s  %s%-7s%s  ", width, item->name,
		      color ? color_of_state(item->state) : "", item->state,
		      color ? "\033[0m" : "");
	if (item->detail)
		strbuf_add_escaped(sb, item->detail, strlen(item->detail));
	/* No blanks at the end of a line without a detail. */
	while (sb->len && sb->data[sb->len - 1] == ' ')
		sb->len--;
	strbuf_putc(sb, '\n');
	if (item->remedy && *item->remedy) {
		strbuf_printf(sb, "  %-*s           ", width, "");
		strbuf_puts(sb, "remedy: ");
		strbuf_add_escaped(sb, item->remedy, strlen(item->remedy));
		strbuf_putc(sb, '\n');
	}
}

static int print_table(const struct cordon_check *check)
{
	size_t n = cordon_check_count(check);
	int level = cordon_check_level(check);
	int color = out_has_color(STDOUT_FILENO);
	struct strbuf sb = STRBUF_INIT;
	size_t width = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(cordon_check_item(check, i)->name);

		width = len > width ? len : width;
	}
	if (level > CORDON_LEVEL_AUTO)
		strbuf_printf(&sb, "cordon %s: the best level here is %s\n", cordon_version(),
			      cordon_level_name(level));
	else
		strbuf_printf(&sb, "cordon %s: no level works here\n", cordon_version());
	for (size_t i = 0; i < n; i++)
		add_item(&sb, cordon_check_item(check, i), (int)width, color);
	return out_finish(&sb, status_of_level(level));
}

static int print_json(const struct cordon_check *check)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	char *text;

	if (cordon_check_to_json(check, &text, &err) < 0) {
		say_error(&err);
		return STATUS_FAILED;
	}
	strbuf_puts(&sb, text);
	strbuf_putc(&sb, '\n');
	cordon_free(text);
	return out_finish(&sb, status_of_level(cordon_check_level(check)));
}

int cmd_check(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_check *check = NULL;
	int status;

	if (args->n_rest) {
		cordon_err(&err, CORDON_E_USAGE, 0, "'check' takes no argument '%s'",
			   args->rest[0]);
		cordon_err_hint(&err, "try 'cordon check --help'");
		say_error(&err);
		return STATUS_FAILED;
	}
	if (cordon_launcher_new(&launcher, &err) < 0 ||
	    cordon_check_new(launcher, &check, &err) < 0) {
		say_error(&err);
		cordon_launcher_free(launcher);
		return STATUS_FAILED;
	}
	if (parsed_has(args, OPT_JSON))
		status = print_json(check);
	else
		status = print_table(check);
	cordon_check_free(check);
	cordon_launcher_free(launcher);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Help texts, made from the tables of verbs and options. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "out.h"
#include "verbs.h"

#define OPTION_COLUMN 28
#define VERB_COLUMN 22
#define USAGE_MAX 70 /* and " [ARG...]", on a terminal of 80 columns */

static int help_write(int fd, struct strbuf *sb)
{
	if (fd == STDOUT_FILENO)
		return out_finish(sb, 0);
	if (!sb->failed)
		(void)write_full(fd, sb->data, sb->len);
	strbuf_done(sb);
	return 0;
}

static void add_option(struct strbuf *sb, const struct option *o)
{
	char left[64];

	if (o->letter)
		snprintf(left, sizeof(left), "-%c, --%s%s%s", o->letter, o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
	else
		snprintf(left, sizeof(left), "    --%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
	strbuf_printf(sb, "  %-*s %s\n", OPTION_COLUMN - 3, left, o->help);
}

/* So that the help of `run` and `session start` leaves room for examples, these are only named
 * there. */
static int is_rare(int verb, int id)
{
	static const int rare[] = {
		OPT_FROM,	   OPT_WITH_BUILD,  OPT_NET_DENY,  OPT_WARM,
		OPT_NET_MAX,	   OPT_NET_LOG,	    OPT_USER,	   OPT_REQUIRE,
		OPT_OPEN_FILES,	   OPT_FILE_SIZE,   OPT_CPU_TIME,  OPT_GRACE,
		OPT_END_ON_OUTPUT, OPT_BEST_EFFORT, OPT_ISOLATION, OPT_DRY_RUN
	};

	const int has_rare = verb == VERB_RUN || verb == VERB_SESSION_START ||
			     verb == VERB_POOL_START || verb == VERB_MCP;

	for (size_t i = 0; has_rare && i < sizeof(rare) / sizeof(*rare); i++) {
		if (rare[i] == id && (option_table[id].verbs & VERB_BIT(verb)))
			return 1;
	}
	return 0;
}

static void add_rare(struct strbuf *sb, int verb)
{
	size_t column = 0;

	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];
		char word[64];

		if (!is_rare(verb, i))
			continue;
		snprintf(word, sizeof(word), " --%s%s%s", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		if (column == 0)
			strbuf_puts(sb, "More (see cordon-run(1)):");
		if (column == 0 || column + strlen(word) > 78) {
			strbuf_puts(sb, "\n ");
			column = 1;
		}
		strbuf_puts(sb, word);
		column += strlen(word);
	}
	if (column)
		strbuf_putc(sb, '\n');
}

static int takes_option_of(int verb, int group)
{
	for (int i = 0; i < OPT_MAX; i++) {
		if ((option_table[i].verbs & VERB_BIT(verb)) && option_table[i].group == group)
			return 1;
	}
	return 0;
}

static void add_group(struct strbuf *sb, int verb, int group)
{
	/* A verb with a handful of options needs no sections. */
	int alone = !takes_option_of(verb, GROUP_FILES);

	/* No blank line between groups: the longest help just fits a screen. */
	strbuf_printf(sb, "%s%s:\n", alone ? "\n" : "",
		      alone ? "Options" : option_group_names[group]);
	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];

		if ((o->verbs & VERB_BIT(verb)) && o->group == group && !is_rare(verb, i))
			add_option(sb, o);
	}
}

int help_verb(int fd, int verb)
{
	const struct verb *v = &verb_table[verb];
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "Usage: cordon %s%s%s\n%c%s.\n", v->name, v->operands[0] ? " " : "",
		      v->operands, v->summary[0] - 'a' + 'A', v->summary + 1);
	for (int group = 0; group < GROUP_MAX; group++) {
		if (takes_option_of(verb, group))
			add_group(&sb, verb, group);
	}
	add_rare(&sb, verb);
	if (v->more)
		strbuf_printf(&sb, "\n%s", v->more);
	return help_write(fd, &sb);
}

static void add_verb(struct strbuf *sb, int verb)
{
	strbuf_printf(sb, "  %-*s %s\n", VERB_COLUMN - 3, verb_table[verb].name,
		      verb_table[verb].summary);
}

int help_top(int fd)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, "Usage: cordon VERB [ARG...]\n"
			 "Run untrusted code in a sandbox.\n\n"
			 "Verbs:\n");
	for (int i = 0; i < VERB_MAX; i++)
		add_verb(&sb, i);
	strbuf_puts(&sb, "\nOptions:\n"
			 "  -h, --help      print this help; 'cordon VERB --help' explains a verb\n"
			 "  -V, --version   print the version\n"
			 "\nExamples:\n"
			 "  cordon run -- python3 script.py\n"
			 "  cordon run -w . -t 30s -- make test\n"
			 "  cordon run --json -- sh -c 'echo hello'\n");
	return help_write(fd, &sb);
}

int help_group(int fd, const struct verb_group *group)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "Usage: cordon %s ", group->name);
	verb_group_words(group, "|", &sb);
	/* Too many verbs for a line are listed below it only. */
	if (sb.len > USAGE_MAX) {
		strbuf_done(&sb);
		sb = (struct strbuf)STRBUF_INIT;
		strbuf_printf(&sb, "Usage: cordon %s VERB", group->name);
	}
	strbuf_printf(&sb, " [ARG...]\n%s\n\nVerbs:\n", group->summary);
	for (int i = 0; i < VERB_MAX; i++) {
		if (verb_in_group(i, group))
			add_verb(&sb, i);
	}
	return help_write(fd, &sb);
}

int cmd_help(const struct parsed *args)
{
	const struct verb_group *group;
	size_t words = 0;
	int verb;

	if (!args->n_rest)
		return help_top(STDOUT_FILENO);
	verb = verb_find(args->rest[0], args->rest[1], &words);
	if (verb >= 0)
		return help_verb(STDOUT_FILENO, verb);
	group = verb_group_find(args->rest[0]);
	if (group && !args->rest[1])
		return help_group(STDOUT_FILENO, group);
	return verb_unknown(args->rest[0], args->rest[1]);
}

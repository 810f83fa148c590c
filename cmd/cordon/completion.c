/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion scripts for bash, zsh and fish, made from the tables of verbs and options.
 *
 * The texts in the tables have no quotes, brackets or colons that a shell would interpret; the
 * tests feed each script to its shell.
 */
#include <string.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "frameworks.h"
#include "out.h"
#include "verbs.h"

static int takes(int verb, const struct option *o)
{
	return (o->verbs & VERB_BIT(verb)) != 0;
}

/* Adds the first words of the verbs, each once, with a blank after each. */
static void add_verb_words(struct strbuf *sb)
{
	for (int i = 0; i < VERB_MAX; i++) {
		const char *name = verb_table[i].name;
		size_t len = strcspn(name, " ");

		if (i > 0 && !strncmp(verb_table[i - 1].name, name, len + 1))
			continue;
		strbuf_add(sb, name, len);
		strbuf_putc(sb, ' ');
	}
}

/* The rest of "is it the first word?", after the command that offers words, and a case for each
 * group. @close ends that command. */
static void add_groups(struct strbuf *sb, const char *close,
		       void (*add)(struct strbuf *sb, const struct verb_group *group))
{
	add_verb_words(sb);
	strbuf_printf(sb, "--help --version%s\n\t\treturn\n\tfi\n\tcase $verb in\n", close);
	for (size_t i = 0; i < VERB_GROUPS; i++)
		add(sb, &verb_groups[i]);
	strbuf_puts(sb, "\tesac\n");
}

/* Adds the frameworks of `cordon new`. */
static void add_framework_words(struct strbuf *sb)
{
	for (size_t i = 0; i < FRAMEWORKS; i++)
		strbuf_printf(sb, "%s%s", i ? " " : "", frameworks[i].name);
}

/* "-r|--read", for a case label. */
static void add_pattern(struct strbuf *sb, const struct option *o)
{
	if (o->letter)
		strbuf_printf(sb, "-%c|", o->letter);
	strbuf_printf(sb, "--%s", o->name);
}

static void add_bash_values(struct strbuf *sb)
{
	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];

		if (!o->arg)
			continue;
		strbuf_puts(sb, "\t");
		add_pattern(sb, o);
		if (o->complete == COMPLETE_FILE)
			strbuf_puts(sb, ") COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n");
		else if (o->complete == COMPLETE_DIR)
			strbuf_puts(sb, ") COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n");
		else if (o->complete == COMPLETE_WORDS)
			strbuf_printf(sb, ") COMPREPLY=($(compgen -W '%s' -- \"$cur\")) ;;\n",
				      o->words);
		else
			strbuf_puts(sb, ") COMPREPLY=() ;;\n");
	}
}

/* A case that is true for each option that takes a value in the next word. */
static void add_bash_value_options(struct strbuf *sb)
{
	int first = 1;

	for (int i = 0; i < OPT_MAX; i++) {
		if (!option_table[i].arg)
			continue;
		if (!first)
			strbuf_putc(sb, '|');
		first = 0;
		add_pattern(sb, &option_table[i]);
	}
}

static void add_bash_options(struct strbuf *sb, int verb)
{
	strbuf_printf(sb, "\t'%s') words='", verb_table[verb].name);
	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];

		if (!takes(verb, o))
			continue;
		strbuf_printf(sb, "--%s ", o->name);
		if (o->letter)
			strbuf_printf(sb, "-%c ", o->letter);
	}
	strbuf_puts(sb, "' ;;\n");
}

/* What may come where neither an option nor a value is expected. */
static void add_bash_operands(struct strbuf *sb)
{
	strbuf_puts(sb, "\tif [[ $verb == run || $verb == 'policy show' ]] &&\n"
			"\t\t[[ $i -lt COMP_CWORD || $cur != -* || $prev == -- ]]; then\n"
			"\t\t_cordon_command \"$i\"\n"
			"\telif [[ $verb == 'session exec' && $i -lt COMP_CWORD ]]; then\n"
			"\t\t[[ $i -eq COMP_CWORD-1 || ${COMP_WORDS[i+1]} != -- ]] || ((i++))\n"
			"\t\t_cordon_command $((i + 1))\n"
			"\telif [[ $verb == mcp && ${COMP_WORDS[i-1]} == -- ]]; then\n"
			"\t\t_cordon_command \"$i\"\n"
			"\telif [[ $cur == -* ]]; then\n"
			"\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
			"\telif [[ $verb == completion ]]; then\n"
			"\t\tCOMPREPLY=($(compgen -W 'bash zsh fish' -- \"$cur\"))\n"
			"\telif [[ $verb == help ]]; then\n"
			"\t\tCOMPREPLY=($(compgen -W '");
	add_verb_words(sb);
	strbuf_puts(sb, "' -- \"$cur\"))\n"
			"\telif [[ $verb == new && $i -lt COMP_CWORD ]]; then\n"
			"\t\tCOMPREPLY=($(compgen -d -- \"$cur\"))\n"
			"\telif [[ $verb == new ]]; then\n"
			"\t\tCOMPREPLY=($(compgen -W '");
	add_framework_words(sb);
	strbuf_puts(
		sb,
		"' -- \"$cur\"))\n"
		"\telif [[ $verb == 'policy validate' ]]; then\n"
		"\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
		"\telif [[ $verb == 'workspace discard' ]] ||\n"
		"\t\t[[ $verb == workspace\\ @(status|diff|commit|export) && $i -eq COMP_CWORD ]]; "
		"then\n"
		"\t\tCOMPREPLY=($(compgen -W \"$(_cordon_workspaces)\" -- \"$cur\"))\n"
		"\telif [[ $verb == 'session start' || $verb == 'pool start' ]]; then\n"
		"\t\t((i < COMP_CWORD)) || COMPREPLY=($(compgen -c -- \"$cur\" | sort -u))\n"
		"\telif [[ $verb == @(inspect|kill|logs|wait) ]]; then\n"
		"\t\tCOMPREPLY=($(compgen -W \"$(_cordon_listed RUN)\" -- \"$cur\"))\n"
		"\telif [[ $verb == session\\ * && $i -eq COMP_CWORD ]]; then\n"
		"\t\tCOMPREPLY=($(compgen -W \"$(_cordon_listed NAME)\" -- \"$cur\"))\n"
		"\telif [[ $verb == 'session put' && $i -eq COMP_CWORD-1 ]] ||\n"
		"\t\t[[ $verb == 'session get' && $i -eq COMP_CWORD-2 ]]; then\n"
		"\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
		"\tfi\n");
}

/* A case for a verb of two words. */
static void add_bash_group(struct strbuf *sb, const struct verb_group *group)
{
	strbuf_printf(sb,
		      "\t%s)\n"
		      "\t\tif ((COMP_CWORD == 2)); then\n"
		      "\t\t\tCOMPREPLY=($(compgen -W '",
		      group->name);
	verb_group_words(group, " ", sb);
	strbuf_printf(sb,
		      "' -- \"$cur\"))\n"
		      "\t\t\treturn\n"
		      "\t\tfi\n"
		      "\t\tverb=\"%s ${COMP_WORDS[2]}\" first=3 ;;\n",
		      group->name);
}

static void make_bash(struct strbuf *sb)
{
	strbuf_puts(sb, "# bash completion for cordon; made by 'cordon completion bash'\n"
			"_cordon_value() {\n"
			"\tcase $1 in\n");
	add_bash_values(sb);
	strbuf_puts(sb, "\t*) return 1 ;;\n"
			"\tesac\n"
			"}\n"
			"_cordon_workspaces() {\n"
			"\tlocal id name rest\n"
			"\t\"${COMP_WORDS[0]}\" workspace list 2>/dev/null | while read -r id name "
			"rest; do\n"
			"\t\t[[ $id == ID ]] && continue\n"
			"\t\t[[ $name == - ]] && echo \"$id\" || echo \"$name\"\n"
			"\tdone\n"
			"}\n"
			"_cordon_listed() {\n"
			"\tlocal id rest table\n"
			"\t\"${COMP_WORDS[0]}\" ps 2>/dev/null | while read -r id rest; do\n"
			"\t\tcase $id in\n"
			"\t\tNAME|RUN) table=$id ;;\n"
			"\t\t*) [[ $table != \"$1\" || -z $id ]] || echo \"$id\" ;;\n"
			"\t\tesac\n"
			"\tdone\n"
			"}\n"
			"_cordon_command() {\n"
			"\tif declare -F _command_offset >/dev/null; then\n"
			"\t\t_command_offset \"$1\"\n"
			"\telif (($1 == COMP_CWORD)); then\n"
			"\t\tCOMPREPLY=($(compgen -c -f -- \"$cur\" | sort -u))\n"
			"\telse\n"
			"\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
			"\tfi\n"
			"}\n"
			"_cordon() {\n"
			"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
			"\tlocal verb=${COMP_WORDS[1]} words='' first=2 i\n"
			"\tCOMPREPLY=()\n"
			"\tif ((COMP_CWORD == 1)); then\n"
			"\t\tCOMPREPLY=($(compgen -W '");
	add_groups(sb, "' -- \"$cur\"))", add_bash_group);
	strbuf_puts(sb, "\tfor ((i = first; i < COMP_CWORD; i++)); do\n"
			"\t\tcase ${COMP_WORDS[i]} in\n"
			"\t\t--) ((i++)); break ;;\n\t\t");
	add_bash_value_options(sb);
	strbuf_puts(sb, ") ((i++)) ;;\n"
			"\t\t-*) ;;\n"
			"\t\t*) break ;;\n"
			"\t\tesac\n"
			"\tdone\n"
			"\tif ((i > COMP_CWORD)); then\n"
			"\t\t_cordon_value \"$prev\"\n"
			"\t\treturn\n"
			"\tfi\n"
			"\tcase $verb in\n");
	for (int i = 0; i < VERB_MAX; i++)
		add_bash_options(sb, i);
	strbuf_puts(sb, "\tesac\n");
	add_bash_operands(sb);
	strbuf_puts(sb, "}\n"
			"complete -o filenames -F _cordon cordon\n");
}

static void add_zsh_option(struct strbuf *sb, const struct option *o)
{
	static const char *const actions[] = {
		[COMPLETE_NONE] = " ",
		[COMPLETE_FILE] = "_files",
		[COMPLETE_DIR] = "_directories",
	};

	strbuf_puts(sb, "\t\t\t'*'");
	if (o->letter)
		strbuf_printf(sb, "{-%c%s,--%s%s}", o->letter, o->arg ? "+" : "", o->name,
			      o->arg ? "=" : "");
	else
		strbuf_printf(sb, "--%s%s", o->name, o->arg ? "=" : "");
	strbuf_printf(sb, "'[%s]", o->help);
	if (o->arg) {
		strbuf_puts(sb, ":value:");
		if (o->complete == COMPLETE_WORDS)
			strbuf_printf(sb, "(%s)", o->words);
		else
			strbuf_puts(sb, actions[o->complete]);
	}
	strbuf_puts(sb, "' \\\n");
}

static void add_zsh_verb(struct strbuf *sb, int verb)
{
	strbuf_printf(sb, "\t'%s')\n\t\t_arguments -s -S \\\n", verb_table[verb].name);
	for (int i = 0; i < OPT_MAX; i++) {
		if (takes(verb, &option_table[i]))
			add_zsh_option(sb, &option_table[i]);
	}
	if (verb == VERB_RUN || verb == VERB_POLICY_SHOW)
		strbuf_puts(sb,
			    "\t\t\t'(-)1:command: _command_names -e' '*::argument: _normal' ;;\n");
	else if (verb == VERB_WHY)
		strbuf_puts(sb, "\t\t\t'1:path or host or program:_files' ;;\n");
	else if (verb == VERB_EXPLAIN)
		strbuf_puts(sb, "\t\t\t'1:receipt:_files' ;;\n");
	else if (verb == VERB_POLICY_VALIDATE)
		strbuf_puts(sb, "\t\t\t'*:policy file:_files' ;;\n");
	else if (verb == VERB_COMPLETION)
		strbuf_puts(sb, "\t\t\t'1:shell:(bash zsh fish)' ;;\n");
	else if (verb == VERB_NEW) {
		strbuf_puts(sb, "\t\t\t'1:framework:(");
		add_framework_words(sb);
		strbuf_puts(sb, ")' '2:directory:_directories' ;;\n");
	} else
		strbuf_puts(sb, "\t\t\t'*: : ' ;;\n");
}

static void add_zsh_group(struct strbuf *sb, const struct verb_group *group)
{
	strbuf_printf(sb,
		      "\t%s)\n"
		      "\t\tif ((CURRENT == 3)); then\n"
		      "\t\t\tcompadd -- ",
		      group->name);
	verb_group_words(group, " ", sb);
	strbuf_printf(sb,
		      "\n\t\t\treturn\n"
		      "\t\tfi\n"
		      "\t\tverb=\"%s ${words[3]}\"\n"
		      "\t\tshift words\n"
		      "\t\t((CURRENT--)) ;;\n",
		      group->name);
}

static void make_zsh(struct strbuf *sb)
{
	strbuf_puts(sb, "#compdef cordon\n"
			"# zsh completion for cordon; made by 'cordon completion zsh'\n"
			"_cordon() {\n"
			"\tlocal verb=${words[2]}\n"
			"\tif ((CURRENT == 2)); then\n"
			"\t\tcompadd -- ");
	add_groups(sb, "", add_zsh_group);
	strbuf_puts(sb, "\tshift words\n"
			"\t((CURRENT--))\n"
			"\tcase $verb in\n");
	for (int i = 0; i < VERB_MAX; i++)
		add_zsh_verb(sb, i);
	strbuf_puts(sb, "\tesac\n"
			"}\n"
			"if [[ $funcstack[1] == _cordon ]]; then\n"
			"\t_cordon \"$@\"\n"
			"else\n"
			"\tcompdef _cordon cordon\n"
			"fi\n");
}

static void add_fish_option(struct strbuf *sb, const char *condition, const struct option *o)
{
	strbuf_printf(sb, "complete -c cordon -n '%s' -l %s", condition, o->name);
	if (o->letter)
		strbuf_printf(sb, " -s %c", o->letter);
	if (o->complete == COMPLETE_FILE)
		strbuf_puts(sb, " -r -F");
	else if (o->complete == COMPLETE_DIR)
		strbuf_puts(sb, " -x -a '(__fish_complete_directories)'");
	else if (o->complete == COMPLETE_WORDS)
		strbuf_printf(sb, " -x -a '%s'", o->words);
	else if (o->arg)
		strbuf_puts(sb, " -x");
	strbuf_printf(sb, " -d '%s'\n", o->help);
}

static void add_fish_group(struct strbuf *sb, const struct verb_group *group)
{
	strbuf_printf(sb, "complete -c cordon -n __fish_use_subcommand -a %s -d '%.*s'\n",
		      group->name, (int)strcspn(group->summary, ":"), group->summary);
	for (int i = 0; i < VERB_MAX; i++) {
		const char *word = verb_in_group(i, group);

		if (!word)
			continue;
		strbuf_printf(sb,
			      "complete -c cordon -n '__fish_seen_subcommand_from %s; "
			      "and not __fish_seen_subcommand_from ",
			      group->name);
		verb_group_words(group, " ", sb);
		strbuf_printf(sb, "' -a %s -d '%s'\n", word, verb_table[i].summary);
	}
}

static void make_fish(struct strbuf *sb)
{
	strbuf_puts(sb, "# fish completion for cordon; made by 'cordon completion fish'\n"
			"complete -c cordon -f\n"
			"complete -c cordon -n __fish_use_subcommand -l help -s h -d 'print help'\n"
			"complete -c cordon -n __fish_use_subcommand -l version -s V "
			"-d 'print the version'\n"
			"complete -c cordon -n '__fish_seen_subcommand_from run' -x "
			"-a '(__fish_complete_subcommand)'\n"
			"complete -c cordon -n '__fish_seen_subcommand_from completion' "
			"-a 'bash zsh fish'\n"
			"complete -c cordon -n '__fish_seen_subcommand_from validate' -F\n"
			"complete -c cordon -n '__fish_seen_subcommand_from new' -a '");
	add_framework_words(sb);
	strbuf_puts(sb, "'\n");
	for (size_t i = 0; i < VERB_GROUPS; i++)
		add_fish_group(sb, &verb_groups[i]);
	for (int v = 0; v < VERB_MAX; v++) {
		const char *name = verb_table[v].name;
		const char *sub = strchr(name, ' ');
		char condition[96];

		if (!sub) {
			strbuf_printf(sb,
				      "complete -c cordon -n __fish_use_subcommand -a %s -d '%s'\n",
				      name, verb_table[v].summary);
		}
		snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s",
			 sub ? sub + 1 : name);
		for (int i = 0; i < OPT_MAX; i++) {
			if (takes(v, &option_table[i]))
				add_fish_option(sb, condition, &option_table[i]);
		}
	}
}

int cmd_completion(const struct parsed *args)
{
	static const struct {
		const char *shell;
		void (*make)(struct strbuf *sb);
	} shells[] = { { "bash", make_bash }, { "zsh", make_zsh }, { "fish", make_fish } };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;

	for (size_t i = 0; args->n_rest == 1 && i < ARRAY_SIZE(shells); i++) {
		if (!strcmp(shells[i].shell, args->rest[0])) {
			shells[i].make(&sb);
			return out_finish(&sb, 0);
		}
	}
	if (args->n_rest == 1)
		cordon_err(&err, CORDON_E_USAGE, 0, "no completion for shell '%s'", args->rest[0]);
	else
		cordon_err(&err, CORDON_E_USAGE, 0, "'completion' needs the name of one shell");
	cordon_err_hint(&err, "one of bash, zsh, fish");
	say_error(&err);
	return STATUS_FAILED;
}

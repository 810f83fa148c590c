/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `cordon`.
 *
 * A run of a short program takes about two milliseconds, so everything here is built to cost
 * nothing: no locale, no stdio, no allocation beyond what a verb needs, and at the end no freeing
 * of what the kernel takes back anyway.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/nearest.h"
#include "out.h"
#include "verbs.h"

unsigned closed_at_start;

/* clang-format off */
const struct verb verb_table[VERB_MAX] = {
	[VERB_RUN] = { "run", "[OPTIONS] [--] COMMAND [ARG...]",
		"run a command in a sandbox",
		"Nothing is granted that is not named: no network, no files beyond the system's\n"
		"own, the command's installation and the current directory (read-only).\n", 0,
		cmd_run },
	[VERB_CHECK] = { "check", "[--json]",
		"say what this machine offers, layer by layer",
		"Exit status: 0 all of level namespaces, 1 only level landlock, 125 neither.\n", 1,
		cmd_check },
	[VERB_POLICY_SHOW] = { "policy show", "[OPTIONS] [--] [COMMAND [ARG...]]",
		"print the effective policy; with COMMAND also its plan", NULL, 0,
		cmd_policy_show },
	[VERB_POLICY_VALIDATE] = { "policy validate", "[--json] FILE...",
		"check policy files", NULL, 1,
		cmd_policy_validate },
	[VERB_POLICY_SCHEMA] = { "policy schema", "",
		"print the JSON Schema of policies", NULL, 1,
		cmd_policy_schema },
	[VERB_COMPLETION] = { "completion", "bash|zsh|fish",
		"print a completion script for a shell", NULL, 1,
		cmd_completion },
	[VERB_HELP] = { "help", "[VERB]",
		"explain a verb", NULL, 1,
		cmd_help },
};
/* clang-format on */

/* A later open() must never land on a standard descriptor that the caller had closed. */
static int fill_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
			return -1;
		closed_at_start |= 1u << fd;
	}
	return 0;
}

int verb_find(const char *first, const char *second, size_t *ret_words)
{
	for (int i = 0; i < VERB_MAX; i++) {
		const char *name = verb_table[i].name;
		size_t len = strcspn(name, " ");

		if (strncmp(name, first, len) != 0 || first[len])
			continue;
		if (!name[len]) {
			*ret_words = 1;
			return i;
		}
		if (second && !strcmp(name + len + 1, second)) {
			*ret_words = 2;
			return i;
		}
	}
	return -1;
}

int verb_unknown(const char *first, const char *second)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int is_policy = !strcmp(first, "policy");
	struct nearest near;

	nearest_init(&near, is_policy && second ? second : first);
	for (int i = 0; i < VERB_MAX; i++) {
		const char *name = verb_table[i].name;
		const char *sub = strchr(name, ' ');

		if (is_policy ? sub != NULL : sub == NULL)
			nearest_offer(&near, is_policy ? sub + 1 : name);
	}
	if (!is_policy)
		nearest_offer(&near, "policy");
	if (is_policy && !second) {
		cordon_err(&err, CORDON_E_USAGE, 0,
			   "'policy' needs one of: show, validate, schema");
		near.best = NULL;
	} else {
		cordon_err(&err, CORDON_E_USAGE, 0, "unknown verb '%s%s'",
			   is_policy ? "policy " : "", is_policy ? second : first);
	}
	if (near.best)
		cordon_err_hint(&err, "did you mean '%s'?", near.best);
	else
		cordon_err_hint(&err, "try 'cordon %s--help'", is_policy ? "policy " : "");
	say_error(&err);
	return STATUS_FAILED;
}

int status_of_error(const struct cordon_error *err)
{
	if (err->code == CORDON_E_NOT_FOUND)
		return STATUS_NOT_FOUND;
	if (err->code == CORDON_E_NOT_EXECUTABLE)
		return STATUS_NOT_EXECUTABLE;
	return STATUS_FAILED;
}

static int print_version(void)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon %s\n", cordon_version());
	return out_finish(&sb, 0);
}

/* Whoever asked for JSON gets JSON, even where the rest of the line made no sense. */
static int wants_json(char *const *words)
{
	for (; *words && strcmp(*words, "--") != 0; words++) {
		if (!strcmp(*words, "--json"))
			return 1;
	}
	return 0;
}

static int run_verb(int verb, char **words)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	static struct parsed args; /* static: for leak checkers, it is never lost */
	int json = verb == VERB_RUN && wants_json(words);

	if (options_parse(verb, words, &args, &err) < 0) {
		say_error(&err);
		return json ? run_report_failure(&err) : STATUS_FAILED;
	}
	if (parsed_has(&args, OPT_HELP))
		return help_verb(STDOUT_FILENO, verb);
	return verb_table[verb].run(&args);
}

static int is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/*
 * Descriptors that anybody of this user has sent and nobody has received yet count against the soft
 * limit of whoever sends (unix(7), ETOOMANYREFS). A command inside can hold as many as its own
 * limit allows, which is lower than this one: it must not keep further runs from being started.
 * Their commands' limit is the policy's.
 */
static void raise_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	size_t words = 0;
	int verb;

	if (fill_standard_fds() < 0)
		return STATUS_FAILED;
	/* A file that may not grow (ulimit -f) is an error to be told about; init undoes this. */
	(void)sigaction(SIGXFSZ, &ignore, NULL);
	raise_open_files();
	if (argc < 2) {
		help_top(STDERR_FILENO);
		return STATUS_FAILED;
	}
	verb = verb_find(argv[1], argv[2], &words);
	if (verb >= 0)
		return run_verb(verb, argv + 1 + words);
	if (is_help(argv[1]))
		return help_top(STDOUT_FILENO);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return print_version();
	if (!strcmp(argv[1], "policy") && argv[2] && is_help(argv[2]))
		return help_policy(STDOUT_FILENO);
	return verb_unknown(argv[1], argv[2]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_command, run_code and get_limits.
 *
 * The program that Cordon starts is always the shell: for a program that it is told to start it
 * makes the installation readable, and no word of a model may choose that.
 */
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "server.h"

#define WORDS_MAX 4096
#define CODE_MAX 120000 /* the kernel takes 128 KiB in one argument */

/* $1 is a directory, the rest a command; and the same without a directory. */
static const char in_directory[] = "cd -- \"$1\" || exit 125\nshift\nexec \"$@\"";
static const char as_it_is[] = "exec \"$@\"";

static void finish(struct call *call)
{
	struct answer a = ANSWER_INIT;

	if (!job_result(&call->job)) {
		answer_error(call, &call->job.error);
		return;
	}
	answer_receipt(call, &a);
	answer_send(call, &a);
}

/* Starts @n words in the directory that the call names. */
static void start(struct call *call, const char *const *words, size_t n)
{
	const char *cwd, **argv = arena_alloc(&call->line->arena, (n + 6) * sizeof(*argv));
	size_t at = 0;

	if (args_session(call) < 0 || args_string(call, "cwd", 0, &cwd) < 0 ||
	    args_timeout(call, &call->spec.wall_ms) < 0)
		return;
	if (!argv) {
		answer_refuse(call, "out of memory");
		return;
	}
	argv[at++] = "/bin/sh";
	argv[at++] = "-c";
	argv[at++] = cwd ? in_directory : as_it_is;
	argv[at++] = "sh";
	if (cwd)
		argv[at++] = cwd;
	memcpy(argv + at, words, n * sizeof(*words));
	call->spec.argv = argv;
	call_job(call, finish);
}

static void start_list(struct call *call, const struct json_value *list)
{
	const char **words;
	size_t n = 0;

	if (list->integer < 1 || list->integer > WORDS_MAX) {
		answer_refuse(call, "'command' has to have 1 to %d words", WORDS_MAX);
		return;
	}
	words = arena_alloc(&call->line->arena, (size_t)list->integer * sizeof(*words));
	for (const struct json_value *v = list->first; words && v; v = v->next) {
		if (v->type != JSON_STRING) {
			answer_refuse(call, "'command' has to be a string or a list of strings");
			return;
		}
		words[n++] = v->text;
	}
	/* The shell would take it for an option of `exec`. */
	if (!words || words[0][0] == '-' || !words[0][0])
		answer_refuse(call, words ? "'command' does not begin with a program's name"
					  : "out of memory");
	else
		start(call, words, n);
}

void tool_run_command(struct call *call)
{
	const struct json_value *command = call->args ? json_get(call->args, "command") : NULL;

	if (args_string(call, "stdin", 0, &call->spec.input) < 0)
		return;
	if (call->spec.input)
		call->spec.input_len = strlen(call->spec.input);
	if (command && command->type == JSON_ARRAY) {
		start_list(call, command);
	} else if (command && command->type == JSON_STRING) {
		const char *const words[] = { "/bin/sh", "-c", command->text };

		start(call, words, ARRAY_SIZE(words));
	} else {
		answer_refuse(call, "'command' has to be a string or a list of strings");
	}
}

static const struct {
	const char *name, *program, *option;
} languages[] = {
	{ "python", "python3", "-c" }, { "javascript", "node", "-e" }, { "bash", "bash", "-c" },
	{ "sh", "/bin/sh", "-c" },     { "ruby", "ruby", "-e" },       { "perl", "perl", "-e" },
	{ "php", "php", "-r" },	       { "lua", "lua", "-e" },	       { "r", "Rscript", "-e" },
};

void tool_run_code(struct call *call)
{
	const char *code, *language;

	if (args_string(call, "code", 1, &code) < 0 ||
	    args_string(call, "language", 0, &language) < 0)
		return;
	if (strlen(code) > CODE_MAX) {
		answer_refuse(call,
			      "the code has more than %d bytes: write it to a file, and run that",
			      CODE_MAX);
		return;
	}
	if (!language)
		language = "python";
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		const char *const words[] = { languages[i].program, languages[i].option, code };

		if (!strcmp(language, languages[i].name)) {
			start(call, words, ARRAY_SIZE(words));
			return;
		}
	}
	answer_refuse(call,
		      "'language' can be python, javascript, bash, sh, ruby, perl, php, lua or r");
}

static void write_workspace(const struct server *s, struct json_writer *w)
{
	struct strbuf base = STRBUF_INIT;

	if (!s->base) {
		json_null(w, "workspace");
		return;
	}
	rpc_clean(&base, s->base, strlen(s->base));
	json_open_object(w, "workspace");
	json_bytes(w, "directory", base.data ? base.data : "", base.len);
	json_string(w, "mode", s->workspace[0] ? "copy-on-write" : "direct");
	json_bool(w, "may_commit", s->may_commit);
	json_close_object(w);
	strbuf_done(&base);
}

void tool_get_limits(struct call *call)
{
	const struct server *s = call->server;
	struct answer a = ANSWER_INIT;
	struct json_writer w;

	json_writer_init(&w, &a.data, 0);
	json_open_object(&w, NULL);
	json_raw(&w, "policy", s->policy_json);
	json_int(&w, "timeout_ms", s->wall_ms);
	json_int(&w, "memory_bytes", s->memory_bytes);
	json_bool(&w, "network", s->has_network);
	write_workspace(s, &w);
	json_close_object(&w);
	if (!a.data.failed)
		answer_text(&a, a.data.data, a.data.len);
	answer_send(call, &a);
}

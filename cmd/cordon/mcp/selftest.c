/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon mcp --selftest: a client that says what works on this machine, of a server of its own with
 * the same options, or of the command that is named, as a client's configuration has it.
 *
 * Every check looks at what the server did, and fails if that is something else; what is not
 * installed is told and is no failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/macros.h"
#include "config.h"
#include "out.h"
#include "selftest.h"
#include "server.h"
#include "verbs.h"

#define ANSWER_MS 30000
#define END_MS 2000
/* What is started: ourselves with the same options, or the command that is named. */
static const char **make_argv(const struct words *words, const struct parsed *args)
{
	const char **argv = calloc(words->list.n + args->n_rest + 3, sizeof(*argv));
	size_t n = 0;

	if (!argv)
		return NULL;
	for (size_t i = 0; i < args->n_rest; i++)
		argv[n++] = args->rest[i];
	if (n)
		return argv;
	argv[n++] = "cordon";
	argv[n++] = "mcp";
	for (size_t i = 0; i < words->list.n; i++)
		argv[n++] = words->list.v[i];
	return argv;
}

static int start_server(struct probe *p, const struct parsed *args, const struct words *words,
			struct cordon_error *err)
{
	const char **argv = make_argv(words, args);
	posix_spawn_file_actions_t actions;
	int in[2], out[2], r;

	if (!argv)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		free(argv);
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a pipe");
	}
	r = posix_spawn_file_actions_init(&actions);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	/* The words are not changed: the type is an old one. */
	r = r ? r
	      : posix_spawnp(&p->pid, args->n_rest ? argv[0] : "/proc/self/exe", &actions, NULL,
			     (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	p->to = in[1];
	p->from = out[0];
	if (r)
		cordon_err(err, CORDON_E_SYSTEM, r, "cannot start '%s'", argv[0]);
	free(argv);
	return r ? -CORDON_E_SYSTEM : 0;
}

/* One line into p->in; 0 or -1. */
static int read_line(struct probe *p, int timeout_ms)
{
	int64_t until = mcp_now_ms() + timeout_ms;
	struct pollfd fd = { .fd = p->from, .events = POLLIN };
	char c;

	strbuf_done(&p->in);
	p->in = (struct strbuf)STRBUF_INIT;
	for (;;) {
		int64_t left = until - mcp_now_ms();

		if (left <= 0 || poll(&fd, 1, (int)left) <= 0 || read(p->from, &c, 1) != 1) {
			p->is_gone = 1;
			return -1;
		}
		if (c == '\n')
			return p->in.failed || !p->in.len ? -1 : 0;
		strbuf_putc(&p->in, c);
	}
}

/* An answer to the last request, into p->result; 0 or -1. */
static int read_answer(struct probe *p)
{
	const struct json_value *root, *id;

	if (read_line(p, ANSWER_MS) < 0 ||
	    json_read(p->in.data, p->in.len, "answer", &p->arena, &root, NULL) < 0 ||
	    root->type != JSON_OBJECT)
		return -1;
	id = json_get(root, "id");
	if (!id || id->type != JSON_INTEGER || id->integer != p->number)
		return -1;
	p->result = json_get(root, "result");
	return p->result && p->result->type == JSON_OBJECT ? 0 : -1;
}

/* Sends a request and reads its answer into p->result; 0 or -1. */
int probe_ask(struct probe *p, const char *method, const char *params)
{
	struct strbuf sb = STRBUF_INIT;
	int r;

	arena_done(&p->arena);
	p->arena = (struct arena)ARENA_INIT;
	p->result = NULL;
	p->why = NULL;
	strbuf_printf(&sb, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{%s}}\n",
		      ++p->number, method, params);
	r = sb.failed ? -1 : write_full(p->to, sb.data, sb.len);
	strbuf_done(&sb);
	/* One that has once not answered is not waited for again. */
	r = r < 0 || p->is_gone ? -1 : read_answer(p);
	if (r < 0)
		p->result = NULL;
	return r;
}

/* What a call that is an error says. */
static const char *why_of(const struct json_value *result)
{
	const struct json_value *failed = json_get(result, "isError");
	const struct json_value *content = json_get(result, "content"), *text = NULL;

	if (!failed || failed->type != JSON_TRUE || !content || content->type != JSON_ARRAY)
		return NULL;
	if (content->first && content->first->type == JSON_OBJECT)
		text = json_get(content->first, "text");
	return text && text->type == JSON_STRING ? text->text : NULL;
}

/* A call of a tool; p->result is its structured content, NULL if that is an error. */
void probe_call(struct probe *p, const char *tool, const char *arguments)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "\"name\":\"%s\",\"arguments\":{%s}", tool, arguments);
	if (sb.failed || probe_ask(p, "tools/call", sb.data) < 0) {
		p->result = NULL;
	} else {
		p->why = why_of(p->result);
		p->result = json_get(p->result, "structuredContent");
	}
	strbuf_done(&sb);
}

const char *probe_text(const struct probe *p, const char *key)
{
	const struct json_value *v = p->result ? json_get(p->result, key) : NULL;

	return v && v->type == JSON_STRING ? v->text : "";
}

void probe_say(struct probe *p, int is_good, const char *what, const char *more)
{
	struct strbuf sb = STRBUF_INIT;

	p->n_failed += !is_good;
	if (!is_good && !*more && p->why)
		more = p->why;
	strbuf_printf(&sb, "%s  %s%s", is_good ? "ok    " : "FAILED", what, *more ? ": " : "");
	strbuf_add_escaped(&sb, more, strcspn(more, "\n"));
	strbuf_putc(&sb, '\n');
	if (!sb.failed)
		(void)write_full(STDOUT_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

/* Its input is closed, so it ends. If it does not it is killed, which shows in the status. */
static int wait_for_end(pid_t pid)
{
	int64_t until = mcp_now_ms() + END_MS;
	int status = -1;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (mcp_now_ms() >= until)
			(void)kill(pid, SIGKILL);
		(void)poll(NULL, 0, 5);
	}
	return status;
}

int mcp_selftest(const struct parsed *args)
{
	struct probe p = { .in = STRBUF_INIT, .arena = ARENA_INIT };
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct words words;
	int status = -1;

	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (words_make(&words, args, &err) < 0 || start_server(&p, args, &words, &err) < 0) {
		say_error(&err);
		return STATUS_FAILED;
	}
	selftest_check(&p);
	close(p.to);
	status = wait_for_end(p.pid);
	probe_say(&p, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the end", "");
	close(p.from);
	strbuf_done(&p.in);
	arena_done(&p.arena);
	arena_done(&words.arena);
	return p.n_failed ? STATUS_FAILED : 0;
}

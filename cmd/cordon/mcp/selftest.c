/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon mcp --selftest: a client of a server of its own, with the same options, that says what
 * works on this machine.
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
#include "server.h"
#include "verbs.h"

#define ANSWER_MS 30000
#define MODERN_META                                                                                \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"

struct probe {
	pid_t pid;
	int to, from, number, n_failed;
	struct strbuf in;
	struct arena arena; /* of the last answer */
	const struct json_value *result;
	const char *why; /* the last call was an error */
};

static int start_server(struct probe *p, const struct words *words, struct cordon_error *err)
{
	const char **argv = calloc(words->list.n + 3, sizeof(*argv));
	posix_spawn_file_actions_t actions;
	int in[2], out[2], r;

	if (!argv)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	argv[0] = "cordon";
	argv[1] = "mcp";
	for (size_t i = 0; i < words->list.n; i++)
		argv[i + 2] = words->list.v[i];
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		free(argv);
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a pipe");
	}
	r = posix_spawn_file_actions_init(&actions);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	/* The words are not changed: the type is an old one. */
	r = r ? r
	      : posix_spawn(&p->pid, "/proc/self/exe", &actions, NULL,
			    (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	free(argv);
	close(in[0]);
	close(out[1]);
	p->to = in[1];
	p->from = out[0];
	return r ? cordon_err(err, CORDON_E_SYSTEM, r, "cannot start the server") : 0;
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

		if (left <= 0 || poll(&fd, 1, (int)left) <= 0 || read(p->from, &c, 1) != 1)
			return -1;
		if (c == '\n')
			return p->in.failed || !p->in.len ? -1 : 0;
		strbuf_putc(&p->in, c);
	}
}

/* Sends a request and reads its answer into p->result; 0 or -1. */
static int ask(struct probe *p, const char *method, const char *params)
{
	struct strbuf sb = STRBUF_INIT;
	const struct json_value *root;
	int r;

	arena_done(&p->arena);
	p->arena = (struct arena)ARENA_INIT;
	p->result = NULL;
	p->why = NULL;
	strbuf_printf(&sb, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{%s}}\n",
		      ++p->number, method, params);
	r = sb.failed ? -1 : write_full(p->to, sb.data, sb.len);
	strbuf_done(&sb);
	if (r < 0 || read_line(p, ANSWER_MS) < 0 ||
	    json_read(p->in.data, p->in.len, "answer", &p->arena, &root, NULL) < 0 ||
	    root->type != JSON_OBJECT)
		return -1;
	p->result = json_get(root, "result");
	return p->result && p->result->type == JSON_OBJECT ? 0 : -1;
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
static void call(struct probe *p, const char *tool, const char *arguments)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "\"name\":\"%s\",\"arguments\":{%s}", tool, arguments);
	if (sb.failed || ask(p, "tools/call", sb.data) < 0) {
		p->result = NULL;
	} else {
		p->why = why_of(p->result);
		p->result = json_get(p->result, "structuredContent");
	}
	strbuf_done(&sb);
}

static const char *text_of(const struct probe *p, const char *key)
{
	const struct json_value *v = p->result ? json_get(p->result, key) : NULL;

	return v && v->type == JSON_STRING ? v->text : "";
}

static void say(struct probe *p, int is_good, const char *what, const char *more)
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

static void test_eras(struct probe *p)
{
	int r = ask(p, "initialize",
		    "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
		    "\"clientInfo\":{\"name\":\"selftest\",\"version\":\"1\"}");

	say(p, r == 0, "revisions with initialize", text_of(p, "protocolVersion"));
	r = ask(p, "server/discover", MODERN_META);
	say(p, r == 0, "revision without", r == 0 ? "2026-07-28" : "");
	r = ask(p, "tools/list", "");
	say(p, r == 0 && json_get(p->result, "tools"), "list of tools", "");
}

static void test_commands(struct probe *p)
{
	static const char *const languages[][3] = {
		{ "python", "import sys; print(sys.version.split()[0])", "python" },
		{ "javascript", "console.log(process.version)", "javascript" },
		{ "bash", "echo $BASH_VERSION", "bash" },
	};
	char arguments[256];

	call(p, "run_command", "\"command\":\"echo it works\"");
	say(p, !strcmp(text_of(p, "stdout"), "it works\n"), "a command", "");
	call(p, "run_command", "\"command\":\"sleep 60\",\"timeout\":0.2");
	say(p, !strcmp(text_of(p, "kind"), "timeout"), "a limit of time", "");
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		snprintf(arguments, sizeof(arguments), "\"language\":\"%s\",\"code\":\"%s\"",
			 languages[i][0], languages[i][1]);
		call(p, "run_code", arguments);
		say(p, 1, languages[i][2],
		    *text_of(p, "stdout") ? text_of(p, "stdout") : "is not there");
	}
}

/* The private home is there in every mode. */
static void test_files(struct probe *p)
{
	call(p, "write_file", "\"path\":\"/tmp/cordon-selftest\",\"content\":\"x\"");
	say(p, p->result != NULL, "writing a file", "");
	call(p, "list_files", "\"path\":\"/usr\"");
	say(p, p->result != NULL, "listing a directory", "");
}

/* A file of the host that nobody granted. */
static void test_hidden(struct probe *p)
{
	char name[] = "/tmp/cordon-selftest-XXXXXX", arguments[128];
	int fd = mkostemp(name, O_CLOEXEC);

	if (fd < 0 || write_full(fd, "canary", 6) < 0) {
		say(p, 0, "a file of the host is hidden", "it cannot be made");
		return;
	}
	close(fd);
	snprintf(arguments, sizeof(arguments), "\"command\":\"cat %s\"", name);
	call(p, "run_command", arguments);
	say(p, p->result && !strstr(text_of(p, "stdout"), "canary"),
	    "a file in the host's /tmp is hidden", "");
	(void)unlink(name);
}

static void test_cancel(struct probe *p)
{
	static const char words[] =
		"{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"tools/call\",\"params\":{"
		"\"name\":\"run_command\",\"arguments\":{\"command\":\"sleep 60\"}}}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
		"\"requestId\":\"c\"}}\n";
	int r = write_full(p->to, words, sizeof(words) - 1);

	say(p, r == 0 && ask(p, "ping", "") == 0, "cancelling a call", "");
}

int mcp_selftest(const struct parsed *args)
{
	struct probe p = { .in = STRBUF_INIT, .arena = ARENA_INIT };
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct words words;
	int status = -1;

	(void)sigaction(SIGPIPE, &ignore, NULL);
	if (words_make(&words, args, &err) < 0 || start_server(&p, &words, &err) < 0) {
		say_error(&err);
		return STATUS_FAILED;
	}
	test_eras(&p);
	test_commands(&p);
	test_files(&p);
	test_hidden(&p);
	test_cancel(&p);
	close(p.to);
	while (waitpid(p.pid, &status, 0) < 0 && errno == EINTR)
		;
	say(&p, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the end", "");
	close(p.from);
	strbuf_done(&p.in);
	arena_done(&p.arena);
	arena_done(&words.arena);
	return p.n_failed ? STATUS_FAILED : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What --selftest looks at, one function for each part of the server. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/macros.h"
#include "selftest.h"

#define SILENCE_MS 1000 /* longer than a call that is cancelled would have taken */
#define MODERN_META                                                                                \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"

/* Something that is not installed: told, and no failure. */
static void say_absent(const char *what)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "absent  %s\n", what);
	if (!sb.failed)
		(void)write_full(STDOUT_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

static const struct json_value *list_of(const struct probe *p, const char *key)
{
	const struct json_value *list = p->result ? json_get(p->result, key) : NULL;

	return list && list->type == JSON_ARRAY ? list->first : NULL;
}

static int is_string(const struct json_value *v, const char *text)
{
	return v && v->type == JSON_STRING && !strcmp(v->text, text);
}

static int has_version(const struct probe *p, const char *version)
{
	const struct json_value *v = list_of(p, "supportedVersions");

	while (v && !is_string(v, version))
		v = v->next;
	return v != NULL;
}

/* The one of a list of objects that is called so. */
static int has_item(const struct probe *p, const char *list, const char *key, const char *name)
{
	const struct json_value *v = list_of(p, list);

	while (v && !(v->type == JSON_OBJECT && is_string(json_get(v, key), name)))
		v = v->next;
	return v != NULL;
}

static int64_t number_of(const struct probe *p, const char *key)
{
	const struct json_value *v = p->result ? json_get(p->result, key) : NULL;

	return v && v->type == JSON_INTEGER ? v->integer : -1;
}

static void check_eras(struct probe *p)
{
	int r = probe_ask(p, "initialize",
			  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
			  "\"clientInfo\":{\"name\":\"selftest\",\"version\":\"1\"}");

	probe_say(p, r == 0 && !strcmp(probe_text(p, "protocolVersion"), "2025-11-25"),
		  "revisions with initialize", probe_text(p, "protocolVersion"));
	r = probe_ask(p, "server/discover", MODERN_META);
	probe_say(p, r == 0 && has_version(p, "2026-07-28"), "revision without",
		  r == 0 ? "2026-07-28" : "");
	r = probe_ask(p, "tools/list", "");
	probe_say(p,
		  r == 0 && has_item(p, "tools", "name", "run_command") &&
			  has_item(p, "tools", "name", "read_file") &&
			  has_item(p, "tools", "name", "execute"),
		  "list of tools", "");
	p->has_diff = has_item(p, "tools", "name", "workspace_diff");
}

static void check_languages(struct probe *p)
{
	static const char *const languages[][2] = {
		{ "python", "import sys; print(sys.version.split()[0])" },
		{ "javascript", "console.log(process.version)" },
		{ "bash", "echo $BASH_VERSION" },
	};
	int *const has[] = { &p->has_python, NULL, &p->has_bash };
	char arguments[256];

	for (size_t i = 0; i < ARRAY_SIZE(languages); i++) {
		const char *name = languages[i][0];
		int is_good;

		snprintf(arguments, sizeof(arguments), "\"language\":\"%s\",\"code\":\"%s\"", name,
			 languages[i][1]);
		probe_call(p, "run_code", arguments);
		if (number_of(p, "exit_code") == 127) {
			say_absent(name);
			continue;
		}
		is_good = number_of(p, "exit_code") == 0 && *probe_text(p, "stdout");
		if (has[i])
			*has[i] = is_good;
		probe_say(p, is_good, name, probe_text(p, is_good ? "stdout" : "stderr"));
	}
}

static void check_commands(struct probe *p)
{
	int is_good;

	probe_call(p, "run_command", "\"command\":\"echo it works; echo and this >&2; exit 3\"");
	is_good = !strcmp(probe_text(p, "stdout"), "it works\n") &&
		  !strcmp(probe_text(p, "stderr"), "and this\n") && number_of(p, "exit_code") == 3;
	probe_say(p, is_good, "a command", is_good ? "" : probe_text(p, "stderr"));
	probe_call(p, "run_command", "\"command\":\"sleep 60\",\"timeout\":0.2");
	probe_say(p, !strcmp(probe_text(p, "kind"), "timeout"), "a limit of time",
		  probe_text(p, "stderr"));
	check_languages(p);
}

/* A directory of our own, where a call may write unless the options say otherwise. */
static int make_place(struct probe *p, const char *session, char ret[128])
{
	char arguments[256];
	const char *text;
	size_t len;

	snprintf(arguments, sizeof(arguments),
		 "%s,\"command\":\"echo ${TMPDIR:-/tmp}/cordon-selftest-%d\"", session,
		 (int)getpid());
	probe_call(p, "run_command", arguments);
	text = probe_text(p, "stdout");
	len = strcspn(text, "\n");
	/* It becomes a part of JSON. */
	if (!len || len >= 128 || strcspn(text, "\"\\' ") < len)
		return -1;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

static void check_files(struct probe *p, const char *session)
{
	static const char what[] = "writing, editing and reading a file";
	char arguments[512], place[128];

	if (make_place(p, session, place) < 0) {
		probe_say(p, 0, what, "there is no private directory");
		return;
	}
	snprintf(arguments, sizeof(arguments),
		 "%s,\"path\":\"%s/selftest\",\"content\":\"one two\"", session, place);
	probe_call(p, "write_file", arguments);
	snprintf(arguments, sizeof(arguments),
		 "%s,\"path\":\"%s/selftest\",\"old_text\":\"two\",\"new_text\":\"three\"", session,
		 place);
	if (p->result)
		probe_call(p, "edit_file", arguments);
	snprintf(arguments, sizeof(arguments), "%s,\"path\":\"%s/selftest\"", session, place);
	if (p->result)
		probe_call(p, "read_file", arguments);
	probe_say(p, !strcmp(probe_text(p, "content"), "one three"), what, "");
	snprintf(arguments, sizeof(arguments), "%s,\"path\":\"%s\"", session, place);
	probe_call(p, "list_files", arguments);
	probe_say(p, has_item(p, "entries", "path", "selftest"), "listing a directory", "");
	/* With some options it is the host's. */
	snprintf(arguments, sizeof(arguments), "%s,\"command\":\"rm -rf %s\"", session, place);
	probe_call(p, "run_command", arguments);
}

/* State is kept from one piece of code to the next. */
static void check_execute(struct probe *p, const char *session)
{
	const struct json_value *value = NULL;
	char arguments[256];

	snprintf(arguments, sizeof(arguments), "%s,\"code\":\"x = 40\"", session);
	probe_call(p, "execute", arguments);
	snprintf(arguments, sizeof(arguments), "%s,\"code\":\"x + 2\"", session);
	if (p->result)
		probe_call(p, "execute", arguments);
	if (p->result)
		value = json_get(p->result, "result");
	probe_say(p,
		  value && value->type == JSON_OBJECT &&
			  is_string(json_get(value, "text/plain"), "42"),
		  "code that keeps its state", "");
}

static void check_session(struct probe *p)
{
	char session[80], arguments[160];

	probe_call(p, "create_session", "");
	probe_say(p, *probe_text(p, "session") != '\0', "a session", "");
	if (!p->result)
		return;
	snprintf(session, sizeof(session), "\"session\":\"%.50s\"", probe_text(p, "session"));
	check_files(p, session);
	if (p->has_python)
		check_execute(p, session);
	else
		say_absent("code that keeps its state: there is no python");
	probe_call(p, "close_session", session);
	snprintf(arguments, sizeof(arguments), "%s,\"command\":\"echo on\"", session);
	if (p->result)
		probe_call(p, "run_command", arguments);
	probe_say(p, !p->result && p->why && strstr(p->why, "session"), "the end of a session",
		  p->result ? "it goes on" : "");
	if (!p->has_diff)
		return;
	probe_call(p, "workspace_diff", "");
	probe_say(p, p->result && json_get(p->result, "changes"), "looking at the changes", "");
}

/* A file of the host that nobody granted: it is not seen, and not changed. */
static void check_hidden(struct probe *p)
{
	char name[] = "/tmp/cordon-selftest-XXXXXX", arguments[160], data[16] = "";
	int fd = mkostemp(name, O_CLOEXEC), is_shown;

	if (fd < 0 || write_full(fd, "canary", 6) < 0) {
		probe_say(p, 0, "a file in the host's /tmp is hidden", "it cannot be made");
		return;
	}
	snprintf(arguments, sizeof(arguments), "\"command\":\"cat %s; echo done\"", name);
	probe_call(p, "run_command", arguments);
	is_shown = strstr(probe_text(p, "stdout"), "canary") != NULL;
	probe_say(p, !strcmp(probe_text(p, "stdout"), "done\n"),
		  "a file in the host's /tmp is hidden", is_shown ? "the options show it" : "");
	snprintf(arguments, sizeof(arguments), "\"command\":\"echo other > %s; echo done\"", name);
	probe_call(p, "run_command", arguments);
	if (pread(fd, data, sizeof(data) - 1, 0) < 0)
		data[0] = '\0';
	probe_say(p, !strcmp(probe_text(p, "stdout"), "done\n") && !strcmp(data, "canary"),
		  "a file in the host's /tmp is kept from changes",
		  strcmp(data, "canary") ? "the options let it be written" : "");
	close(fd);
	(void)unlink(name);
}

/* Somebody listens on this machine: did anybody come? */
static void ask_to_connect(struct probe *p, int fd, int port)
{
	char arguments[200];
	int other;

	snprintf(arguments, sizeof(arguments),
		 "\"language\":\"bash\",\"timeout\":5,\"code\":\"exec 3<>/dev/tcp/127.0.0.1/%d\"",
		 port);
	probe_call(p, "run_code", arguments);
	other = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	probe_say(p, other < 0 && number_of(p, "exit_code") > 0,
		  "this machine's servers are out of reach",
		  other >= 0 ? "the options let them be reached" : "");
	if (other >= 0)
		close(other);
}

static void check_network(struct probe *p)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd;

	if (!p->has_bash) {
		say_absent("this machine's servers: there is no bash to ask them");
		return;
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		probe_say(p, 0, "this machine's servers are out of reach", "cannot listen");
	else
		ask_to_connect(p, fd, ntohs(at.sin_port));
	if (fd >= 0)
		close(fd);
}

/* It is not answered: if it went on, it would be soon. */
static void check_cancel(struct probe *p)
{
	static const char words[] =
		"{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"tools/call\",\"params\":{"
		"\"name\":\"run_command\",\"arguments\":{\"command\":\"sleep 0.1\"}}}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
		"\"requestId\":\"c\"}}\n";
	struct pollfd fd = { .fd = p->from, .events = POLLIN };
	int r = write_full(p->to, words, sizeof(words) - 1);

	r = r == 0 ? probe_ask(p, "ping", "") : r;
	probe_say(p, r == 0 && poll(&fd, 1, SILENCE_MS) == 0, "cancelling a call",
		  r == 0 ? "" : "what came after it was not answered");
}

void selftest_check(struct probe *p)
{
	check_eras(p);
	check_commands(p);
	check_session(p);
	check_hidden(p);
	check_network(p);
	check_cancel(p);
}

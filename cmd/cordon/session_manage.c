/* SPDX-License-Identifier: Apache-2.0 */
/* cordon ps, cordon session ps, stop, pause, resume, kill, logs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/termclean.h"
#include "base/units.h"
#include "out.h"
#include "runs.h"
#include "session.h"
#include "signals.h"
#include "verbs.h"
#include "workspace.h"

#define CLEAN_CHUNK 4096

const char *human_time(int64_t ms, char ret[HUMAN_MAX])
{
	int s = ms > 0 && ms / 1000 < 1000000000 ? (int)(ms / 1000) : 0;

	if (s < 60)
		snprintf(ret, HUMAN_MAX, "%ds", s % 60);
	else if (s < 3600)
		snprintf(ret, HUMAN_MAX, "%dm%ds", s / 60 % 60, s % 60);
	else
		snprintf(ret, HUMAN_MAX, "%dh%dm", s / 3600 % 1000000, s / 60 % 60);
	return ret;
}

/* A number of the supervisor's: whole, or with a point. */
static double number(const struct json_value *object, const char *key)
{
	const struct json_value *v = json_get(object, key);

	if (!v || !v->text || (v->type != JSON_INTEGER && v->type != JSON_NUMBER))
		return 0;
	return strtod(v->text, NULL);
}

static const char *text_of(const struct json_value *object, const char *key)
{
	const struct json_value *v = json_get(object, key);

	return v && v->type == JSON_STRING ? v->text : "";
}

static int is_true(const struct json_value *object, const char *key)
{
	const struct json_value *v = json_get(object, key);

	return v && v->type == JSON_TRUE;
}

static int running(const struct json_value *status)
{
	const struct json_value *list = json_get(status, "commands");
	int n = 0;

	for (const struct json_value *v = list ? list->first : NULL; v; v = v->next)
		n += is_true(v, "running");
	return n;
}

struct lister {
	struct strbuf sb;
	struct json_writer w;
	int is_json, n;
};

static void list_head(struct lister *l)
{
	if (!l->n)
		strbuf_printf(&l->sb, "%-16s  %-8s  %-8s  %-8s  %-5s  %-8s  %s\n", "NAME", "UPTIME",
			      "MEMORY", "CPU", "TASKS", "COMMANDS", "STATE");
}

/* 'session ps' says more of it. */
static void list_silent(struct lister *l, const char *name)
{
	if (l->is_json) {
		json_open_object(&l->w, NULL);
		json_string(&l->w, "type", "session");
		json_string(&l->w, "name", name);
		json_bool(&l->w, "answers", 0);
		json_close_object(&l->w);
	} else {
		list_head(l);
		strbuf_printf(&l->sb, "%-16s  %-8s  %-8s  %-8s  %-5s  %-8s  does not answer\n",
			      name, "-", "-", "-", "-", "-");
	}
	l->n++;
}

static void list_one(void *arg, const char *name)
{
	struct lister *l = arg;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct wire reply = WIRE_INIT;
	struct arena arena = ARENA_INIT;
	const struct json_value *root;
	char uptime[HUMAN_MAX], memory[HUMAN_MAX], cpu[HUMAN_MAX];
	int r = session_ask(name, WIRE_STATUS, NULL, 0, &reply, &err);

	if (r == -ETIMEDOUT)
		list_silent(l, name);
	/* One that ends meanwhile is none. */
	if (r < 0 || reply.head.type != WIRE_OK) {
		wire_reset(&reply);
		return;
	}
	if (l->is_json) {
		json_raw(&l->w, NULL, reply.strings[0]);
	} else if (json_read(reply.strings[0], strlen(reply.strings[0]), "status", &arena, &root,
			     &err) == 0) {
		list_head(l);
		snprintf(cpu, sizeof(cpu), "%.2fs", number(root, "cpu_ms") / 1000);
		strbuf_printf(&l->sb, "%-16s  %-8s  %-8s  %-8s  %-5d  %-8d  %s\n", name,
			      human_time((int64_t)number(root, "uptime_ms"), uptime),
			      human_size((uint64_t)number(root, "memory_bytes"), memory), cpu,
			      (int)number(root, "tasks"), running(root),
			      is_true(root, "paused") ? "paused" : "running");
	}
	l->n++;
	arena_done(&arena);
	wire_reset(&reply);
}

int cmd_ps(const struct parsed *args)
{
	struct lister l = { .sb = STRBUF_INIT, .is_json = parsed_has(args, OPT_JSON) };
	struct cordon_error err = CORDON_ERROR_INIT;

	if (session_operands(args, 0, 0, &err) < 0)
		return session_fail(&err);
	json_writer_init(&l.w, &l.sb, 0);
	if (l.is_json)
		json_open_array(&l.w, NULL);
	if (session_each(list_one, &l, &err) < 0)
		return session_fail(&err);
	runs_list(l.is_json ? &l.w : NULL, &l.sb);
	if (l.is_json) {
		json_close_array(&l.w);
		strbuf_putc(&l.sb, '\n');
	}
	return out_finish(&l.sb, 0);
}

static void list_commands(struct strbuf *sb, const struct json_value *status)
{
	const struct json_value *list = json_get(status, "commands");
	char age[HUMAN_MAX];

	if (list && list->first)
		strbuf_printf(sb, "%-6s  %-8s  %-16s  %s\n", "NUMBER", "AGE", "STATE", "COMMAND");
	for (const struct json_value *v = list ? list->first : NULL; v; v = v->next) {
		char state[32];

		snprintf(state, sizeof(state), "%s", is_true(v, "running") ? "running" : "");
		if (!is_true(v, "running"))
			snprintf(state, sizeof(state), "%.16s %d", text_of(v, "kind"),
				 (int)number(v, "status"));
		strbuf_printf(sb, "%-6d  %-8s  %-16s  ", (int)number(v, "number"),
			      human_time((int64_t)number(v, "age_ms"), age), state);
		strbuf_add_escaped(sb, text_of(v, "command"), strlen(text_of(v, "command")));
		strbuf_putc(sb, '\n');
	}
}

int cmd_session_ps(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	struct arena arena = ARENA_INIT;
	struct wire reply = WIRE_INIT;
	const struct json_value *root;

	if (session_operands(args, 1, 1, &err) < 0 ||
	    session_ask(args->rest[0], WIRE_STATUS, NULL, 0, &reply, &err) < 0)
		return session_fail(&err);
	if (parsed_has(args, OPT_JSON)) {
		strbuf_puts(&sb, reply.strings[0]);
		strbuf_putc(&sb, '\n');
	} else if (json_read(reply.strings[0], strlen(reply.strings[0]), "status", &arena, &root,
			     &err) < 0) {
		return session_fail(&err);
	} else {
		list_commands(&sb, root);
	}
	return out_finish(&sb, 0);
}

int cmd_session_stop(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	struct wire reply = WIRE_INIT;

	if (session_operands(args, 1, 1, &err) < 0 ||
	    session_ask(args->rest[0], WIRE_STOP, NULL, 0, &reply, &err) < 0)
		return session_fail(&err);
	if (!parsed_has(args, OPT_JSON))
		return 0;
	strbuf_puts(&sb, reply.strings[0]);
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

int cmd_session_env(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct wire reply = WIRE_INIT;

	if (session_operands(args, 2, SIZE_MAX, &err) < 0 ||
	    session_ask(args->rest[0], WIRE_ENV, (const char *const *)(args->rest + 1),
			args->n_rest - 1, &reply, &err) < 0)
		return session_fail(&err);
	return 0;
}

static int simple(const struct parsed *args, uint32_t type)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct wire reply = WIRE_INIT;

	if (session_operands(args, 1, 1, &err) < 0 ||
	    session_ask(args->rest[0], type, NULL, 0, &reply, &err) < 0)
		return session_fail(&err);
	return 0;
}

int cmd_session_pause(const struct parsed *args)
{
	return simple(args, WIRE_PAUSE);
}

int cmd_session_resume(const struct parsed *args)
{
	return simple(args, WIRE_RESUME);
}

static int check_number(const struct parsed *args, struct cordon_error *err)
{
	int64_t value;

	if (units_parse_count(args->rest[1], &value, NULL) == 0)
		return 0;
	cordon_err(err, CORDON_E_USAGE, 0, "'%s' is not the number of a command", args->rest[1]);
	cordon_err_hint(err, "'cordon session ps %s' lists them", args->rest[0]);
	return -CORDON_E_USAGE;
}

int cmd_session_kill(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct wire reply = WIRE_INIT;
	const char *strings[2];
	char text[8];
	int number = SIGKILL;

	if (session_operands(args, 2, 3, &err) < 0 || check_number(args, &err) < 0)
		return session_fail(&err);
	strings[0] = args->rest[1];
	if (args->n_rest == 3)
		number = signal_number(args->rest[2]);
	snprintf(text, sizeof(text), "%d", number);
	strings[1] = text;
	if (!number) {
		cordon_err(&err, CORDON_E_USAGE, 0, "there is no signal '%s'", args->rest[2]);
		cordon_err_hint(&err, "a number, or a name such as TERM");
		return session_fail(&err);
	}
	if (session_ask(args->rest[0], WIRE_KILL, strings, 2, &reply, &err) < 0)
		return session_fail(&err);
	return 0;
}

static int print_part(const char *data, size_t len)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r = len ? out_write(STDOUT_FILENO, data, len) : 0;

	if (r == 0)
		return 0;
	cordon_err(&err, CORDON_E_SYSTEM, -r, "cannot write standard output");
	/* As everywhere: the reader closed the pipe and needs no message. */
	if (r != -EPIPE)
		say_error(&err);
	return STATUS_FAILED;
}

int print_output(const char *data, size_t len)
{
	static char clean_text[TERMCLEAN_OUT_SIZE(CLEAN_CHUNK)];
	static struct termclean clean;

	if (!isatty(STDOUT_FILENO))
		return print_part(data, len);
	while (len > 0) {
		size_t part = len < CLEAN_CHUNK ? len : CLEAN_CHUNK;
		size_t n = termclean_feed(&clean, data, part, clean_text);

		if (print_part(clean_text, n) != 0)
			return STATUS_FAILED;
		data += part;
		len -= part;
	}
	return 0;
}

int cmd_session_logs(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct wire reply = WIRE_INIT;
	const char *string;

	if (session_operands(args, 2, 2, &err) < 0 || check_number(args, &err) < 0)
		return session_fail(&err);
	string = args->rest[1];
	if (session_ask(args->rest[0], WIRE_LOGS, &string, 1, &reply, &err) < 0)
		return session_fail(&err);
	return reply.in.len ? print_output(reply.in.data, reply.in.len) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon session exec: our streams go to the supervisor, as descriptors, and we wait. A signal is
 * passed on like in `cordon run`: the first lets the command tidy up, the second ends it. If we are
 * killed, the supervisor ends the command, or leaves it (--keep).
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/macros.h"
#include "base/units.h"
#include "explain.h"
#include "foreign.h"
#include "keyboard.h"
#include "out.h"
#include "session.h"
#include "signals.h"
#include "streams.h"
#include "verbs.h"

#define FIXED 7 /* strings before the variables */

struct request {
	const char **strings;
	size_t n;
	char wall[24], output[24], n_env[16], flags[8], streams[4];
	int fds[WIRE_FDS_MAX], n_fds;
};

/* As in a policy: nothing that is given means "no limit". */
static int number_option(const struct parsed *args, int id, const char *least,
			 int (*parse)(const char *, int64_t *, struct cordon_error *), char *ret,
			 size_t size, struct cordon_error *err)
{
	const char *text = parsed_value(args, id), *name = option_table[id].name;
	int64_t value = 0;

	if (text && parse(text, &value, err) < 0) {
		cordon_err_prefix(err, "--%s", name);
		return -CORDON_E_USAGE;
	}
	if (text && value == 0)
		return cordon_err(err, CORDON_E_USAGE, 0, "--%s must be at least %s, not '%s'",
				  name, least, text);
	snprintf(ret, size, "%lld", (long long)value);
	return 0;
}

/* NAME=VALUE, or NAME for the caller's own. */
static const char *variable(const char *given)
{
	const char *value = strchr(given, '=') ? NULL : getenv(given);
	size_t size;
	char *text;

	if (strchr(given, '='))
		return given;
	if (!value)
		return NULL;
	size = strlen(given) + strlen(value) + 2;
	text = malloc(size);
	if (text)
		snprintf(text, size, "%s=%s", given, value);
	return text;
}

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* Who has a channel may be killed while its command, which nothing else ends, does not look at
 * that. Then the other end of this pipe is gone. */
static bool has_lifeline(const struct parsed *args)
{
	return parsed_has(args, OPT_CHANNEL) && is_pipe(STDIN_FILENO);
}

static void set_flags(struct request *q, const struct parsed *args)
{
	size_t n = 0;

	if (parsed_has(args, OPT_DETACH))
		q->flags[n++] = WIRE_DETACHED;
	if (parsed_has(args, OPT_KEEP))
		q->flags[n++] = WIRE_KEEP;
	if (parsed_has(args, OPT_KILL_REST))
		q->flags[n++] = WIRE_KILL_REST;
	if (parsed_has(args, OPT_SERVE_FILES))
		q->flags[n++] = WIRE_FILES;
	if (parsed_has(args, OPT_CHANNEL))
		q->flags[n++] = WIRE_CHANNEL;
	q->flags[n] = '\0';
}

static void set_stream(struct request *q, int i, const struct cordon_stream *s)
{
	static const char letters[] = { [CORDON_STREAM_NULL] = 'n',
					[CORDON_STREAM_CAPTURE] = 'c',
					[CORDON_STREAM_FD] = 'f',
					[CORDON_STREAM_JOIN] = 'j' };

	q->streams[i] = letters[s->mode];
	if (s->mode == CORDON_STREAM_FD)
		q->fds[q->n_fds++] = s->fd;
}

/* A program that has a channel reads its pipes itself: what was written before an answer on the
 * channel is there with the answer. */
static void pass_pipes(struct request *q, const struct cordon_run_options *o)
{
	const struct cordon_stream *streams[] = { NULL, &o->out, &o->err };

	for (int i = 1; i < 3; i++)
		if (q->streams[i] == 'f' && is_writing_end(streams[i]->fd))
			q->streams[i] = 'p';
}

static void set_streams(struct request *q, const struct parsed *args,
			const struct cordon_run_options *o)
{
	if (parsed_has(args, OPT_DETACH)) {
		memcpy(q->streams, "ncj", 4);
		return;
	}
	if (has_lifeline(args))
		q->streams[0] = 'n';
	else
		set_stream(q, 0, &o->in);
	set_stream(q, 1, &o->out);
	set_stream(q, 2, &o->err);
	q->streams[3] = '\0';
	if (parsed_has(args, OPT_CHANNEL))
		pass_pipes(q, o);
}

static bool is_channel(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode));
}

/* After the streams. A file or directory would be the command's, whatever the policy says. */
static int set_channel(struct request *q, const struct parsed *args, struct cordon_error *err)
{
	const char *text = parsed_value(args, OPT_CHANNEL);
	char *end = NULL;
	long fd;

	if (!text)
		return 0;
	errno = 0;
	fd = strtol(text, &end, 10);
	if (errno || end == text || *end || fd <= STDERR_FILENO || fd > INT_MAX ||
	    !is_channel((int)fd))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--channel must be an open descriptor above 2, of a socket or a "
				  "pipe, not '%s'",
				  text);
	q->fds[q->n_fds++] = (int)fd;
	return 0;
}

static int build(struct request *q, const struct parsed *args, char **words,
		 struct cordon_error *err)
{
	const char *cwd = parsed_value(args, OPT_CWD);
	size_t n_words = 0, n_env = 0;

	while (words[n_words])
		n_words++;
	q->strings = calloc(FIXED + args->n_options + n_words, sizeof(*q->strings));
	if (!q->strings)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (number_option(args, OPT_TIMEOUT, "1ms", units_parse_duration, q->wall, sizeof(q->wall),
			  err) < 0 ||
	    number_option(args, OPT_MAX_OUTPUT, "1", units_parse_size, q->output, sizeof(q->output),
			  err) < 0)
		return -CORDON_E_USAGE;
	if (parsed_has(args, OPT_INTERPRETER))
		q->strings[q->n++] = parsed_value(args, OPT_INTERPRETER);
	q->strings[q->n++] = cwd ? cwd : "";
	q->strings[q->n++] = q->wall;
	q->strings[q->n++] = q->output;
	q->strings[q->n++] = q->flags;
	q->strings[q->n++] = q->streams;
	q->strings[q->n++] = q->n_env;
	for (size_t i = 0; i < args->n_options; i++) {
		int is_env = args->options[i].id == OPT_ENV;
		const char *v = is_env ? variable(args->options[i].value) : NULL;

		if (is_env && strcspn(args->options[i].value, "=") == 0)
			return cordon_err(err, CORDON_E_USAGE, 0,
					  "--env: a variable's name must not be empty");
		if (v) {
			q->strings[q->n++] = v;
			n_env++;
		}
	}
	snprintf(q->n_env, sizeof(q->n_env), "%zu", n_env);
	for (size_t i = 0; i < n_words; i++)
		q->strings[q->n++] = words[i];
	return 0;
}

static void pass_signals(struct signals *signals, const struct session_client *c,
			 const struct parsed *args)
{
	bool has_channel = parsed_has(args, OPT_CHANNEL);

	struct signalfd_siginfo info;

	while (read(signals->fd, &info, sizeof(info)) == sizeof(info)) {
		int number = (int)info.ssi_signo;
		/* Who has a channel ends the command by that, and interrupts it by this. */
		int is_end = (number == SIGINT && !has_channel) || number == SIGTERM ||
			     number == SIGHUP || number == SIGQUIT;
		char text[16];
		const char *string = text;

		if (number == SIGTSTP || number == SIGCONT || number == SIGWINCH)
			continue;
		snprintf(text, sizeof(text), "%d",
			 is_end && (signals->cancel_signal || parsed_has(args, OPT_INTERPRETER))
				 ? SIGKILL
				 : number);
		(void)session_send(c, is_end ? WIRE_END : WIRE_SIGNAL, &string, 1, NULL, 0, NULL);
		if (is_end)
			signals->cancel_signal = number;
	}
}

/* Until the next message of the supervisor. */
static int wait_for(const struct session_client *c, struct signals *signals,
		    struct keyboard *keyboard, const struct parsed *args, struct wire *reply,
		    struct cordon_error *err)
{
	int lifeline = has_lifeline(args) ? STDIN_FILENO : -1;

	for (;;) {
		struct pollfd fds[5] = { { .fd = c->fd, .events = POLLIN },
					 { .fd = signals->fd, .events = POLLIN } };
		int timeout = keyboard_prepare(keyboard, fds + 2), r;

		fds[4] = (struct pollfd){ .fd = lifeline };
		if (poll(fds, 5, timeout) < 0 && errno != EINTR)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait");
		if (fds[1].revents)
			pass_signals(signals, c, args);
		if (fds[4].revents && parsed_has(args, OPT_INTERPRETER))
			return cordon_err(err, CORDON_E_STATE, 0, "nobody is there any more");
		if (fds[4].revents) {
			(void)session_send(c, WIRE_END, &(const char *){ "9" }, 1, NULL, 0, NULL);
			lifeline = -1;
		}
		(void)keyboard_pump(keyboard, fds + 2);
		if (!fds[0].revents)
			continue;
		r = session_receive(c, reply, err);
		if (r != 0)
			return r;
	}
}

/* The command and its arguments, of a line that has a session's name and more. */
static char **words_of(const struct parsed *args)
{
	static char files[] = "files", *serving[] = { files, NULL };

	if (parsed_has(args, OPT_SERVE_FILES))
		return serving;
	return args->rest + (strcmp(args->rest[1], "--") == 0 ? 2 : 1);
}

/* What the command's receipt says; the texts are those of `cordon run`. */
struct ending {
	struct arena arena;
	const struct json_value *root;
	int status;
	int out_errno, err_errno; /* the supervisor could not write there */
	int was_ours;		  /* a signal of ours has ended it */
};

static const char *text_of(const struct json_value *object, const char *key)
{
	const struct json_value *v = object && object->type == JSON_OBJECT ? json_get(object, key)
									   : NULL;

	return v && v->type == JSON_STRING ? v->text : "";
}

/* The command's own time, or that of the session. */
static void say_timeout(const struct parsed *args, const struct ending *e)
{
	const char *wall = parsed_value(args, OPT_TIMEOUT);
	const struct json_value *v = json_get(e->root, "duration_ms");
	char text[UNITS_TEXT_MAX];
	int64_t ms;

	if (wall && units_parse_duration(wall, &ms, NULL) == 0 && v && v->text &&
	    strtod(v->text, NULL) >= (double)ms)
		say_line("time limit of %s reached; the command was ended (raise it with -t)",
			 units_format_duration(ms, text));
	else
		say_line("time limit of the session reached; the session was ended (raise it with "
			 "-t of 'cordon session start')");
}

/* Nothing else says why the command ended. */
static void say_kind(const struct parsed *args, const struct ending *e)
{
	static const struct {
		const char *kind, *limit, *option;
	} limits[] = {
		{ "memory", "memory limit", "-m" },
		{ "cpu_time", "CPU time limit", "--cpu-time" },
		{ "disk", "disk limit", "--disk" },
		{ "procs", "limit of tasks", "-P" },
	};
	const char *kind = text_of(e->root, "kind");

	if (!strcmp(kind, "timeout"))
		say_timeout(args, e);
	else if (!strcmp(kind, "cancelled") && !e->was_ours)
		say_line("the command was ended from outside, with 'cordon session kill' or its "
			 "session");
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (!strcmp(kind, limits[i].kind))
			say_line("%s of the session reached; the session was ended (raise it with "
				 "%s of 'cordon session start')",
				 limits[i].limit, limits[i].option);
}

static int is_cut(const struct ending *e)
{
	const struct json_value *cut = json_get(e->root, "truncated"), *out, *err;

	if (!cut || cut->type != JSON_OBJECT || e->out_errno || e->err_errno)
		return 0;
	out = json_get(cut, "stdout");
	err = json_get(cut, "stderr");
	return (out && out->type == JSON_TRUE) || (err && err->type == JSON_TRUE);
}

static void say_ending(const struct parsed *args, const struct ending *e)
{
	const struct json_value *error = json_get(e->root, "error");
	struct cordon_error err = CORDON_ERROR_INIT;

	if (text_of(error, "message")[0]) {
		cordon_err(&err, CORDON_E_STATE, 0, "%s", text_of(error, "message"));
		if (text_of(error, "hint")[0])
			cordon_err_hint(&err, "%s", text_of(error, "hint"));
		if (e->status == STATUS_NOT_FOUND)
			foreign_in_session(words_of(args), &err);
		say_error(&err);
	} else if (!parsed_has(args, OPT_INTERPRETER)) {
		say_kind(args, e);
	}
	if (!parsed_has(args, OPT_QUIET) && !parsed_has(args, OPT_JSON) && is_cut(e))
		say_note("the output was cut at its limit (raise it with --max-output)");
}

static int conclude(const struct parsed *args, const struct wire *reply, int was_ours)
{
	struct ending e = { .arena = ARENA_INIT, .was_ours = was_ours };
	struct strbuf sb = STRBUF_INIT;
	char *rest = NULL;

	if (reply->head.type != WIRE_ENDED || reply->head.n_strings < 2) {
		say_line("the session's answer is garbled");
		return STATUS_FAILED;
	}
	/* A supervisor of an earlier version says the first number only, and two strings. */
	e.status = (int)strtol(reply->strings[0], &rest, 10);
	e.out_errno = (int)strtol(rest, &rest, 10);
	e.err_errno = (int)strtol(rest, &rest, 10);
	if (json_read(reply->strings[1], strlen(reply->strings[1]), "receipt", &e.arena, &e.root,
		      NULL) == 0 &&
	    e.root->type == JSON_OBJECT)
		say_ending(args, &e);
	if (!parsed_has(args, OPT_QUIET) && reply->head.n_strings > 2)
		(void)out_write(STDERR_FILENO, reply->strings[2], strlen(reply->strings[2]));
	arena_done(&e.arena);
	if (explain_loss(e.out_errno, "output") + explain_loss(e.err_errno, "error output") &&
	    e.status == 0)
		e.status = STATUS_FAILED;
	if (!parsed_has(args, OPT_JSON))
		return e.status;
	strbuf_puts(&sb, reply->strings[1]);
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, e.status);
}

static int print_number(const struct wire *reply)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, reply->strings[0]);
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

/* Asks the session's supervisor to start the command. */
static int ask(const struct parsed *args, char **words, struct cordon_run_options *options,
	       struct signals *signals, struct keyboard *keyboard, struct session_client *c,
	       struct cordon_error *err)
{
	struct request q = { .n = 0 };
	int r;

	streams_choose(args, 0, options);
	set_flags(&q, args);
	r = build(&q, args, words, err);
	if (r >= 0)
		r = signals_init(signals, 0, err);
	if (r >= 0 && !parsed_has(args, OPT_DETACH))
		r = keyboard_attach(keyboard, options, err);
	if (r >= 0) {
		set_streams(&q, args, options);
		r = set_channel(&q, args, err);
	}
	if (r >= 0)
		r = session_open(args->rest[0], c, err);
	if (r >= 0)
		r = session_send(c, parsed_has(args, OPT_INTERPRETER) ? WIRE_JOIN : WIRE_EXEC,
				 q.strings, q.n, q.fds, q.n_fds, err);
	/* Its other end shall notice when the command closes it. */
	if (r >= 0 && parsed_has(args, OPT_CHANNEL))
		close(q.fds[q.n_fds - 1]);
	free(q.strings);
	return r;
}

static int check_line(const struct parsed *args, struct cordon_error *err)
{
	if (parsed_has(args, OPT_INTERPRETER) &&
	    (!parsed_has(args, OPT_CHANNEL) || parsed_has(args, OPT_DETACH) ||
	     !is_writing_end(STDOUT_FILENO) || !is_writing_end(STDERR_FILENO)))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--interpreter needs --channel, and pipes as standard output and "
				  "error");
	if (!parsed_has(args, OPT_SERVE_FILES))
		return session_operands(args, 2, SIZE_MAX, err);
	if (parsed_has(args, OPT_DETACH) || parsed_has(args, OPT_CHANNEL))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--serve-files takes neither --detach nor --channel");
	return session_operands(args, 1, 1, err);
}

int cmd_session_exec(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct keyboard keyboard;
	struct session_client c;
	struct signals signals;
	struct wire reply = WIRE_INIT;
	char **words;
	int r;

	keyboard_init(&keyboard);
	if (check_line(args, &err) < 0)
		return session_fail(&err);
	words = words_of(args);
	if (!words[0])
		return session_operands(args, SIZE_MAX, SIZE_MAX, &err) < 0 ? session_fail(&err)
									    : 0;
	if (ask(args, words, &options, &signals, &keyboard, &c, &err) < 0)
		return session_fail(&err);
	keyboard_started(&keyboard);
	r = session_receive(&c, &reply, &err);
	if (r < 0)
		return session_fail(&err);
	if (parsed_has(args, OPT_DETACH))
		return print_number(&reply);
	wire_reset(&reply);
	r = wait_for(&c, &signals, &keyboard, args, &reply, &err);
	return r < 0 ? session_fail(&err) : conclude(args, &reply, signals.cancel_signal != 0);
}

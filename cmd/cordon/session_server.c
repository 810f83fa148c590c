/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor of a session: one poll loop over the session, the socket and its clients.
 *
 * A client is believed nothing but that it is the same user (SO_PEERCRED), knows the key, and is no
 * more confined than we are: a command in a sandbox has more filters of system calls than whoever
 * started it, so it is refused even if it gets hold of both. Messages are checked by
 * session_wire.c. Nothing here blocks on a client: replies wait in a buffer, a request that does
 * not become complete ends the connection.
 */
#include "session_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/macros.h"
#include "explain.h"
#include "out.h"
#include "session_wire.h"
#include "session_peer.h"

#define CLIENTS_MAX 128
#define JOBS_MAX 256
#define KEPT_MAX 32 /* detached commands that are over, for `logs` */
#define REQUEST_MS 10000
#define GOODBYE_MS 2000
#define WORDS_MAX 200 /* bytes of a command line that are shown */

struct client {
	int fd; /* -1 = free */
	struct wire wire;
	struct strbuf out;
	size_t sent;
	int64_t since_ms;
	struct job *job;
	int wants_receipt; /* it waits for the end of the session */
	int is_closing;	   /* once all is sent */
	int is_known;	   /* it has sent the key */
};

struct job {
	unsigned number; /* 0 = free */
	struct cordon_command *command;
	struct client *client;
	int is_detached, keeps, is_over;
	int64_t started_ms;
	char words[WORDS_MAX];
	const char *kind;
	int status;
};

static struct client clients[CLIENTS_MAX];
static struct job jobs[JOBS_MAX];
static unsigned last_number;
static int64_t active_ms; /* when something was asked or ran last */
static const char *ended_by;

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Replies. */

static void reply(struct client *c, uint32_t type, const char *const *strings, size_t n)
{
	wire_add(&c->out, type, strings, n);
}

static void reply_ok(struct client *c, const char *text)
{
	reply(c, WIRE_OK, &text, 1);
}

static void reply_error(struct client *c, const struct cordon_error *err)
{
	char code[16];
	const char *strings[] = { code, err->msg, err->hint };

	snprintf(code, sizeof(code), "%d", err->code);
	reply(c, WIRE_ERROR, strings, 3);
}

static void reply_usage(struct client *c, const char *text)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	cordon_err(&err, CORDON_E_USAGE, 0, "%s", text);
	reply_error(c, &err);
}

static void reply_no_job(const struct session_server *s, struct client *c, const char *text)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	cordon_err(&err, CORDON_E_STATE, 0, "%s", text);
	cordon_err_hint(&err, "'cordon session ps %s' lists the commands", s->place.name);
	reply_error(c, &err);
}

static void drop_client(struct client *c)
{
	struct job *job = c->job;

	if (c->fd < 0)
		return;
	close(c->fd);
	wire_reset(&c->wire);
	strbuf_done(&c->out);
	*c = (struct client){ .fd = -1 };
	if (!job)
		return;
	job->client = NULL;
	if (!job->keeps)
		(void)cordon_command_end(job->command, SIGKILL, 0, NULL);
}

static void flush(struct client *c)
{
	while (c->fd >= 0 && c->sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			drop_client(c);
			return;
		}
		c->sent += (size_t)n;
	}
	if (c->fd < 0)
		return;
	strbuf_done(&c->out);
	c->out = (struct strbuf)STRBUF_INIT;
	c->sent = 0;
	if (c->is_closing)
		drop_client(c);
}

/* Commands. */

static struct job *find_job(unsigned number)
{
	for (int i = 0; number && i < JOBS_MAX; i++)
		if (jobs[i].number == number)
			return &jobs[i];
	return NULL;
}

static void forget_job(struct job *job)
{
	if (job->client)
		job->client->job = NULL;
	cordon_command_free(job->command);
	*job = (struct job){ 0 };
}

/* The oldest ones that are over make room. */
static void limit_kept(void)
{
	struct job *oldest;
	int n;

	do {
		oldest = NULL;
		n = 0;
		for (int i = 0; i < JOBS_MAX; i++) {
			if (!jobs[i].number || !jobs[i].is_over)
				continue;
			n++;
			if (!oldest || jobs[i].number < oldest->number)
				oldest = &jobs[i];
		}
		if (n > KEPT_MAX)
			forget_job(oldest);
	} while (n > KEPT_MAX);
}

static struct job *new_job(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (!jobs[i].number)
			return &jobs[i];
	return NULL;
}

static int64_t number_of(const char *text, int64_t max)
{
	char *end;
	long long value;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	value = strtoll(text, &end, 10);
	return *end || errno || value > max ? -1 : value;
}

static int set_stream(struct cordon_stream *s, char letter, const struct wire *w, int *next)
{
	switch (letter) {
	case 'n':
		s->mode = CORDON_STREAM_NULL;
		return 0;
	case 'j':
		s->mode = CORDON_STREAM_JOIN;
		return 0;
	case 'c':
		s->mode = CORDON_STREAM_CAPTURE;
		return 0;
	case 'f':
	case 'p':
		if (*next >= w->n_fds)
			return -1;
		s->mode = letter == 'f' ? CORDON_STREAM_FD : CORDON_STREAM_PASS;
		s->fd = w->fds[(*next)++];
		s->clean = isatty(s->fd);
		return 0;
	default:
		return -1;
	}
}

static void keep_words(struct job *job, const char *const *argv)
{
	struct strbuf sb = STRBUF_INIT;

	for (; *argv && sb.len < WORDS_MAX; argv++) {
		if (sb.len)
			strbuf_putc(&sb, ' ');
		strbuf_add_escaped(&sb, *argv, strnlen(*argv, WORDS_MAX));
	}
	snprintf(job->words, sizeof(job->words), "%s", sb.data ? sb.data : "");
	strbuf_done(&sb);
}

/* @text: cwd, time, output, flags, streams, number of variables, variables, words. */
static int read_exec(const struct wire *w, struct cordon_exec_options *o, const char ***ret_env)
{
	const char **text = w->strings + 1;
	size_t n = w->head.n_strings - 1, n_env;
	int next = 0;

	if (w->head.n_strings < 8 || strlen(text[4]) != 3)
		return -1;
	o->cwd = text[0][0] ? text[0] : NULL;
	o->wall_ms = number_of(text[1], INT64_MAX / 1000000);
	o->output_bytes = number_of(text[2], INT64_MAX / 4);
	if (o->wall_ms < 0 || o->output_bytes < 0 || number_of(text[5], WIRE_STRINGS_MAX) < 0)
		return -1;
	n_env = (size_t)number_of(text[5], WIRE_STRINGS_MAX);
	if (n_env + 6 >= n)
		return -1;
	if (set_stream(&o->in, text[4][0], w, &next) < 0 ||
	    set_stream(&o->out, text[4][1], w, &next) < 0 ||
	    set_stream(&o->err, text[4][2], w, &next) < 0)
		return -1;
	if (strchr(text[3], WIRE_CHANNEL))
		o->channel_fd = next < w->n_fds ? w->fds[next++] : -1;
	if (next != w->n_fds || (strchr(text[3], WIRE_CHANNEL) && o->channel_fd < 0))
		return -1;
	o->orphans = strchr(text[3], WIRE_KILL_REST) ? CORDON_ORPHANS_KILL : CORDON_ORPHANS_KEEP;
	o->files = strchr(text[3], WIRE_FILES) != NULL;
	o->argv = text + 6 + n_env;
	*ret_env = calloc(n_env + 1, sizeof(**ret_env));
	if (!*ret_env)
		return -1;
	memcpy(*ret_env, text + 6, n_env * sizeof(**ret_env));
	o->env = *ret_env;
	return 0;
}

static void do_exec(struct session_server *s, struct client *c)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const char **env = NULL, *flags, *text;
	struct job *job = new_job();
	char number[16];

	if (read_exec(&c->wire, &o, &env) < 0) {
		reply_usage(c, "the request is not to be understood");
		return;
	}
	flags = c->wire.strings[4];
	if (!job) {
		reply_usage(c, "there are too many commands in this session");
	} else if (cordon_session_exec(s->session, &o, &job->command, &err) < 0) {
		reply_error(c, &err);
	} else {
		job->number = ++last_number;
		job->is_detached = strchr(flags, WIRE_DETACHED) != NULL;
		job->keeps = job->is_detached || strchr(flags, WIRE_KEEP);
		job->started_ms = now_ms();
		keep_words(job, o.argv);
		if (!job->is_detached) {
			job->client = c;
			c->job = job;
		}
		snprintf(number, sizeof(number), "%u", job->number);
		text = number;
		reply(c, WIRE_STARTED, &text, 1);
	}
	free(env);
}

/* One that has ended: its client gets the receipt. */
static void settle(struct job *job)
{
	const struct cordon_result *res = cordon_command_result(job->command);
	char status[48], *json = NULL;
	const char *strings[3] = { status, "", "" };
	struct strbuf told = STRBUF_INIT;

	if (!res || job->is_over)
		return;
	job->is_over = 1;
	job->status = res->status;
	job->kind = cordon_kind_name(res->kind);
	if (job->is_detached)
		return;
	if (job->client) {
		snprintf(status, sizeof(status), "%d %d %d", res->status, res->out.write_errno,
			 res->err.write_errno);
		if (cordon_result_to_json(res, 1, &json, NULL) == 0)
			strings[1] = json;
		out_collect(&told);
		explain_words(res);
		out_collect(NULL);
		if (told.len && !told.failed)
			strings[2] = told.data;
		reply(job->client, WIRE_ENDED, strings, 3);
		strbuf_done(&told);
		job->client->is_closing = 1;
		cordon_free(json);
	}
	forget_job(job);
}

static void settle_all(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].number)
			settle(&jobs[i]);
	limit_kept();
}

/* Requests. */

static void add_jobs(struct json_writer *w)
{
	json_open_array(w, "commands");
	for (unsigned number = 1; number <= last_number; number++) {
		const struct job *job = find_job(number);

		if (!job)
			continue;
		json_open_object(w, NULL);
		json_uint(w, "number", job->number);
		json_string(w, "command", job->words);
		json_bool(w, "detached", job->is_detached);
		json_bool(w, "running", !job->is_over);
		json_int(w, "age_ms", now_ms() - job->started_ms);
		if (job->is_over) {
			json_string(w, "kind", job->kind);
			json_int(w, "status", job->status);
		}
		json_close_object(w);
	}
	json_close_array(w);
}

static void do_status(struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session_usage usage = { 0 };
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (cordon_session_usage(s->session, &usage, &err) < 0) {
		reply_error(c, &err);
		return;
	}
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "name", s->place.name);
	json_int(&w, "pid", getpid());
	json_bool(&w, "paused", usage.is_paused);
	json_ms(&w, "uptime_ms", usage.uptime_ms);
	json_uint(&w, "memory_bytes", usage.memory_bytes);
	json_uint(&w, "tasks", usage.tasks);
	json_ms(&w, "cpu_ms", usage.cpu_ms);
	add_jobs(&w);
	json_close_object(&w);
	if (sb.failed)
		reply_usage(c, "out of memory");
	else
		reply_ok(c, sb.data);
	strbuf_done(&sb);
}

static void do_kill(const struct session_server *s, struct client *c)
{
	const struct wire *w = &c->wire;
	int64_t number = w->head.n_strings == 3 ? number_of(w->strings[1], UINT32_MAX) : -1;
	int64_t signal = w->head.n_strings == 3 ? number_of(w->strings[2], 64) : -1;
	struct job *job = number > 0 ? find_job((unsigned)number) : NULL;
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!job || job->is_over || signal < 1) {
		reply_no_job(s, c, "no command of this number runs in the session");
		return;
	}
	if (signal == SIGKILL ? cordon_command_end(job->command, SIGKILL, 0, &err) < 0
			      : cordon_command_signal(job->command, (int)signal, &err) < 0)
		reply_error(c, &err);
	else
		reply_ok(c, "");
}

static void do_logs(const struct session_server *s, struct client *c)
{
	const struct wire *w = &c->wire;
	int64_t number = w->head.n_strings == 2 ? number_of(w->strings[1], UINT32_MAX) : -1;
	struct job *job = number > 0 ? find_job((unsigned)number) : NULL;
	const struct cordon_result *res = job ? cordon_command_result(job->command) : NULL;
	struct cordon_output out, err;

	if (!job || !job->is_detached) {
		reply_no_job(s, c,
			     "there is no output of such a command: only that of detached "
			     "ones is kept");
		return;
	}
	/* Why it could not be started is said nowhere else. */
	if (res && res->error.code) {
		reply_error(c, &res->error);
		return;
	}
	cordon_command_output(job->command, &out, &err);
	wire_add_data(&c->out, out.data, out.len);
}

/* About the command of this connection. */
static void do_signal(struct client *c)
{
	const struct wire *w = &c->wire;
	int64_t signal = w->head.n_strings == 2 ? number_of(w->strings[1], 64) : -1;

	if (signal < 1 || !c->job)
		return;
	if (w->head.type == WIRE_SIGNAL)
		(void)cordon_command_signal(c->job->command, (int)signal, NULL);
	else
		(void)cordon_command_end(c->job->command, (int)signal, signal == SIGKILL ? 0 : 1000,
					 NULL);
}

static void do_stop(struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	c->wants_receipt = 1;
	ended_by = "stop";
	if (cordon_session_end(s->session, SIGTERM, &err) < 0)
		reply_error(c, &err);
}

static void do_pause(struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r = c->wire.head.type == WIRE_PAUSE ? cordon_session_pause(s->session, &err)
						: cordon_session_resume(s->session, &err);

	if (r < 0)
		reply_error(c, &err);
	else
		reply_ok(c, "");
}

/* In constant time: how long it takes tells nothing about the key. */
static int is_key(const struct session_server *s, const char *given)
{
	unsigned char differs = strlen(given) != SESSION_KEY_CHARS;

	for (size_t i = 0; !differs && i < SESSION_KEY_CHARS; i++)
		differs |= (unsigned char)(given[i] ^ s->place.key[i]);
	return !differs;
}

static void handle(struct session_server *s, struct client *c)
{
	if (c->wire.head.n_strings < 1 || !is_key(s, c->wire.strings[0])) {
		drop_client(c);
		return;
	}
	c->is_known = 1;
	switch (c->wire.head.type) {
	case WIRE_EXEC:
		if (c->job)
			drop_client(c); /* one for each connection */
		else
			do_exec(s, c);
		break;
	case WIRE_STATUS:
		do_status(s, c);
		break;
	case WIRE_PAUSE:
	case WIRE_RESUME:
		do_pause(s, c);
		break;
	case WIRE_STOP:
		do_stop(s, c);
		break;
	case WIRE_KILL:
		do_kill(s, c);
		break;
	case WIRE_LOGS:
		do_logs(s, c);
		break;
	case WIRE_SIGNAL:
	case WIRE_END:
		do_signal(c);
		break;
	default:
		drop_client(c);
		break;
	}
}

static void read_client(struct session_server *s, struct client *c)
{
	int r = wire_receive(&c->wire, c->fd, WIRE_REQUEST_MAX);

	if (r < 0) {
		drop_client(c);
		return;
	}
	if (r == 0)
		return;
	active_ms = c->since_ms = now_ms();
	handle(s, c);
	if (c->fd >= 0)
		wire_reset(&c->wire);
}

/* Who may not speak to us is not answered. */
static void accept_client(struct session_server *s)
{
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &clients[i];

		if (c->fd >= 0)
			continue;
		if (!session_peer_is_free(fd, s->n_filters))
			break;
		*c = (struct client){
			.fd = fd, .wire = WIRE_INIT, .out = STRBUF_INIT, .since_ms = now_ms()
		};
		return;
	}
	close(fd);
}

/* The loop. */

static int is_busy(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].number && !jobs[i].is_over)
			return 1;
	return 0;
}

/* Ends an idle session; connections that say nothing are closed. Returns for how long to wait. */
static int check_time(struct session_server *s)
{
	int64_t now = now_ms(), wait = REQUEST_MS;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &clients[i];

		if (c->fd >= 0 && !c->job && !c->wants_receipt && now - c->since_ms > REQUEST_MS)
			drop_client(c);
	}
	if (is_busy())
		active_ms = now;
	if (!s->idle_ms)
		return (int)wait;
	if (now - active_ms >= s->idle_ms && !ended_by) {
		ended_by = "idle";
		(void)cordon_session_end(s->session, SIGTERM, NULL);
	}
	if (s->idle_ms - (now - active_ms) < wait)
		wait = s->idle_ms - (now - active_ms);
	return wait > 0 ? (int)wait : 10;
}

static void take_signals(struct session_server *s)
{
	struct signalfd_siginfo info;

	while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (ended_by)
			(void)cordon_session_cancel(s->session, NULL);
		ended_by = "signal";
		(void)cordon_session_end(s->session, SIGTERM, NULL);
	}
}

static size_t fill_polled(const struct session_server *s, struct pollfd *fds, struct client **of)
{
	size_t n = 0;

	fds[n++] = (struct pollfd){ .fd = cordon_session_fd(s->session), .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = s->signal_fd, .events = POLLIN };
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &clients[i];

		if (c->fd < 0)
			continue;
		of[n] = c;
		fds[n++] =
			(struct pollfd){ .fd = c->fd,
					 .events = (short)(POLLIN | (c->out.len ? POLLOUT : 0)) };
	}
	return n;
}

static void serve_clients(struct session_server *s, const struct pollfd *fds,
			  struct client *const *of, size_t n)
{
	for (size_t i = 3; i < n; i++) {
		if (fds[i].revents & (POLLIN | POLLHUP | POLLERR) && of[i]->fd == fds[i].fd)
			read_client(s, of[i]);
	}
	settle_all();
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].fd >= 0 && (clients[i].out.len || clients[i].is_closing))
			flush(&clients[i]);
}

/* {"session": {...}, "receipt": {...}} */
static char *whole_receipt(const struct session_server *s)
{
	const struct cordon_result *res = cordon_session_result(s->session);
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	char *json = NULL;

	if (!res || cordon_result_to_json(res, 0, &json, NULL) < 0)
		return NULL;
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_open_object(&w, "session");
	json_string(&w, "name", s->place.name);
	json_string(&w, "ended_by",
		    ended_by			       ? ended_by
		    : res->kind == CORDON_KIND_TIMEOUT ? "lifetime"
						       : "limit");
	json_uint(&w, "commands", last_number);
	json_close_object(&w);
	json_raw(&w, "receipt", json);
	json_close_object(&w);
	cordon_free(json);
	return strbuf_take(&sb);
}

/* Everybody who waits hears it, for as long as they read. */
static void say_goodbye(struct session_server *s)
{
	int64_t until = now_ms() + GOODBYE_MS;
	char *receipt = whole_receipt(s);
	int is_left = 1;

	settle_all();
	if (receipt && s->receipt.dir_fd >= 0)
		(void)receipt_write(&s->receipt, receipt, strlen(receipt), NULL);
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (clients[i].fd >= 0 && clients[i].wants_receipt)
			reply_ok(&clients[i], receipt ? receipt : "");
		clients[i].is_closing = 1;
	}
	while (is_left && now_ms() < until) {
		is_left = 0;
		for (int i = 0; i < CLIENTS_MAX; i++) {
			flush(&clients[i]);
			is_left |= clients[i].fd >= 0;
		}
		if (is_left)
			usleep(5000);
	}
	free(receipt);
}

void session_serve(struct session_server *s)
{
	struct pollfd fds[CLIENTS_MAX + 3];
	struct client *of[CLIENTS_MAX + 3] = { NULL };
	int is_over = 0;

	for (int i = 0; i < CLIENTS_MAX; i++)
		clients[i].fd = -1;
	active_ms = now_ms();
	while (!is_over) {
		int wait = check_time(s);
		size_t n = fill_polled(s, fds, of);

		if (poll(fds, n, wait) < 0 && errno != EINTR)
			break;
		if (fds[2].revents)
			take_signals(s);
		is_over = cordon_session_process(s->session, NULL) == 1;
		if (fds[1].revents)
			accept_client(s);
		serve_clients(s, fds, of, n);
	}
	/* From here on the name is free: who hears of the end may use it at once. Closed first, the
	 * socket would have a name, and refuse who asks. */
	session_unclaim(&s->place);
	close(s->listen_fd);
	say_goodbye(s);
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].number)
			forget_job(&jobs[i]);
	cordon_session_free(s->session);
	cordon_launcher_free(s->launcher);
}

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
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "session_clients.h"
#include "session_env.h"
#include "session_jobs.h"
#include "session_shared.h"
#include "session_wire.h"

#define REQUEST_MS 10000
#define GOODBYE_MS 2000

static int64_t active_ms; /* when something was asked or ran last */
static const char *ended_by;

/* Requests. */

static void do_status(struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session_usage usage = { 0 };
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (cordon_session_usage(s->session, &usage, &err) < 0) {
		clients_reply_error(c, &err);
		return;
	}
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "type", "session");
	json_string(&w, "name", s->place.name);
	json_int(&w, "pid", getpid());
	json_bool(&w, "paused", usage.is_paused);
	json_ms(&w, "uptime_ms", usage.uptime_ms);
	json_uint(&w, "memory_bytes", usage.memory_bytes);
	json_uint(&w, "tasks", usage.tasks);
	json_ms(&w, "cpu_ms", usage.cpu_ms);
	jobs_list(&w);
	json_close_object(&w);
	if (sb.failed)
		clients_reply_usage(c, "out of memory");
	else
		clients_reply_ok(c, sb.data);
	strbuf_done(&sb);
}

static void do_stop(struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	c->wants_receipt = 1;
	ended_by = "stop";
	if (cordon_session_end(s->session, SIGTERM, &err) < 0)
		clients_reply_error(c, &err);
}

static void do_pause(struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r = c->wire.head.type == WIRE_PAUSE ? cordon_session_pause(s->session, &err)
						: cordon_session_resume(s->session, &err);

	if (r < 0)
		clients_reply_error(c, &err);
	else
		clients_reply_ok(c, "");
	if (r >= 0)
		shared_pause(c->wire.head.type == WIRE_PAUSE);
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
		clients_drop(c);
		return;
	}
	c->is_known = 1;
	switch (c->wire.head.type) {
	case WIRE_EXEC:
	case WIRE_JOIN:
		if (c->job || c->member)
			clients_drop(c); /* one for each connection */
		else if (!clients_may_stay(s, c))
			break;
		else if (c->wire.head.type == WIRE_EXEC)
			job_exec(s, c);
		else
			shared_join(s, c);
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
		job_kill(s, c);
		break;
	case WIRE_LOGS:
		job_logs(s, c);
		break;
	case WIRE_ENV:
		session_env_set(c);
		break;
	case WIRE_SIGNAL:
	case WIRE_END:
		job_signal(c);
		break;
	default:
		clients_drop(c);
		break;
	}
}

static void read_client(struct session_server *s, struct client *c)
{
	int r = wire_receive(&c->wire, c->fd, WIRE_REQUEST_MAX);

	if (r < 0) {
		clients_drop(c);
		return;
	}
	if (r == 0)
		return;
	active_ms = c->since_ms = server_now_ms();
	handle(s, c);
	if (c->fd >= 0)
		wire_reset(&c->wire);
}

/* The loop. */

/* Ends an idle session; connections that say nothing are closed. Returns for how long to wait. */
static int check_time(struct session_server *s)
{
	int64_t now = server_now_ms(), wait = REQUEST_MS;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = client_at(i);

		if (c->fd >= 0 && !c->job && !c->member && !c->wants_receipt &&
		    now - c->since_ms > REQUEST_MS)
			clients_drop(c);
	}
	if (jobs_run())
		active_ms = now;
	if (shared_next_time() - now < wait)
		wait = shared_next_time() > now ? shared_next_time() - now : 0;
	if (!s->idle_ms)
		return (int)wait;
	if (now - active_ms >= s->idle_ms && !ended_by) {
		ended_by = "idle";
		(void)cordon_session_end(s->session, SIGTERM, NULL);
	}
	if (s->idle_ms - (now - active_ms) < wait)
		wait = ended_by ? 10 : s->idle_ms - (now - active_ms);
	return (int)wait;
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
		struct client *c = client_at(i);

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
	shared_serve();
	jobs_settle();
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (client_at(i)->fd >= 0 && (client_at(i)->out.len || client_at(i)->is_closing))
			clients_flush(client_at(i));
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
	json_uint(&w, "commands", jobs_counted());
	json_close_object(&w);
	json_raw(&w, "receipt", json);
	json_close_object(&w);
	cordon_free(json);
	return strbuf_take(&sb);
}

/* Everybody who waits hears it, for as long as they read. */
static void say_goodbye(struct session_server *s)
{
	int64_t until = server_now_ms() + GOODBYE_MS;
	char *receipt = whole_receipt(s);
	int is_left = 1;

	jobs_settle();
	if (receipt && s->receipt.dir_fd >= 0)
		(void)receipt_write(&s->receipt, receipt, strlen(receipt), NULL);
	for (int i = 0; i < CLIENTS_MAX; i++) {
		if (client_at(i)->fd >= 0 && client_at(i)->wants_receipt)
			clients_reply_ok(client_at(i), receipt ? receipt : "");
		client_at(i)->is_closing = 1;
	}
	while (is_left && server_now_ms() < until) {
		is_left = 0;
		for (int i = 0; i < CLIENTS_MAX; i++) {
			clients_flush(client_at(i));
			is_left |= client_at(i)->fd >= 0;
		}
		if (is_left)
			usleep(5000);
	}
	free(receipt);
}

void session_serve(struct session_server *s)
{
	struct pollfd fds[CLIENTS_MAX + 3 + SHARED_POLLED_MAX];
	struct client *of[CLIENTS_MAX + 3] = { NULL };
	int is_over = 0;

	clients_init();
	active_ms = server_now_ms();
	while (!is_over) {
		int wait = check_time(s);
		size_t n = fill_polled(s, fds, of);

		size_t more = shared_fill_polled(fds + n);

		if (poll(fds, n + more, wait) < 0 && errno != EINTR)
			break;
		if (fds[2].revents)
			take_signals(s);
		is_over = cordon_session_process(s->session, NULL) == 1;
		if (fds[1].revents)
			clients_accept(s);
		serve_clients(s, fds, of, n);
	}
	/* From here on the name is free: who hears of the end may use it at once. Closed first, the
	 * socket would have a name, and refuse who asks. */
	session_unclaim(&s->place);
	close(s->listen_fd);
	say_goodbye(s);
	jobs_forget();
	cordon_session_free(s->session);
	cordon_launcher_free(s->launcher);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "session_clients.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "session_jobs.h"
#include "session_peer.h"
#include "session_shared.h"

static struct client clients[CLIENTS_MAX];

int64_t server_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct client *client_at(int i)
{
	return &clients[i];
}

void clients_init(void)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		clients[i].fd = -1;
}

void clients_reply(struct client *c, uint32_t type, const char *const *strings, size_t n)
{
	wire_add(&c->out, type, strings, n);
}

void clients_reply_ok(struct client *c, const char *text)
{
	clients_reply(c, WIRE_OK, &text, 1);
}

void clients_reply_error(struct client *c, const struct cordon_error *err)
{
	char code[16];
	const char *strings[] = { code, err->msg, err->hint };

	snprintf(code, sizeof(code), "%d", err->code);
	clients_reply(c, WIRE_ERROR, strings, 3);
}

void clients_reply_usage(struct client *c, const char *text)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	cordon_err(&err, CORDON_E_USAGE, 0, "%s", text);
	clients_reply_error(c, &err);
}

void clients_drop(struct client *c)
{
	struct job *job = c->job;

	if (c->fd < 0)
		return;
	if (c->member)
		shared_leave(c);
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

void clients_flush(struct client *c)
{
	while (c->fd >= 0 && c->sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			clients_drop(c);
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
		clients_drop(c);
}

int clients_may_stay(const struct session_server *s, struct client *c)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int n = 0;

	for (int i = 0; i < CLIENTS_MAX; i++)
		n += clients[i].fd >= 0 && (clients[i].job || clients[i].member);
	if (n < STAYING_MAX)
		return 1;
	cordon_err(&err, CORDON_E_STATE, 0, "session '%s' has %d clients already", s->place.name,
		   n);
	cordon_err_hint(&err, "end some of them");
	clients_reply_error(c, &err);
	return 0;
}

/* Who stays leaves some free. If those are taken, too, by who has asked and does not go, or says
 * nothing, the oldest of them has to. NULL: everybody waits for the end of the session. */
static struct client *make_room(void)
{
	struct client *oldest = NULL;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &clients[i];

		if (c->fd < 0)
			return c;
		if (!c->job && !c->member && !c->wants_receipt &&
		    (!oldest || c->since_ms < oldest->since_ms))
			oldest = c;
	}
	if (oldest)
		clients_drop(oldest);
	return oldest;
}

void clients_accept(const struct session_server *s)
{
	int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *c;

	if (fd < 0)
		return;
	c = session_peer_is_free(fd, s->n_filters) ? make_room() : NULL;
	if (!c) {
		close(fd);
		return;
	}
	*c = (struct client){
		.fd = fd, .wire = WIRE_INIT, .out = STRBUF_INIT, .since_ms = server_now_ms()
	};
}

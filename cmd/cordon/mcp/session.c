/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"

struct box *session_box(struct session *session)
{
	return session->box;
}

int session_lives(const struct session *session)
{
	return session->box->session && !session->box->is_over && !session->box->is_ending &&
	       session->box->number == session->box_number;
}

void session_get(struct session *session)
{
	session->refs++;
}

void session_put(struct session *session)
{
	if (session)
		session->refs--;
}

static void free_interps(struct session *session)
{
	for (int i = 0; i < LANGUAGE_MAX; i++)
		interp_free(&session->interps[i], session->box);
}

/* Interpreters that have ended make room for the next ones, once nobody looks at them. */
static void sweep_interps(struct session *session)
{
	for (int i = 0; i < LANGUAGE_MAX; i++) {
		struct interp *one = &session->interps[i];
		int is_gone = one->state == INTERP_DIES &&
			      (session->box->is_over || cordon_command_result(one->command));

		if (!is_gone || one->call)
			continue;
		interp_free(one, session->box);
		session->server->has_news = 1;
	}
}

void sessions_sweep(struct server *s)
{
	struct session **at = &s->sessions;

	while (*at) {
		struct session *session = *at;

		sweep_interps(session);
		if (!session->is_closed || session->refs) {
			at = &session->next;
			continue;
		}
		*at = session->next;
		free_interps(session);
		if (session->box == &session->own) {
			box_end(&session->own);
			box_free(&session->own);
		}
		s->n_sessions--;
		free(session);
	}
}

void sessions_end(struct server *s)
{
	for (struct session *session = s->sessions; session; session = session->next)
		session->is_closed = 1;
	sessions_sweep(s);
}

int sessions_wait(struct server *s, struct pollfd *fds)
{
	int n = 0;

	for (struct session *session = s->sessions; session; session = session->next) {
		if (session->box == &session->own && !session->own.is_over)
			fds[n++] = (struct pollfd){
				.fd = cordon_session_fd(session->own.session),
				.events = POLLIN,
			};
		for (int i = 0; i < LANGUAGE_MAX; i++)
			n += interp_wait(&session->interps[i], fds + n);
	}
	return n;
}

void sessions_look(struct server *s)
{
	for (struct session *session = s->sessions; session; session = session->next) {
		if (session->box == &session->own)
			box_look(&session->own);
		for (int i = 0; i < LANGUAGE_MAX; i++)
			interp_look(&session->interps[i], session->box);
	}
}

static int make_id(char ret[SESSION_ID_MAX])
{
	unsigned char random[12];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -1;
	memcpy(ret, "s-", 3);
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(ret + 2 + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* Its sandbox: a box of its own, or the server's. 1: that one is ending. */
static int take_box(struct server *s, struct session *session, struct cordon_error *err)
{
	if (!s->workspace[0]) {
		session->box = &session->own;
		return box_start(s, &session->own, 0, err) < 0 ? -1 : 0;
	}
	session->box = &s->box;
	if (s->box.is_over && !s->box.jobs)
		box_free(&s->box);
	if (s->box.is_over || s->box.is_ending || s->is_committing)
		return 1;
	return !s->box.session && box_start(s, &s->box, 1, err) < 0 ? -1 : 0;
}

void tool_create_session(struct call *call)
{
	struct server *s = call->server;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct session *session;
	struct answer a = ANSWER_INIT;
	struct json_writer w;
	char text[80];
	int r;

	if (s->n_sessions >= SESSIONS_MAX) {
		answer_refuse(call, "there are %d sessions already: close one", SESSIONS_MAX);
		return;
	}
	session = calloc(1, sizeof(*session));
	if (!session || make_id(session->id) < 0) {
		free(session);
		answer_refuse(call, "out of memory");
		return;
	}
	session->server = s;
	r = take_box(s, session, &err);
	if (r != 0) {
		free(session);
		if (r < 0)
			answer_error(call, &err);
		else
			call_later(call);
		return;
	}
	session->box_number = session->box->number;
	session->next = s->sessions;
	s->sessions = session;
	s->n_sessions++;
	snprintf(text, sizeof(text), "session %s", session->id);
	answer_text(&a, text, strlen(text));
	json_writer_init(&w, &a.data, 0);
	json_open_object(&w, NULL);
	json_string(&w, "session", session->id);
	json_close_object(&w);
	answer_send(call, &a);
}

void tool_close_session(struct call *call)
{
	struct answer a = ANSWER_INIT;

	if (args_session(call) < 0)
		return;
	if (!call->session) {
		answer_refuse(call, "'session' is missing");
		return;
	}
	call->session->is_closed = 1;
	/* Calls that work in it end as if they were cancelled, but are told so. */
	for (int i = 0; i < LANGUAGE_MAX; i++)
		interp_kill(&call->session->interps[i], "the session was closed");
	for (struct call *other = call->server->calls; other; other = other->next)
		if (other != call && other->session == call->session)
			job_cancel(&other->job);
	answer_text(&a, "closed", 6);
	strbuf_puts(&a.data, "{\"closed\":true}");
	answer_send(call, &a);
}

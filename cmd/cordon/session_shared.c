/* SPDX-License-Identifier: Apache-2.0 */
#include "session_shared.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "session_jobs.h"

#define GRACE_MS 2000	/* for code whose client is gone to end after an interrupt */
#define ANSWER_MS 60000 /* for what is no code */
#define CLOSED_MS 2000	/* to end, for one that has closed its channel */
#define QUIET_MS 50	/* for an interrupt to arrive that nobody counts */

static struct shared interpreters[SHARED_MAX];
static int is_paused, is_unfinished;
/* A signal that comes just before a system call that sleeps is noticed when that is over: so it is
 * sent again (bindings/python/pycordon/_live.py). */
static const int again_ms[SHARED_AGAIN] = { 50, 150, 350 };

struct shared *shared_at(int i)
{
	return &interpreters[i];
}

static struct member *member_at(int i)
{
	struct client *c = client_at(i);

	return c->fd >= 0 ? c->member : NULL;
}

static struct member *member_of(int i, const struct shared *it)
{
	struct member *m = member_at(i);

	return m && m->shared == it ? m : NULL;
}

void member_forget_request(struct member *m)
{
	strbuf_done(&m->in);
	m->in = (struct strbuf)STRBUF_INIT;
	m->request = (struct frame_request){ .head_len = 0 };
	m->number = 0;
	m->is_cancelled = 0;
}

void shared_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void member_free(struct member *m)
{
	strbuf_done(&m->in);
	strbuf_done(&m->out);
	shared_close_fd(&m->fd);
	shared_close_fd(&m->out_fds[0]);
	shared_close_fd(&m->out_fds[1]);
	free(m);
}

int shared_is_used(const struct shared *it)
{
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (member_of(i, it))
			return 1;
	return it->state == SHARED_BUSY;
}

/* Interrupts and ends. */

static void interrupt(struct shared *it)
{
	int64_t now = server_now_ms();

	it->sent_signals++;
	it->is_signalled = 1;
	(void)cordon_command_signal(it->job->command, SIGINT, NULL);
	for (int i = 0; it->counts && i < SHARED_AGAIN; i++)
		it->again_at[i] = now + again_ms[i];
}

static void forget_again(struct shared *it)
{
	memset(it->again_at, 0, sizeof(it->again_at));
}

void shared_end(struct shared *it)
{
	it->state = SHARED_OVER;
	it->kill_at = 0;
	/* The name is free: who joins now gets another one. */
	snprintf(it->name, sizeof(it->name), ".");
	forget_again(it);
	(void)cordon_command_end(it->job->command, SIGKILL, 0, NULL);
}

void shared_closed(struct shared *it)
{
	it->kill_at = server_now_ms() + CLOSED_MS;
	if (it->current)
		(void)shutdown(it->current->fd, SHUT_WR);
}

void shared_leave(struct client *c)
{
	struct member *m = c->member;
	struct shared *it = m->shared;

	c->member = NULL;
	if (it->current == m) {
		it->current = NULL;
		it->kill_at = server_now_ms() + (it->is_code ? GRACE_MS : ANSWER_MS);
		if (it->is_code)
			interrupt(it);
	}
	member_free(m);
}

/* Another one's code is not theirs to stop. */
void shared_signal(struct client *c, int signal, int is_end)
{
	struct member *m = c->member;
	struct shared *it = m->shared;

	(void)relay_read_request(m); /* it was sent before the signal */
	if (is_end && (it->current == m || it->state < SHARED_IDLE))
		shared_end(it);
	else if (is_end)
		clients_drop(c);
	else if (signal == SIGINT && it->current == m && it->is_code && it->state == SHARED_BUSY)
		interrupt(it);
	else if (signal == SIGINT && it->current != m)
		relay_interrupt(m);
}

void shared_ended(struct shared *it, const struct cordon_result *res)
{
	/* Why it did not start is on its standard error. */
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct member *m = member_of(i, it);

		if (!m)
			continue;
		if (it->current == m || (!it->current && it->state <= SHARED_STARTING))
			relay_rest(it, m);
		client_at(i)->member = NULL;
		member_free(m);
		job_tell_ended(client_at(i), res);
	}
	shared_close_fd(&it->fd);
	shared_close_fd(&it->out_fds[0]);
	shared_close_fd(&it->out_fds[1]);
	strbuf_done(&it->to);
	strbuf_done(&it->in);
	strbuf_done(&it->hello);
	*it = (struct shared){ .name = "" };
}

/* Turns. */

static void begin_sync(struct shared *it)
{
	unsigned char bytes[8];
	char expected[24];

	snprintf(expected, sizeof(expected), "%lld", (long long)it->sent_signals);
	(void)!getrandom(bytes, sizeof(bytes), 0);
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(it->token + 2 * i, 3, "%02x", bytes[i]);
	strbuf_printf(&it->to, "sync %s %zu\n%s", it->token, strlen(expected), expected);
	it->state = SHARED_SYNC;
	it->kill_at = server_now_ms() + ANSWER_MS;
}

void shared_answered(struct shared *it)
{
	int is_late = it->is_signalled && it->seen_signals < it->sent_signals;

	/* What its beginning has written is no code's. */
	if (it->state <= SHARED_STARTING)
		relay_discard(it);
	it->current = NULL;
	it->kill_at = 0;
	it->is_signalled = 0;
	forget_again(it);
	if (is_late && it->counts) {
		begin_sync(it);
		return;
	}
	if (is_late)
		it->quiet_at = server_now_ms() + QUIET_MS;
	it->sent_signals = it->seen_signals;
	it->state = SHARED_IDLE;
}

static void greet(struct shared *it)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct member *m = member_of(i, it);

		if (!m || m->is_greeted)
			continue;
		strbuf_add(&m->out, it->hello.data, it->hello.len);
		m->is_greeted = 1;
	}
}

/* Whose request has been whole for the longest time. */
static struct member *next_member(const struct shared *it)
{
	struct member *found = NULL;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct member *m = member_of(i, it);

		if (m && m->number && (!found || m->number < found->number) &&
		    m->request.is_greeting == (it->state == SHARED_NEW))
			found = m;
	}
	return found;
}

/* One greeting is enough: the others that came in time are answered by the same hello. */
static void forget_greetings(const struct shared *it)
{
	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct member *m = member_of(i, it);

		if (m && m->number && m->request.is_greeting)
			member_forget_request(m);
	}
}

/* Gives it the next request. */
static int begin(struct shared *it)
{
	struct member *m;

	if (it->state != SHARED_NEW && it->state != SHARED_IDLE)
		return 0;
	if (it->state == SHARED_IDLE && it->quiet_at > server_now_ms())
		return 0;
	m = next_member(it);
	if (!m)
		return 0;
	it->to = m->in;
	m->in = (struct strbuf)STRBUF_INIT;
	m->in.max = it->to.max;
	if (it->state == SHARED_NEW) {
		it->state = SHARED_STARTING;
		forget_greetings(it);
	} else {
		it->state = SHARED_BUSY;
		it->current = m;
		m->is_full[0] = m->is_full[1] = 0;
		it->is_code = !strcmp(m->request.kind, "exec");
		memcpy(it->token, m->request.token, sizeof(it->token));
	}
	member_forget_request(m);
	return 1;
}

static void look_at_clock(struct shared *it, int64_t now)
{
	if (is_paused && it->kill_at)
		it->kill_at = now + GRACE_MS;
	for (int i = 0; i < SHARED_AGAIN; i++)
		if (it->again_at[i] && now >= it->again_at[i]) {
			it->again_at[i] = 0;
			it->sent_signals++;
			(void)cordon_command_signal(it->job->command, SIGINT, NULL);
		}
	if (it->kill_at && now >= it->kill_at)
		shared_end(it);
}

/* The loop. */

void shared_pause(int is_to_pause)
{
	is_paused = is_to_pause;
}

static int serve_members(void)
{
	int moved = 0;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct member *m = member_at(i);
		int r = m ? relay_read_request(m) : 0;
		int flushed = m && r >= 0 ? relay_flush(m) : 0;

		if (r < 0 || flushed < 0)
			clients_drop(client_at(i));
		else
			moved |= r | flushed;
	}
	return moved;
}

#define ROUNDS_MAX 8 /* then the others are looked at */

void shared_serve(void)
{
	int moved = 1;

	is_unfinished = 0;
	for (int round = 0; moved && round < ROUNDS_MAX; round++) {
		moved = serve_members();
		for (int i = 0; i < SHARED_MAX; i++) {
			struct shared *it = &interpreters[i];

			if (!it->name[0] || it->state == SHARED_OVER)
				continue;
			moved |= begin(it) | relay_serve(it);
			if (it->state >= SHARED_IDLE && it->state != SHARED_OVER)
				greet(it);
			look_at_clock(it, server_now_ms());
		}
	}
	is_unfinished = moved;
}

int64_t shared_next_time(void)
{
	int64_t least = is_unfinished ? 0 : INT64_MAX;

	for (int i = 0; i < SHARED_MAX; i++) {
		const struct shared *it = &interpreters[i];
		int64_t times[SHARED_AGAIN + 2];

		if (!it->name[0] || it->state == SHARED_OVER)
			continue;
		memcpy(times, it->again_at, sizeof(it->again_at));
		times[SHARED_AGAIN] = it->kill_at;
		times[SHARED_AGAIN + 1] = it->state == SHARED_IDLE && it->quiet_at > server_now_ms()
						  ? it->quiet_at
						  : 0;
		for (int k = 0; k < SHARED_AGAIN + 2; k++)
			if (times[k] && times[k] < least)
				least = times[k];
	}
	return least;
}

static size_t poll_one(const struct shared *it, struct pollfd *fds)
{
	const struct member *m = it->current;
	int has_turn = it->state == SHARED_BUSY || it->state == SHARED_SYNC;
	size_t n = 0;

	if (relay_reads(it) || it->to.len)
		fds[n++] = (struct pollfd){ .fd = it->fd,
					    .events = (short)((relay_reads(it) ? POLLIN : 0) |
							      (it->to.len ? POLLOUT : 0)) };
	for (int i = 0; has_turn && i < 2; i++)
		if (it->out_fds[i] >= 0 && m && m->is_full[i] && m->out_fds[i] >= 0)
			fds[n++] = (struct pollfd){ .fd = m->out_fds[i], .events = POLLOUT };
		else if (it->out_fds[i] >= 0 && (!it->is_draining || it->due[i]))
			fds[n++] = (struct pollfd){ .fd = it->out_fds[i], .events = POLLIN };
	return n;
}

size_t shared_fill_polled(struct pollfd *fds)
{
	size_t n = 0;

	for (int i = 0; i < SHARED_MAX; i++)
		if (interpreters[i].name[0] && interpreters[i].state != SHARED_OVER)
			n += poll_one(&interpreters[i], fds + n);
	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct member *m = member_at(i);
		short events = 0;

		if (m)
			events = (short)((m->number ? 0 : POLLIN) | (m->out.len ? POLLOUT : 0));
		if (events)
			fds[n++] = (struct pollfd){ .fd = m->fd, .events = events };
	}
	return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves between one interpreter of a session and its clients. Nothing waits, nothing is kept
 * but a piece: who does not read is not read from. Output goes from pipe to pipe in the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "session_shared.h"

#define PIECE ((size_t)256 << 10)
#define OUT_MAX ((size_t)1 << 20)   /* for a client that does not read its channel */
#define IN_PIPES ((size_t)2 << 20)  /* taken at an end, if something writes on and on */
#define HELLO_MAX ((uint64_t)65536) /* of its parts */

/* What was taken is not kept: what always has a rest would grow for ever. A rest is moved only when
 * it is the smaller part, so that each byte is moved once. */
static void consume(struct strbuf *sb, size_t *at)
{
	size_t left = sb->len - *at;

	if (left && (*at < PIECE || *at < left))
		return;
	if (left) {
		memmove(sb->data, sb->data + *at, left);
		sb->len = left;
	} else {
		strbuf_done(sb);
		*sb = (struct strbuf)STRBUF_INIT;
	}
	*at = 0;
}

/* Sends what @fd takes. */
static int send_some(int fd, struct strbuf *sb, size_t *at)
{
	int moved = 0;

	while (*at < sb->len) {
		size_t left = sb->len - *at;
		ssize_t n = send(fd, sb->data + *at, left < PIECE ? left : PIECE,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		/* Nobody reads it any more: that is noticed elsewhere. */
		*at = n <= 0 ? sb->len : *at + (size_t)n;
		moved = 1;
	}
	consume(sb, at);
	return moved;
}

/* Requests. */

/* Whole, but not in time: the same answer as that of code that was interrupted. */
static void answer_interrupted(struct member *m)
{
	static const char name[] = "KeyboardInterrupt";

	strbuf_printf(&m->out,
		      "%s {\"type\":\"end\",\"error\":\"interrupt\",\"parts\":[%zu,0,0]}\n%s",
		      m->request.token, sizeof(name) - 1, name);
	member_forget_request(m);
}

/* How much of the request is still to come: of its first line, byte by byte. */
static size_t wanted(const struct member *m)
{
	size_t whole = m->request.head_len + m->request.data_len;

	return m->request.head_len ? whole - m->in.len : 1;
}

static void request_is_whole(struct member *m)
{
	static uint64_t last_number;

	m->number = ++last_number;
	/* Who joins cannot know that it has its greeting already. */
	if (m->request.is_greeting && m->shared->state != SHARED_NEW)
		member_forget_request(m);
	else if (m->is_cancelled && !strcmp(m->request.kind, "exec"))
		answer_interrupted(m);
}

int relay_read_request(struct member *m)
{
	static char piece[PIECE];
	int moved = 0;

	while (!m->number) {
		size_t want = wanted(m);
		ssize_t n = want ? recv(m->fd, piece, want < PIECE ? want : PIECE, MSG_DONTWAIT)
				 : 0;

		if (want && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)))
			return -1;
		if (want && n < 0)
			return moved;
		strbuf_add(&m->in, piece, (size_t)n);
		moved = 1;
		if (m->in.failed || (!m->request.head_len &&
				     frame_read_request(m->in.data, m->in.len, &m->request) < 0))
			return -1;
		if (m->request.head_len && wanted(m) == 0)
			request_is_whole(m);
	}
	return moved;
}

void relay_interrupt(struct member *m)
{
	if (!m->number)
		m->is_cancelled = m->in.len > 0;
	else if (!strcmp(m->request.kind, "exec"))
		answer_interrupted(m);
}

/* Output. */

static size_t in_pipe(int fd)
{
	int n = 0;

	return fd < 0 || ioctl(fd, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t)n;
}

/* What is to go to the current client now, at most a piece. */
static size_t in_output(const struct shared *it, int i)
{
	size_t n = in_pipe(it->out_fds[i]);

	if (it->is_draining && n > it->due[i])
		n = it->due[i];
	return n < PIECE ? n : PIECE;
}

static void output_is_over(struct shared *it, int i)
{
	close(it->out_fds[i]);
	it->out_fds[i] = -1;
}

/* Into the client's pipe; if it is gone or there is none, nowhere. How many bytes. */
static size_t move_output(struct shared *it, int i, struct member *m)
{
	static char piece[PIECE];
	size_t most = in_output(it, i);
	ssize_t n;

	/* Nothing for it: then there is no need to wait for room, either. */
	if (m)
		m->is_full[i] = 0;
	if (most == 0)
		return 0;
	if (m && m->out_fds[i] >= 0) {
		n = splice(it->out_fds[i], NULL, m->out_fds[i], NULL, most, SPLICE_F_NONBLOCK);
		m->is_full[i] = n < 0 && errno == EAGAIN;
		if (n < 0 && errno != EAGAIN) {
			close(m->out_fds[i]);
			m->out_fds[i] = -1;
		}
	} else {
		n = read(it->out_fds[i], piece, most);
	}
	if (n <= 0)
		return 0;
	if (it->is_draining)
		it->due[i] -= (size_t)n;
	return (size_t)n;
}

/* An end of file is seen only where nothing is left to be read. */
static void look_for_ends(struct shared *it)
{
	for (int i = 0; i < 2; i++) {
		struct pollfd p = { .fd = it->out_fds[i], .events = POLLIN };

		if (it->out_fds[i] >= 0 && poll(&p, 1, 0) == 1 && !(p.revents & POLLIN))
			output_is_over(it, i);
	}
}

static size_t move_all_output(struct shared *it, struct member *m)
{
	return move_output(it, 0, m) + move_output(it, 1, m);
}

void relay_discard(struct shared *it)
{
	for (size_t total = 0, n = 1; n && total < IN_PIPES; total += n)
		n = move_all_output(it, NULL);
}

void relay_rest(struct shared *it, struct member *m)
{
	size_t total = 0, n;

	it->is_draining = 0;
	do
		total += n = move_all_output(it, m);
	while (n && total < IN_PIPES);
	(void)send_some(m->fd, &m->out, &m->sent);
}

/* What it says. */

static void pass_on(struct shared *it, const char *data, size_t len)
{
	if (it->state <= SHARED_STARTING)
		strbuf_add(&it->hello, data, len);
	else if (it->state == SHARED_BUSY && it->current)
		strbuf_add(&it->current->out, data, len);
}

static void broken(struct shared *it)
{
	/* The client judges it by itself, and says what was wrong. */
	pass_on(it, it->in.data + it->in_at, it->in.len - it->in_at);
	if (it->current)
		(void)send_some(it->current->fd, &it->current->out, &it->current->sent);
	it->in_at = it->in.len;
	shared_end(it);
}

static int is_expected(const struct shared *it, const struct frame_message *m)
{
	int is_start = it->state <= SHARED_STARTING;

	if (strcmp(m->token, it->token) != 0 || m->is_hello != is_start)
		return 0;
	/* It cannot know what it answers before it has read that. */
	if (m->is_last && it->to.len)
		return 0;
	if (it->state == SHARED_BUSY)
		return 1;
	return (is_start || it->state == SHARED_SYNC) && m->is_last && m->data_len <= HELLO_MAX;
}

/* The first line of a message. 1 = it was taken. */
static int take_head(struct shared *it)
{
	struct frame_message m;
	int r = frame_read_message(it->in.data + it->in_at, it->in.len - it->in_at, &m);

	if (r == 0)
		return 0;
	if (r < 0 || !is_expected(it, &m)) {
		broken(it);
		return 0;
	}
	if (m.is_last && it->state == SHARED_BUSY && !it->is_last) {
		it->is_last = it->is_draining = 1;
		it->due[0] = in_pipe(it->out_fds[0]);
		it->due[1] = in_pipe(it->out_fds[1]);
		return 0; /* what it has written goes first */
	}
	it->is_last = m.is_last;
	if (m.signals >= 0) {
		it->counts = 1;
		it->seen_signals = m.signals < it->sent_signals ? m.signals : it->sent_signals;
	}
	pass_on(it, it->in.data + it->in_at, m.head_len);
	it->in_at += m.head_len;
	it->data_left = m.data_len;
	return 1;
}

static int take_data(struct shared *it)
{
	size_t have = it->in.len - it->in_at;
	size_t n = have < it->data_left ? have : (size_t)it->data_left;

	pass_on(it, it->in.data + it->in_at, n);
	it->in_at += n;
	it->data_left -= n;
	return n > 0;
}

static int take_messages(struct shared *it)
{
	int moved = 0, more = 1;

	while (more && it->state != SHARED_OVER && !it->is_draining) {
		if (it->data_left)
			more = take_data(it);
		else if (it->in_at < it->in.len)
			more = take_head(it);
		else
			more = 0;
		moved |= more;
		if (more && !it->data_left && it->is_last) {
			it->is_last = 0;
			shared_answered(it);
		}
	}
	consume(&it->in, &it->in_at);
	return moved;
}

/* All that is due has gone, or was taken by the code itself. What is written meanwhile is not. */
static int is_drained(const struct shared *it)
{
	return in_output(it, 0) == 0 && in_output(it, 1) == 0;
}

int relay_reads(const struct shared *it)
{
	const struct member *m = it->current;

	return !it->is_closed && !it->is_draining && it->state != SHARED_OVER &&
	       it->in.len - it->in_at < FRAME_HEAD_MAX && (!m || m->out.len - m->sent < OUT_MAX);
}

static int read_channel(struct shared *it)
{
	static char piece[PIECE];
	ssize_t n;

	if (!relay_reads(it))
		return 0;
	n = recv(it->fd, piece, PIECE, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		it->is_closed = 1;
		shared_closed(it);
		return 1;
	}
	strbuf_add(&it->in, piece, (size_t)n);
	if (it->in.failed)
		broken(it);
	return 1;
}

int relay_serve(struct shared *it)
{
	struct member *m = it->current;
	int moved = send_some(it->fd, &it->to, &it->to_sent);
	size_t n = 0;

	if (it->state == SHARED_BUSY || it->state == SHARED_SYNC)
		n = move_all_output(it, m);
	look_for_ends(it);
	if (it->is_draining && is_drained(it))
		it->is_draining = 0;
	moved |= read_channel(it) | take_messages(it);
	return moved | (n > 0);
}

int relay_flush(struct member *m)
{
	/* Something is missing: what comes after it would not be understood. */
	if (m->out.failed)
		return -1;
	return send_some(m->fd, &m->out, &m->sent);
}

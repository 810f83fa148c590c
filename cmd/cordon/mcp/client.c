/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's end: lines from standard input, lines to standard output.
 *
 * Writing never blocks, since calls have to be ended in time whether the client reads or not. What
 * it does not read waits in a queue; when that is long its requests wait, too, and progress is left
 * out. A client that sends a line without an end is told so once, and the line is thrown away.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "server.h"

#define CHUNK 65536
#define KEPT ((size_t)256 << 10) /* memory that a buffer may keep when it is empty */

void client_init(struct server *s)
{
	struct stat st;

	s->out_fd = STDOUT_FILENO;
	if (fstat(STDOUT_FILENO, &st) < 0)
		return;
	s->out_is_socket = S_ISSOCK(st.st_mode);
	/* An open file of our own, since the flag belongs to that, and others may have this one. */
	if (S_ISFIFO(st.st_mode)) {
		int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0)
			s->out_fd = fd;
	}
}

void client_done(struct server *s)
{
	if (s->out_fd > STDOUT_FILENO)
		close(s->out_fd);
	strbuf_done(&s->in);
	strbuf_done(&s->out);
}

size_t client_queued(const struct server *s)
{
	return s->out.len - s->sent;
}

/* Takes the first @n bytes off. */
static void shift(struct strbuf *sb, size_t n)
{
	if (n == sb->len && sb->cap > KEPT) {
		strbuf_done(sb);
		*sb = (struct strbuf)STRBUF_INIT;
		return;
	}
	if (n && sb->data) {
		memmove(sb->data, sb->data + n, sb->len - n + 1);
		sb->len -= n;
	}
}

static ssize_t write_some(const struct server *s, const char *data, size_t len)
{
	struct pollfd p = { .fd = s->out_fd, .events = POLLOUT };

	if (s->out_is_socket)
		return send(s->out_fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (s->out_fd != STDOUT_FILENO)
		return write(s->out_fd, data, len);
	/* A pipe that polls as ready takes this much without blocking; files always do. */
	if (poll(&p, 1, 0) <= 0) {
		errno = EAGAIN;
		return -1;
	}
	return write(s->out_fd, data, len < PIPE_BUF ? len : PIPE_BUF);
}

void client_flush(struct server *s)
{
	while (!s->out_failed && s->sent < s->out.len) {
		ssize_t n = write_some(s, s->out.data + s->sent, s->out.len - s->sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			s->out_failed = 1;
			return;
		}
		s->sent += (size_t)n;
	}
	if (s->sent == s->out.len || s->sent > KEPT) {
		shift(&s->out, s->sent);
		s->sent = 0;
	}
}

void client_send(struct server *s, const struct strbuf *message)
{
	strbuf_add(&s->out, message->data, message->len);
	strbuf_putc(&s->out, '\n');
	if (s->out.failed || message->failed)
		s->out_failed = 1;
	else
		client_flush(s);
}

static void say_too_long(struct server *s)
{
	struct strbuf sb = STRBUF_INIT;
	char text[80];

	snprintf(text, sizeof(text), "a message has more than %zu bytes", RPC_LINE_MAX);
	rpc_error(&sb, "null", RPC_INVALID_REQUEST, text, NULL);
	client_send(s, &sb);
	strbuf_done(&sb);
}

static int is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return 0;
	return 1;
}

/* Lines that are whole. */
static void take_lines(struct server *s)
{
	size_t begin = 0;
	const char *end;

	while (s->looked < s->in.len &&
	       (end = memchr(s->in.data + s->looked, '\n', s->in.len - s->looked))) {
		const char *line = s->in.data + begin;
		size_t len = (size_t)(end - line);

		begin += len + 1;
		s->looked = begin;
		if (s->is_skipping)
			s->is_skipping = 0;
		else if (!is_blank(line, len))
			methods_line(s, line, len);
	}
	s->looked = s->in.len - begin;
	shift(&s->in, begin);
	if (s->is_skipping || s->in.len > RPC_LINE_MAX) {
		if (!s->is_skipping)
			say_too_long(s);
		s->is_skipping = 1;
		shift(&s->in, s->in.len);
		s->looked = 0;
	}
}

void client_read(struct server *s)
{
	char buffer[CHUNK];
	ssize_t n = read(STDIN_FILENO, buffer, sizeof(buffer));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		s->in_ended = 1;
		return;
	}
	strbuf_add(&s->in, buffer, (size_t)n);
	if (s->in.failed)
		s->in_ended = 1;
	else
		take_lines(s);
}

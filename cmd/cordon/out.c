/* SPDX-License-Identifier: Apache-2.0 */
#include "out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "verbs.h"

#define COLOR_ERROR "\033[1;31m"
#define COLOR_OFF "\033[0m"
#define LINE_MAX_BYTES 1024

static struct {
	int64_t until_ms; /* 0 = there is no hurry */
	int signal_fd;
} hurry;

static struct strbuf *collected; /* NULL = what is said goes to standard error */

void out_collect(struct strbuf *sb)
{
	collected = sb;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void out_hurry(int64_t until_ms, int signal_fd)
{
	hurry.until_ms = until_ms;
	hurry.signal_fd = signal_fd;
}

/* Waits until @fd takes something: 0 or -ETIMEDOUT. */
static int wait_for_reader(int fd)
{
	struct pollfd fds[] = { { .fd = fd, .events = POLLOUT },
				{ .fd = hurry.signal_fd, .events = POLLIN } };

	for (;;) {
		int64_t left = hurry.until_ms - now_ms();
		int n = poll(fds, 2, left > 0 ? (int)left : 0);

		if (n > 0 && fds[0].revents)
			return 0;
		if (n >= 0) {
			hurry.until_ms = 1; /* the rest need not wait, either */
			return -ETIMEDOUT;
		}
		if (errno != EINTR)
			return -errno;
	}
}

/* A terminal that polls as ready may block all the same: a second open file has flags of its own.
 */
static int open_again(int fd)
{
	char path[32];

	if (!isatty(fd))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static int is_silent;

void out_silence(void)
{
	is_silent = 1;
}

int out_write(int fd, const void *data, size_t len)
{
	const char *p = data;
	int own_fd, r = 0;

	if (is_silent && fd == STDERR_FILENO)
		return 0;
	if (collected && fd == STDERR_FILENO) {
		strbuf_add(collected, data, len);
		return 0;
	}
	if (!hurry.until_ms)
		return write_full(fd, data, len);
	own_fd = open_again(fd);
	while (len && r == 0) {
		/* A pipe that is ready takes this much without blocking. */
		size_t most = len < PIPE_BUF ? len : PIPE_BUF;
		ssize_t n = 0;

		r = wait_for_reader(fd);
		if (r == 0)
			n = write(own_fd >= 0 ? own_fd : fd, p, most);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			r = -errno;
		p += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	if (own_fd >= 0)
		close(own_fd);
	return r;
}

int out_finish(struct strbuf *sb, int status)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r;

	if (sb->failed) {
		cordon_err(&err, CORDON_E_NOMEM, 0, "out of memory");
		r = -ENOMEM;
	} else {
		r = out_write(STDOUT_FILENO, sb->data, sb->len);
		if (r < 0)
			cordon_err(&err, CORDON_E_SYSTEM, -r, "cannot write standard output");
	}
	strbuf_done(sb);
	if (r == 0)
		return status;
	/* The reader closed the pipe and needs no message. */
	if (r != -EPIPE)
		say_error(&err);
	return STATUS_FAILED;
}

int out_has_color(int fd)
{
	const char *term = getenv("TERM");
	const char *no_color = getenv("NO_COLOR");

	return !(no_color && *no_color) && term && strcmp(term, "dumb") != 0 && isatty(fd);
}

void say_error(const struct cordon_error *err)
{
	char line[sizeof(err->msg) + sizeof(err->hint) + 64];
	int color = !collected && out_has_color(STDERR_FILENO);
	int n;

	n = snprintf(line, sizeof(line), "%scordon:%s %s%s%s%s\n", color ? COLOR_ERROR : "",
		     color ? COLOR_OFF : "", err->msg, err->hint[0] ? " (" : "", err->hint,
		     err->hint[0] ? ")" : "");
	if (n > 0)
		(void)out_write(STDERR_FILENO, line, (size_t)n);
}

void say_note(const char *text)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, "cordon: note: ");
	strbuf_add_escaped(&sb, text, strlen(text));
	strbuf_putc(&sb, '\n');
	if (!sb.failed)
		(void)out_write(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

void say_line(const char *fmt, ...)
{
	static const char prefix[] = "cordon: ";
	char line[LINE_MAX_BYTES];
	size_t used = sizeof(prefix) - 1;
	va_list ap;
	int n;

	memcpy(line, prefix, used);
	va_start(ap, fmt);
	n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n : sizeof(line) - used - 2;
	line[used++] = '\n';
	(void)out_write(STDERR_FILENO, line, used);
}

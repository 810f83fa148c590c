/* SPDX-License-Identifier: Apache-2.0 */
#include "out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "verbs.h"

#define COLOR_ERROR "\033[1;31m"
#define COLOR_OFF "\033[0m"
#define LINE_MAX_BYTES 1024

int out_finish(struct strbuf *sb, int status)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r;

	if (sb->failed) {
		cordon_err(&err, CORDON_E_NOMEM, 0, "out of memory");
		r = -ENOMEM;
	} else {
		r = write_full(STDOUT_FILENO, sb->data, sb->len);
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
	int color = out_has_color(STDERR_FILENO);
	int n;

	n = snprintf(line, sizeof(line), "%scordon:%s %s%s%s%s\n", color ? COLOR_ERROR : "",
		     color ? COLOR_OFF : "", err->msg, err->hint[0] ? " (" : "", err->hint,
		     err->hint[0] ? ")" : "");
	if (n > 0)
		(void)write_full(STDERR_FILENO, line, (size_t)n);
}

void say_note(const char *text)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, "cordon: note: ");
	strbuf_add_escaped(&sb, text, strlen(text));
	strbuf_putc(&sb, '\n');
	if (!sb.failed)
		(void)write_full(STDERR_FILENO, sb.data, sb.len);
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
	(void)write_full(STDERR_FILENO, line, used);
}

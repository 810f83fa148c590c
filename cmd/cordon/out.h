/* SPDX-License-Identifier: Apache-2.0 */
/* Writing lines without stdio: one write(2) per line, so that lines of parallel runs stay whole. */
#ifndef CMD_CORDON_OUT_H
#define CMD_CORDON_OUT_H

#include <stddef.h>

#include <cordon/error.h>

#include "base/io.h"
#include "base/macros.h"
#include "base/strbuf.h"

/*
 * From now on a reader that does not read is waited for until @until_ms (CLOCK_MONOTONIC), or until
 * @signal_fd becomes readable; then nothing more is written. Before, as long as it takes.
 */
void out_hurry(int64_t until_ms, int signal_fd);
/* As write_full(), which it is until out_hurry(). -ETIMEDOUT: the reader did not read. */
int out_write(int fd, const void *data, size_t len);
/* From now on nothing is said on standard error: it is the command's alone. */
void out_silence(void);

/* From now on what goes to standard error by these functions is added to @sb; NULL: no longer. */
void out_collect(struct strbuf *sb);

/* Writes @sb to standard output and frees it. Returns @status, or says why it failed and returns
 * STATUS_FAILED. */
int out_finish(struct strbuf *sb, int status);

/* Colour on @fd: it is a terminal, not a dumb one, and NO_COLOR is not set. */
int out_has_color(int fd);

/* "cordon: message (hint)" on standard error. */
void say_error(const struct cordon_error *err);

/* "cordon: note: text" on standard error; control bytes in @text are escaped. */
void say_note(const char *text);

/* "cordon: text" on standard error. Strings from outside must be escaped by the caller. */
void say_line(const char *fmt, ...) PRINTF_LIKE(1, 2);

#endif

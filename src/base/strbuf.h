/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text buffer with a hard cap. Errors stick: check strbuf_failed() once at the end. */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct strbuf {
	char *data; /* always NUL-terminated once something was added */
	size_t len, cap, max;
	int failed; /* out of memory or over max */
};

#define STRBUF_DEFAULT_MAX ((size_t)256 << 20)
#define STRBUF_INIT { NULL, 0, 0, STRBUF_DEFAULT_MAX, 0 }

void strbuf_done(struct strbuf *sb);
void strbuf_add(struct strbuf *sb, const void *data, size_t len);
void strbuf_puts(struct strbuf *sb, const char *s);
void strbuf_putc(struct strbuf *sb, char c);
void strbuf_printf(struct strbuf *sb, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Gives the text away (caller frees with free()); NULL if the buffer failed. */
char *strbuf_take(struct strbuf *sb) CHECK_RESULT;

/* Appends @s, safe to print on a terminal: control characters and broken UTF-8 become \xNN or
 * \uNNNN. */
void strbuf_add_escaped(struct strbuf *sb, const char *s, size_t len);

#endif

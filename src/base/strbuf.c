/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define STRBUF_MIN 256

void strbuf_done(struct strbuf *sb)
{
	free(sb->data);
	sb->data = NULL;
	sb->len = sb->cap = 0;
	sb->failed = 0;
}

/* Room for @len more bytes and the NUL. */
static int reserve(struct strbuf *sb, size_t len)
{
	size_t need, cap;
	char *data;

	if (sb->failed)
		return -1;
	if (len > sb->max || sb->len > sb->max - len) {
		sb->failed = 1;
		return -1;
	}
	need = sb->len + len + 1;
	if (need <= sb->cap)
		return 0;
	cap = sb->cap ? sb->cap : STRBUF_MIN;
	while (cap < need)
		cap *= 2;
	data = realloc(sb->data, cap);
	if (!data) {
		sb->failed = 1;
		return -1;
	}
	sb->data = data;
	sb->cap = cap;
	return 0;
}

void strbuf_add(struct strbuf *sb, const void *data, size_t len)
{
	if (reserve(sb, len) < 0)
		return;
	if (len > 0)
		memcpy(sb->data + sb->len, data, len);
	sb->len += len;
	sb->data[sb->len] = '\0';
}

void strbuf_puts(struct strbuf *sb, const char *s)
{
	strbuf_add(sb, s, strlen(s));
}

void strbuf_putc(struct strbuf *sb, char c)
{
	strbuf_add(sb, &c, 1);
}

void strbuf_printf(struct strbuf *sb, const char *fmt, ...)
{
	va_list ap, again;
	int len;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	if (len < 0) {
		sb->failed = 1;
	} else if (reserve(sb, (size_t)len) == 0) {
		vsnprintf(sb->data + sb->len, (size_t)len + 1, fmt, again);
		sb->len += (size_t)len;
	}
	va_end(again);
	va_end(ap);
}

char *strbuf_take(struct strbuf *sb)
{
	char *data;

	if (!sb->failed && !sb->data)
		strbuf_add(sb, "", 0);
	if (sb->failed) {
		strbuf_done(sb);
		return NULL;
	}
	data = TAKE_PTR(sb->data);
	sb->len = sb->cap = 0;
	return data;
}

void strbuf_add_escaped(struct strbuf *sb, const char *s, size_t len)
{
	char one[UTF8_ESCAPED_MAX];
	size_t taken, n;

	while (len > 0 && !sb->failed) {
		taken = utf8_escape(s, len, one, &n);
		strbuf_add(sb, one, n);
		s += taken;
		len -= taken;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers are written by hand: printf's decimal point is the locale's, and the library is loaded
 * into programs that set one. More control characters are escaped than JSON requires, so that a
 * document can be shown on a terminal.
 */
#include "base/json_write.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_read.h"
#include "base/utf8.h"

void json_writer_init(struct json_writer *w, struct strbuf *out, int pretty)
{
	memset(w, 0, sizeof(*w));
	w->out = out;
	w->pretty = pretty;
}

static void new_line(struct json_writer *w)
{
	int i;

	if (!w->pretty)
		return;
	strbuf_putc(w->out, '\n');
	for (i = 0; i < w->depth; i++)
		strbuf_add(w->out, "  ", 2);
}

static void write_special(struct strbuf *out, uint32_t cp)
{
	switch (cp) {
	case '"':
		strbuf_puts(out, "\\\"");
		break;
	case '\\':
		strbuf_puts(out, "\\\\");
		break;
	case '\n':
		strbuf_puts(out, "\\n");
		break;
	case '\r':
		strbuf_puts(out, "\\r");
		break;
	case '\t':
		strbuf_puts(out, "\\t");
		break;
	default:
		strbuf_printf(out, "\\u%04" PRIx32, cp);
		break;
	}
}

static void write_text(struct strbuf *out, const char *s, size_t len)
{
	size_t run = 0, i = 0;

	strbuf_putc(out, '"');
	while (i < len && !out->failed) {
		unsigned char c = (unsigned char)s[i];
		uint32_t cp = 0;
		size_t n;

		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
			i++;
			continue;
		}
		n = utf8_decode(s + i, len - i, &cp);
		if (n > 1 && !utf8_is_control(cp)) {
			i += n;
			continue;
		}
		strbuf_add(out, s + run, i - run);
		if (n == 0) {
			cp = 0xdc00u + c;
			n = 1;
		}
		write_special(out, cp);
		i += n;
		run = i;
	}
	if (!out->failed)
		strbuf_add(out, s + run, i - run);
	strbuf_putc(out, '"');
}

/* Comma, line and key before a value. */
static void begin(struct json_writer *w, const char *key)
{
	if (w->has_items[w->depth])
		strbuf_putc(w->out, ',');
	if (w->depth > 0)
		new_line(w);
	w->has_items[w->depth] = 1;
	if (!key)
		return;
	write_text(w->out, key, strlen(key));
	strbuf_puts(w->out, w->pretty ? ": " : ":");
}

static void open_level(struct json_writer *w, const char *key, char bracket)
{
	begin(w, key);
	strbuf_putc(w->out, bracket);
	if (w->depth == JSON_DEPTH_MAX) {
		w->out->failed = 1;
		return;
	}
	w->has_items[++w->depth] = 0;
}

static void close_level(struct json_writer *w, char bracket)
{
	int had_items;

	if (w->depth == 0) {
		w->out->failed = 1;
		return;
	}
	had_items = w->has_items[w->depth--];
	if (had_items)
		new_line(w);
	strbuf_putc(w->out, bracket);
}

void json_open_object(struct json_writer *w, const char *key)
{
	open_level(w, key, '{');
}

void json_close_object(struct json_writer *w)
{
	close_level(w, '}');
}

void json_open_array(struct json_writer *w, const char *key)
{
	open_level(w, key, '[');
}

void json_close_array(struct json_writer *w)
{
	close_level(w, ']');
}

void json_bytes(struct json_writer *w, const char *key, const void *data, size_t len)
{
	begin(w, key);
	write_text(w->out, data, len);
}

void json_string(struct json_writer *w, const char *key, const char *value)
{
	if (value)
		json_bytes(w, key, value, strlen(value));
	else
		json_null(w, key);
}

void json_int(struct json_writer *w, const char *key, int64_t value)
{
	begin(w, key);
	strbuf_printf(w->out, "%" PRId64, value);
}

void json_uint(struct json_writer *w, const char *key, uint64_t value)
{
	begin(w, key);
	strbuf_printf(w->out, "%" PRIu64, value);
}

void json_raw(struct json_writer *w, const char *key, const char *number)
{
	begin(w, key);
	strbuf_puts(w->out, number);
}

void json_ms(struct json_writer *w, const char *key, double value)
{
	uint64_t thousandths;

	/* Also catches NaN, which compares false with everything. */
	if (!(value > -1e15 && value < 1e15)) {
		json_null(w, key);
		return;
	}
	begin(w, key);
	thousandths = (uint64_t)((value < 0 ? -value : value) * 1000 + 0.5);
	strbuf_printf(w->out, "%s%" PRIu64 ".%03u", value < 0 && thousandths > 0 ? "-" : "",
		      thousandths / 1000, (unsigned)(thousandths % 1000));
}

void json_bool(struct json_writer *w, const char *key, int value)
{
	begin(w, key);
	strbuf_puts(w->out, value ? "true" : "false");
}

void json_null(struct json_writer *w, const char *key)
{
	begin(w, key);
	strbuf_puts(w->out, "null");
}

void json_copy(struct json_writer *w, const char *key, const struct json_value *v)
{
	const struct json_value *child;

	if (v->type == JSON_OBJECT) {
		json_open_object(w, key);
		for (child = v->first; child; child = child->next)
			json_copy(w, child->key, child);
		json_close_object(w);
	} else if (v->type == JSON_ARRAY) {
		json_open_array(w, key);
		for (child = v->first; child; child = child->next)
			json_copy(w, NULL, child);
		json_close_array(w);
	} else if (v->type == JSON_STRING) {
		json_string(w, key, v->text);
	} else if (v->type == JSON_INTEGER || v->type == JSON_NUMBER) {
		json_raw(w, key, v->text);
	} else if (v->type == JSON_NULL) {
		json_null(w, key);
	} else {
		json_bool(w, key, v->type == JSON_TRUE);
	}
}

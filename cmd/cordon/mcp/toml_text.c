/* SPDX-License-Identifier: Apache-2.0 */
#include "toml_text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/utf8.h"

int toml_fail(struct toml_reader *rd, const char *fmt, ...)
{
	unsigned line = 1;
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	for (const char *p = rd->text; p < rd->pos; p++)
		line += *p == '\n';
	(void)cordon_err(rd->err, CORDON_E_POLICY, 0, "%.100s:%u: %s", rd->name, line, what);
	return -1;
}

/* A carriage return alone ends a line for some readers and not for others. */
int toml_check(struct toml_reader *rd)
{
	size_t n;

	for (const char *begin = rd->text; rd->pos < rd->end; rd->pos += n) {
		unsigned char c = (unsigned char)*rd->pos;
		uint32_t cp;

		n = utf8_decode(rd->pos, (size_t)(rd->end - rd->pos), &cp);
		if (n == 0)
			return toml_fail(rd, "byte 0x%02x is not valid UTF-8 here", c);
		if (c == '\r' && (rd->end - rd->pos < 2 || rd->pos[1] != '\n'))
			return toml_fail(rd, "a carriage return that ends no line");
		if (c != '\t' && c != '\n' && c != '\r' && (c < ' ' || c == 0x7f))
			return toml_fail(rd, "a control character (0x%02x)", c);
		if (cp == 0xfeff && rd->pos > begin)
			return toml_fail(rd, "a byte order mark within the text");
	}
	rd->pos = rd->text;
	(void)toml_take(rd, "\xef\xbb\xbf");
	return 0;
}

int toml_at(const struct toml_reader *rd, const char *what)
{
	size_t len = strlen(what);

	return (size_t)(rd->end - rd->pos) >= len && !memcmp(rd->pos, what, len);
}

int toml_take(struct toml_reader *rd, const char *what)
{
	if (!toml_at(rd, what))
		return 0;
	rd->pos += strlen(what);
	return 1;
}

void toml_skip_blanks(struct toml_reader *rd)
{
	while (rd->pos < rd->end && (*rd->pos == ' ' || *rd->pos == '\t'))
		rd->pos++;
}

static void skip_comment(struct toml_reader *rd)
{
	if (!toml_at(rd, "#"))
		return;
	while (rd->pos < rd->end && *rd->pos != '\n')
		rd->pos++;
}

void toml_skip_lines(struct toml_reader *rd)
{
	const char *before;

	do {
		before = rd->pos;
		toml_skip_blanks(rd);
		skip_comment(rd);
		while (toml_take(rd, "\n") || toml_take(rd, "\r\n"))
			;
	} while (rd->pos > before);
}

int toml_end_line(struct toml_reader *rd)
{
	toml_skip_blanks(rd);
	skip_comment(rd);
	if (rd->pos == rd->end || toml_take(rd, "\n") || toml_take(rd, "\r\n"))
		return 0;
	return toml_fail(rd, "something follows the end of a value");
}

static int read_hex(struct toml_reader *rd, int n, uint32_t *ret)
{
	*ret = 0;
	for (int i = 0; i < n; i++, rd->pos++) {
		char c = rd->pos < rd->end ? *rd->pos : '\0';
		unsigned digit = c >= '0' && c <= '9'	? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
				 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
							: 16;

		if (digit == 16)
			return toml_fail(rd, "a number of %d digits is missing after '\\'", n);
		*ret = *ret << 4 | digit;
	}
	return 0;
}

/* At the backslash. */
static int read_escape(struct toml_reader *rd, struct strbuf *sb)
{
	static const char letters[] = "btnfre\"\\", meant[] = "\b\t\n\f\r\x1b\"\\";
	char c = rd->end - rd->pos > 1 ? rd->pos[1] : '\0', bytes[UTF8_MAX];
	const char *letter = c ? strchr(letters, c) : NULL;
	int n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	uint32_t cp;

	rd->pos += 2;
	if (letter) {
		strbuf_putc(sb, meant[letter - letters]);
		return 0;
	}
	if (!n) {
		rd->pos -= 2;
		return toml_fail(rd, "an unknown character after '\\'");
	}
	if (read_hex(rd, n, &cp) < 0)
		return -1;
	if (cp == 0 || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
		return toml_fail(rd, "a character that cannot be in a command");
	strbuf_add(sb, bytes, utf8_encode(cp, bytes));
	return 0;
}

/* A backslash at the end of a line takes all blanks and lines behind it away. */
static int skip_continued(struct toml_reader *rd)
{
	const char *p = rd->pos + 1;

	while (p < rd->end && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++;
	if (p == rd->end || *p != '\n')
		return 0;
	while (p < rd->end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n'))
		p++;
	rd->pos = p;
	return 1;
}

/* Two more quotes than it takes to end it may belong to the string. */
static int take_end(struct toml_reader *rd, struct strbuf *sb, const char *quotes)
{
	size_t most = strlen(quotes) == 3 ? 2 : 0;

	if (!toml_take(rd, quotes))
		return 0;
	while (most-- && rd->pos < rd->end && *rd->pos == quotes[0]) {
		strbuf_putc(sb, quotes[0]);
		rd->pos++;
	}
	return 1;
}

static int read_content(struct toml_reader *rd, const char *quotes, struct strbuf *sb)
{
	const int has_lines = strlen(quotes) == 3, has_escapes = quotes[0] == '"';

	while (rd->pos < rd->end) {
		if (take_end(rd, sb, quotes))
			return 0;
		if (*rd->pos == '\n' && !has_lines)
			break;
		if (*rd->pos == '\\' && has_escapes) {
			if (has_lines && skip_continued(rd))
				continue;
			if (read_escape(rd, sb) < 0)
				return -1;
			continue;
		}
		strbuf_putc(sb, *rd->pos++);
	}
	return toml_fail(rd, "a string has no closing quote");
}

const char *toml_string(struct toml_reader *rd)
{
	static const char *const kinds[] = { "\"\"\"", "'''", "\"", "'" };
	struct strbuf sb = STRBUF_INIT;
	const char *text = NULL;
	size_t i = 0;

	while (!toml_take(rd, kinds[i]))
		i++;
	/* A line that ends right behind the quotes is none of the string. */
	if (i < 2 && !toml_take(rd, "\n"))
		(void)toml_take(rd, "\r\n");
	if (read_content(rd, kinds[i], &sb) == 0) {
		text = sb.failed ? NULL : arena_strndup(rd->arena, sb.data ? sb.data : "", sb.len);
		if (!text)
			(void)cordon_err(rd->err, CORDON_E_NOMEM, 0, "out of memory");
	}
	strbuf_done(&sb);
	return text;
}

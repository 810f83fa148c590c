/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON with comments, as editors have it in their configurations: a copy in which comments and
 * trailing commas are blanks, byte for byte at the same places, is JSON.
 *
 * Where programs disagree what ends a comment, one of them may see a server that another does not,
 * so such a comment is an error.
 */
#include <string.h>

#include "base/err.h"
#include "jsonc.h"

/* Ends of lines for JavaScript and not for everything else: CR alone, U+2028, U+2029. */
static int is_doubtful(const char *at, size_t left)
{
	if (at[0] == '\r')
		return left < 2 || at[1] != '\n';
	return left > 2 && !memcmp(at, "\xe2\x80", 2) && (at[2] == '\xa8' || at[2] == '\xa9');
}

static size_t string_end(const char *text, size_t len, size_t at)
{
	for (at++; at < len && text[at] != '"'; at++)
		at += text[at] == '\\' && at + 1 < len;
	return at < len ? at + 1 : len;
}

/* Behind the comment that begins at @at, or 0. */
static size_t comment_end(const char *text, size_t len, size_t at)
{
	int is_line = text[at + 1] == '/';

	for (at += 2; at < len; at++) {
		if (is_line && text[at] == '\n')
			return at;
		if (!is_line && text[at] == '*' && at + 1 < len && text[at + 1] == '/')
			return at + 2;
		if (is_line && is_doubtful(text + at, len - at))
			return 0;
	}
	return is_line ? at : 0;
}

static void blank(char *text, size_t from, size_t to)
{
	for (; from < to; from++)
		if (text[from] != '\n')
			text[from] = ' ';
}

static int is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A comma before the end of an object or list. There are no comments any more. */
static void blank_commas(char *text, size_t len)
{
	size_t at = 0, next;

	while (at < len) {
		if (text[at] == '"') {
			at = string_end(text, len, at);
			continue;
		}
		if (text[at] == ',') {
			for (next = at + 1; next < len && is_space(text[next]);)
				next++;
			if (next < len && (text[next] == '}' || text[next] == ']'))
				text[at] = ' ';
		}
		at++;
	}
}

int jsonc_blank(struct strbuf *text, const char *name, struct cordon_error *err)
{
	char *data = text->data;
	size_t at = 0, end;

	while (at < text->len) {
		if (data[at] == '"') {
			at = string_end(data, text->len, at);
		} else if (data[at] == '/' && at + 1 < text->len &&
			   (data[at + 1] == '/' || data[at + 1] == '*')) {
			end = comment_end(data, text->len, at);
			if (!end)
				return cordon_err(err, CORDON_E_USAGE, 0,
						  "'%s' has a comment without a clear end", name);
			blank(data, at, end);
			at = end;
		} else {
			at++;
		}
	}
	blank_commas(data, text->len);
	return 0;
}

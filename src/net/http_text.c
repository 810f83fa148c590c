/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_text.h"

#include "base/ascii.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

bool http_is_token_char(char c)
{
	switch (c) {
	case '!':
	case '#':
	case '$':
	case '%':
	case '&':
	case '\'':
	case '*':
	case '+':
	case '-':
	case '.':
	case '^':
	case '_':
	case '`':
	case '|':
	case '~':
		return true;
	default:
		return ascii_is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
	}
}

bool http_is_word(const char *text, size_t len, const char *word)
{
	size_t i = 0;

	for (; i < len && word[i]; i++) {
		if (ascii_lower(text[i]) != word[i])
			return false;
	}
	return i == len && !word[i];
}

bool http_is_like_word(const char *text, size_t len, const char *word)
{
	size_t i = 0;

	for (; i < len && word[i]; i++) {
		if (ascii_lower(text[i]) != word[i] && !(text[i] == '_' && word[i] == '-'))
			return false;
	}
	return i == len && !word[i];
}

bool http_is_one_of(const char *text, size_t len, const char *const words[])
{
	for (; *words; words++) {
		if (http_is_word(text, len, *words))
			return true;
	}
	return false;
}

enum http_result http_read_line(const char *data, size_t len, size_t pos, size_t *ret_len,
				const char **ret_why)
{
	for (size_t i = pos; i < len; i++) {
		unsigned char c = (unsigned char)data[i];

		if ((c >= 0x20 && c != 0x7f) || c == '\t')
			continue;
		if (c != '\r') {
			*ret_why = c == '\n' ? "a line that ends without CR"
					     : "a control character";
			return HTTP_BAD;
		}
		if (i + 1 == len)
			return HTTP_MORE;
		if (data[i + 1] != '\n') {
			*ret_why = "a CR without LF";
			return HTTP_BAD;
		}
		*ret_len = i - pos;
		return HTTP_OK;
	}
	return HTTP_MORE;
}

enum http_result http_read_field(const char *data, size_t pos, size_t len, struct http_span *name,
				 struct http_span *value, const char **ret_why)
{
	size_t end = pos + len, colon = pos;

	if (is_space(data[pos])) {
		*ret_why = "a folded line";
		return HTTP_BAD;
	}
	while (colon < end && http_is_token_char(data[colon]))
		colon++;
	if (colon == pos || colon == end || data[colon] != ':') {
		*ret_why = "a line that is no header field";
		return HTTP_BAD;
	}
	*name = (struct http_span){ (uint16_t)pos, (uint16_t)(colon - pos) };
	pos = colon + 1;
	while (pos < end && is_space(data[pos]))
		pos++;
	while (end > pos && is_space(data[end - 1]))
		end--;
	*value = (struct http_span){ (uint16_t)pos, (uint16_t)(end - pos) };
	return HTTP_OK;
}

int http_next_word(const char *text, size_t len, size_t *pos, struct http_span *ret)
{
	size_t start, end;

	while (*pos < len && (is_space(text[*pos]) || text[*pos] == ','))
		(*pos)++;
	start = *pos;
	while (*pos < len && http_is_token_char(text[*pos]))
		(*pos)++;
	end = *pos;
	while (*pos < len && is_space(text[*pos]))
		(*pos)++;
	if (*pos < len && text[*pos] != ',')
		return -1;
	*ret = (struct http_span){ (uint16_t)start, (uint16_t)(end - start) };
	return end > start;
}

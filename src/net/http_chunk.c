/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a chunked body: sizes and trailers. */
#include "net/http.h"

#include "base/ascii.h"
#include "net/http_text.h"

#define SIZE_DIGITS_MAX 16

/* Where in a chunk's line we are. */
enum state {
	IN_SIZE,
	AT_NAME, /* after ';' */
	IN_NAME,
	AT_VALUE, /* after '=' */
	IN_VALUE,
	IN_QUOTES,
	AFTER_BACKSLASH,
	AFTER_QUOTES,
	AFTER_CR,
	IS_DONE,
	IS_BAD,
};

/* May an extension, or the line, end here? */
static enum state end_part(char c)
{
	if (c == ';')
		return AT_NAME;
	return c == '\r' ? AFTER_CR : IS_BAD;
}

/*
 * The state after one more byte. No white space anywhere: RFC 9112 forbids sending it, and parsers
 * differ in where they accept it.
 */
static enum state step(enum state state, char c)
{
	bool is_control = (unsigned char)c < 0x20 ? c != '\t' : c == 0x7f;

	switch (state) {
	case AT_NAME:
		return http_is_token_char(c) ? IN_NAME : IS_BAD;
	case IN_NAME:
		if (c == '=')
			return AT_VALUE;
		return http_is_token_char(c) ? IN_NAME : end_part(c);
	case AT_VALUE:
		if (c == '"')
			return IN_QUOTES;
		return http_is_token_char(c) ? IN_VALUE : IS_BAD;
	case IN_VALUE:
		return http_is_token_char(c) ? IN_VALUE : end_part(c);
	case IN_QUOTES:
		if (c == '"')
			return AFTER_QUOTES;
		if (is_control)
			return IS_BAD;
		return c == '\\' ? AFTER_BACKSLASH : IN_QUOTES;
	case AFTER_BACKSLASH:
		return is_control ? IS_BAD : IN_QUOTES;
	case AFTER_QUOTES:
		return end_part(c);
	case AFTER_CR:
		return c == '\n' ? IS_DONE : IS_BAD;
	case IN_SIZE:
	case IS_DONE:
	case IS_BAD:
		break;
	}
	return IS_BAD;
}

enum http_result http_read_chunk(const char *data, size_t len, size_t *ret_used, uint64_t *ret_size)
{
	enum state state = IN_SIZE;
	uint64_t size = 0;

	for (size_t i = 0; i < len; i++) {
		int digit = state == IN_SIZE ? ascii_hex_value(data[i]) : -1;

		if (i >= HTTP_CHUNK_LINE_MAX)
			return HTTP_TOO_LONG;
		if (digit >= 0) {
			if (i >= SIZE_DIGITS_MAX)
				return HTTP_BAD;
			size = size << 4 | (unsigned)digit;
			if (size > INT64_MAX)
				return HTTP_BAD;
			continue;
		}
		if (state == IN_SIZE)
			state = i > 0 ? end_part(data[i]) : IS_BAD;
		else
			state = step(state, data[i]);
		if (state == IS_BAD)
			return HTTP_BAD;
		if (state == IS_DONE) {
			*ret_used = i + 1;
			*ret_size = size;
			return HTTP_OK;
		}
	}
	return HTTP_MORE;
}

enum http_result http_read_trailer(const char *data, size_t len, size_t *ret_used)
{
	/* Fields that would change the request after it was checked. */
	static const char *const refused[] = { "host", "content-length", "transfer-encoding",
					       NULL };
	size_t pos = 0, line_len, cap = len < HTTP_TRAILER_MAX ? len : HTTP_TRAILER_MAX;
	const char *why;

	for (unsigned n = 0;; n++) {
		enum http_result r = http_read_line(data, cap, pos, &line_len, &why);
		struct http_span name, value;

		if (r == HTTP_MORE && len >= HTTP_TRAILER_MAX)
			return HTTP_TOO_LONG;
		if (r != HTTP_OK)
			return r;
		if (line_len == 0)
			break;
		if (n >= HTTP_FIELDS_MAX)
			return HTTP_TOO_LONG;
		r = http_read_field(data, pos, line_len, &name, &value, &why);
		if (r != HTTP_OK)
			return r;
		if (http_is_one_of(data + name.start, name.len, refused))
			return HTTP_BAD;
		pos += line_len + 2;
	}
	*ret_used = pos + 2;
	return HTTP_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads request heads. Each line is checked as soon as it is complete, and what needs the whole
 * head (is there a Host? do the fields agree?) at the end, so the answer does not depend on the
 * pieces in which a head arrives.
 */
#include "net/http.h"

#include <string.h>

#include "net/http_text.h"
#include "net/text.h"

#define HTTP_PORT 80

/* What is only needed while a head is read. */
struct head_state {
	const char *data;
	struct http_head *head;
	unsigned n_hosts, n_lengths, n_codings;
	bool says_close, says_keep;
};

static enum http_result bad(struct http_head *head, const char *why)
{
	head->why = why;
	return HTTP_BAD;
}

static int read_port(const char *text, size_t len, uint16_t *ret)
{
	int value = text_parse_number(text, len, UINT16_MAX);

	if (value <= 0)
		return -1;
	*ret = (uint16_t)value;
	return 0;
}

/* "[v6]": IPv4 addresses are not written in brackets. */
static int read_bracketed(const char *text, size_t len, struct http_host *ret, size_t *ret_end)
{
	size_t end = 1;
	bool has_colon = false;

	while (end < len && text[end] != ']') {
		has_colon = has_colon || text[end] == ':';
		end++;
	}
	if (end >= len || !has_colon || net_addr_parse(text + 1, end - 1, &ret->addr) < 0)
		return -1;
	ret->is_addr = true;
	*ret_end = end + 1;
	return 0;
}

int http_read_host(const char *text, size_t len, struct http_host *ret)
{
	struct http_host host = { 0 };
	size_t end = 0;

	if (len > 0 && text[0] == '[') {
		if (read_bracketed(text, len, &host, &end) < 0)
			return -1;
	} else {
		while (end < len && text[end] != ':')
			end++;
		host.is_addr = net_addr_parse(text, end, &host.addr) == 0;
		if (!host.is_addr && net_name_parse(text, end, host.name) < 0)
			return -1;
	}
	if (end < len &&
	    (text[end] != ':' || read_port(text + end + 1, len - end - 1, &host.port) < 0))
		return -1;
	*ret = host;
	return 0;
}

static bool is_same_host(const struct http_host *a, const struct http_host *b)
{
	if (a->is_addr != b->is_addr)
		return false;
	return a->is_addr ? net_addr_equal(&a->addr, &b->addr) : net_name_equal(a->name, b->name);
}

/* "http://host[:port][/path][?query]". */
static enum http_result read_absolute(struct head_state *r, size_t pos, size_t end)
{
	static const char scheme[] = "http://";
	struct http_head *head = r->head;
	size_t start = pos + sizeof(scheme) - 1, stop;

	if (end - pos < sizeof(scheme) - 1 ||
	    !http_is_word(r->data + pos, sizeof(scheme) - 1, scheme))
		return bad(head, "a target that is neither a path nor http://");
	for (stop = start; stop < end && r->data[stop] != '/' && r->data[stop] != '?'; stop++)
		;
	if (http_read_host(r->data + start, stop - start, &head->target) < 0)
		return bad(head, "a target with no host name in it");
	head->form = HTTP_ABSOLUTE;
	head->path = (struct http_span){ (uint16_t)stop, (uint16_t)(end - stop) };
	return HTTP_OK;
}

static enum http_result read_target(struct head_state *r, size_t pos, size_t end)
{
	struct http_head *head = r->head;
	const char *method = r->data + head->method.start;

	for (size_t i = pos; i < end; i++) {
		/* Control characters were refused already. A fragment is never sent. */
		if ((unsigned char)r->data[i] <= ' ' || (unsigned char)r->data[i] >= 0x7f ||
		    r->data[i] == '#')
			return bad(head, "a target with a character that is not allowed there");
	}
	head->path = (struct http_span){ (uint16_t)pos, (uint16_t)(end - pos) };
	/* Methods are case-sensitive, but a server might accept "connect" too. */
	if (http_is_word(method, head->method.len, "connect")) {
		head->form = HTTP_AUTHORITY;
		head->path.len = 0;
		if (memcmp(method, "CONNECT", 7) != 0 ||
		    http_read_host(r->data + pos, end - pos, &head->target) < 0 ||
		    head->target.port == 0)
			return bad(head, "CONNECT to something that is not HOST:PORT");
		return HTTP_OK;
	}
	if (r->data[pos] == '/') {
		head->form = HTTP_ORIGIN;
		return HTTP_OK;
	}
	if (end - pos == 1 && r->data[pos] == '*') {
		head->form = HTTP_ASTERISK;
		if (head->method.len != 7 || memcmp(method, "OPTIONS", 7) != 0)
			return bad(head, "a target * with another method than OPTIONS");
		return HTTP_OK;
	}
	return read_absolute(r, pos, end);
}

static enum http_result read_request_line(struct head_state *r, size_t len)
{
	static const char version[] = " HTTP/1.";
	size_t n = 0, end;

	while (n < len && http_is_token_char(r->data[n]))
		n++;
	if (n == 0 || n == len || r->data[n] != ' ')
		return bad(r->head, "no request line");
	r->head->method = (struct http_span){ 0, (uint16_t)n };
	/* A target of at least one byte, then the version and one digit more. */
	if (len - n < 1 + 1 + sizeof(version) - 1 + 1)
		return bad(r->head, "no request line");
	end = len - 1 - (sizeof(version) - 1);
	if (memcmp(r->data + end, version, sizeof(version) - 1) != 0 ||
	    (r->data[len - 1] != '0' && r->data[len - 1] != '1'))
		return bad(r->head, "a version other than HTTP/1.0 and HTTP/1.1");
	r->head->minor = (uint8_t)(r->data[len - 1] - '0');
	return read_target(r, n + 1, end);
}

/* Digits only, no zero in front, up to 2^63 - 1. */
static int read_length(const char *text, size_t len, uint64_t *ret)
{
	uint64_t value = 0;

	if (len == 0 || (len > 1 && text[0] == '0'))
		return -1;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)((unsigned char)text[i] - '0');

		if (digit > 9 || value > ((uint64_t)INT64_MAX - digit) / 10)
			return -1;
		value = value * 10 + digit;
	}
	*ret = value;
	return 0;
}

/*
 * Fields named by a Connection field are removed from the request, so they must not be ones that
 * decide its meaning.
 */
static enum http_result read_connection(struct head_state *r, const char *text, size_t len)
{
	static const char *const kept[] = {
		"host",		 "content-length",   "transfer-encoding",
		"content-type",	 "content-encoding", "content-range",
		"authorization", "cookie",	     "expect",
		"range",	 "cache-control",    NULL
	};
	struct http_span word;
	size_t pos = 0;
	int n;

	while ((n = http_next_word(text, len, &pos, &word)) > 0) {
		if (http_is_one_of(text + word.start, word.len, kept))
			return bad(r->head, "a Connection field that names an important one");
		if (http_is_word(text + word.start, word.len, "close"))
			r->says_close = true;
		if (http_is_word(text + word.start, word.len, "keep-alive"))
			r->says_keep = true;
	}
	return n < 0 ? bad(r->head, "a Connection field that is no list of words") : HTTP_OK;
}

/* The fields that decide what the request is; all others are only kept. */
static enum http_result check_field(struct head_state *r, const struct http_span *name,
				    const struct http_span *value)
{
	static const char *const framing[] = { "content-length", "transfer-encoding", NULL };
	const char *n = r->data + name->start, *v = r->data + value->start;
	struct http_head *head = r->head;

	if (http_is_word(n, name->len, "host")) {
		if (r->n_hosts++ > 0)
			return bad(head, "two Host fields");
		if (http_read_host(v, value->len, &head->host) < 0)
			return bad(head, "a Host field with no host name in it");
		head->has_host = true;
	} else if (http_is_word(n, name->len, "content-length")) {
		if (r->n_lengths++ > 0)
			return bad(head, "two Content-Length fields");
		if (read_length(v, value->len, &head->body_len) < 0)
			return bad(head, "a Content-Length that is no number");
		head->body = HTTP_LENGTH;
	} else if (http_is_word(n, name->len, "transfer-encoding")) {
		if (r->n_codings++ > 0)
			return bad(head, "two Transfer-Encoding fields");
		if (!http_is_word(v, value->len, "chunked"))
			return bad(head, "a Transfer-Encoding other than chunked");
		head->body = HTTP_CHUNKED;
	} else if (http_is_word(n, name->len, "connection")) {
		return read_connection(r, v, value->len);
	} else {
		for (size_t i = 0; framing[i]; i++) {
			if (http_is_like_word(n, name->len, framing[i]))
				return bad(head,
					   "a field that could be taken for the body's length");
		}
	}
	return HTTP_OK;
}

static enum http_result check_whole(struct head_state *r)
{
	struct http_head *head = r->head;

	if (!head->has_host && head->minor > 0)
		return bad(head, "no Host field");
	if (r->n_lengths && r->n_codings)
		return bad(head, "both Content-Length and Transfer-Encoding");
	if (r->n_codings && head->minor == 0)
		return bad(head, "Transfer-Encoding in HTTP/1.0");
	if (head->form == HTTP_AUTHORITY && (r->n_codings || head->body_len > 0))
		return bad(head, "CONNECT with a body");
	if (head->has_host && head->form == HTTP_ABSOLUTE &&
	    (!is_same_host(&head->host, &head->target) ||
	     (head->host.port ? head->host.port : HTTP_PORT) !=
		     (head->target.port ? head->target.port : HTTP_PORT)))
		return bad(head, "a Host field other than the target's");
	/* Some clients leave the port out of this one. */
	if (head->has_host && head->form == HTTP_AUTHORITY &&
	    (!is_same_host(&head->host, &head->target) ||
	     (head->host.port && head->host.port != head->target.port)))
		return bad(head, "a Host field other than the target's");
	head->wants_close = r->says_close || (head->minor == 0 && !r->says_keep);
	return HTTP_OK;
}

static enum http_result read_head(struct head_state *r, size_t len)
{
	struct http_head *head = r->head;
	enum http_result result;
	size_t pos, line_len;

	result = http_read_line(r->data, len, 0, &line_len, &head->why);
	if (result == HTTP_OK)
		result = read_request_line(r, line_len);
	if (result != HTTP_OK)
		return result;
	for (pos = line_len + 2;; pos += line_len + 2) {
		struct http_span name, value;

		result = http_read_line(r->data, len, pos, &line_len, &head->why);
		if (result != HTTP_OK)
			return result;
		if (line_len == 0)
			break;
		result = http_read_field(r->data, pos, line_len, &name, &value, &head->why);
		if (result == HTTP_OK && head->n_fields == HTTP_FIELDS_MAX)
			result = HTTP_TOO_LONG;
		if (result == HTTP_OK)
			result = check_field(r, &name, &value);
		if (result != HTTP_OK)
			return result;
		head->fields[head->n_fields].name = name;
		head->fields[head->n_fields++].value = value;
	}
	head->len = pos + 2;
	return check_whole(r);
}

enum http_result http_read_head(const char *data, size_t len, struct http_head *ret)
{
	struct head_state r = { .data = data, .head = ret };
	enum http_result result;

	memset(ret, 0, sizeof(*ret));
	result = read_head(&r, len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX);
	return result == HTTP_MORE && len >= HTTP_HEAD_MAX ? HTTP_TOO_LONG : result;
}

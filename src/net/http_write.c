/* SPDX-License-Identifier: Apache-2.0 */
/* A request head as it leaves: written from what was parsed, not copied. */
#include "net/http.h"

#include <string.h>

#include "net/http_text.h"
#include "net/text.h"

#define NUMBER_MAX 20

struct writer {
	char *ret;
	size_t len, cap;
	bool is_full;
};

static void put(struct writer *w, const char *text, size_t len)
{
	if (w->is_full || w->cap - w->len < len) {
		w->is_full = true;
		return;
	}
	memcpy(w->ret + w->len, text, len);
	w->len += len;
}

static void put_text(struct writer *w, const char *text)
{
	size_t len = 0;

	while (text[len])
		len++;
	put(w, text, len);
}

static void put_field(struct writer *w, const char *name, const char *value)
{
	put_text(w, name);
	put_text(w, ": ");
	put_text(w, value);
	put_text(w, "\r\n");
}

static void put_length(struct writer *w, uint64_t value)
{
	char digits[NUMBER_MAX + 1];

	*text_put_number(digits, value) = '\0';
	put_field(w, "Content-Length", digits);
}

/* Is the field named by a Connection field? */
static bool is_named(const struct http_head *head, const char *data, const struct http_span *name)
{
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_span *value = &head->fields[i].value;
		struct http_span word;
		size_t pos = 0;

		if (!http_is_word(data + head->fields[i].name.start, head->fields[i].name.len,
				  "connection"))
			continue;
		while (http_next_word(data + value->start, value->len, &pos, &word) > 0) {
			const char *a = data + value->start + word.start, *b = data + name->start;
			size_t j = 0;

			while (word.len == name->len && j < word.len &&
			       ascii_lower(a[j]) == ascii_lower(b[j]))
				j++;
			if (word.len == name->len && j == word.len)
				return true;
		}
	}
	return false;
}

/* Written anew from what was parsed, or meant for this hop only. */
static bool is_dropped(const struct http_head *head, const char *data, const struct http_span *name)
{
	static const char *const dropped[] = { "host",	     "content-length", "transfer-encoding",
					       "connection", "keep-alive",     "te",
					       "trailer",    "upgrade",	       "http2-settings",
					       NULL };
	static const char proxy[] = "proxy-";
	const char *text = data + name->start;

	if (http_is_one_of(text, name->len, dropped))
		return true;
	if (name->len >= sizeof(proxy) - 1 && http_is_word(text, sizeof(proxy) - 1, proxy))
		return true;
	return is_named(head, data, name);
}

static void put_request_line(struct writer *w, const struct http_head *head, const char *data)
{
	const char *method = data + head->method.start, *path = data + head->path.start;

	put(w, method, head->method.len);
	put_text(w, " ");
	/* "OPTIONS http://host" asks about the server, not about its "/" (RFC 9112, 3.2.4). */
	if (head->path.len == 0 && head->method.len == 7 && memcmp(method, "OPTIONS", 7) == 0)
		put_text(w, "*");
	else if (head->path.len == 0 || path[0] == '?')
		put_text(w, "/");
	put(w, path, head->path.len);
	put_text(w, head->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
}

size_t http_write_head(const struct http_head *head, const char *data, const char *host, bool close,
		       char *ret, size_t cap)
{
	struct writer w = { .ret = ret, .cap = cap };

	if (head->form == HTTP_AUTHORITY)
		return 0;
	put_request_line(&w, head, data);
	put_field(&w, "Host", host);
	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_span *name = &head->fields[i].name,
				       *value = &head->fields[i].value;

		if (is_dropped(head, data, name))
			continue;
		put(&w, data + name->start, name->len);
		put_text(&w, ": ");
		put(&w, data + value->start, value->len);
		put_text(&w, "\r\n");
	}
	if (head->body == HTTP_CHUNKED)
		put_field(&w, "Transfer-Encoding", "chunked");
	else if (head->body == HTTP_LENGTH)
		put_length(&w, head->body_len);
	if (close)
		put_field(&w, "Connection", "close");
	else if (head->minor == 0)
		put_field(&w, "Connection", "keep-alive");
	put_text(&w, "\r\n");
	return w.is_full ? 0 : w.len;
}

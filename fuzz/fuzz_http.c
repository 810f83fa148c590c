/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request heads, chunk lines and trailers. However the bytes are cut, the answer is the same. A
 * head that was accepted and written anew means the same to a reader: method, path, host, framing
 * and fields but for those of one hop; and written once more it does not change.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/http.h"

#define PREFIXES_MAX 100 /* longer inputs are cut at some places only */
#define WRITTEN_MAX (HTTP_HEAD_MAX + 512)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http_head head, again;

static void check(int is_true)
{
	if (!is_true)
		abort();
}

/* As its own host, the way that the gateway writes it. */
static const char *host_text(const struct http_host *host, char ret[NET_NAME_MAX + 16])
{
	char addr[NET_ADDR_TEXT_MAX];
	const char *text = host->is_addr ? net_addr_format(&host->addr, addr) : host->name;
	int is_v6 = host->is_addr && host->addr.is_v6;

	if (host->port)
		snprintf(ret, NET_NAME_MAX + 16, is_v6 ? "[%s]:%d" : "%s:%d", text, host->port);
	else
		snprintf(ret, NET_NAME_MAX + 16, is_v6 ? "[%s]" : "%s", text);
	return ret;
}

static int is_same_host(const struct http_host *a, const struct http_host *b)
{
	return a->is_addr == b->is_addr && a->port == b->port &&
	       (a->is_addr ? net_addr_equal(&a->addr, &b->addr) : !strcmp(a->name, b->name));
}

static int is_same_span(const char *a, struct http_span x, const char *b, struct http_span y)
{
	return x.len == y.len && !memcmp(a + x.start, b + y.start, x.len);
}

static int is_field(const char *text, struct http_span name, const char *want)
{
	return strlen(want) == name.len && !strncasecmp(text + name.start, want, name.len);
}

/* What was written from what was understood. */
static int is_ours(const char *text, struct http_span name)
{
	return is_field(text, name, "host") || is_field(text, name, "content-length") ||
	       is_field(text, name, "transfer-encoding") || is_field(text, name, "connection");
}

static int is_of_one_hop(const char *text, struct http_span name)
{
	static const char *const names[] = { "keep-alive", "te", "trailer", "upgrade",
					     "http2-settings" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (is_field(text, name, names[i]))
			return 1;
	}
	return name.len >= 6 && !strncasecmp(text + name.start, "proxy-", 6);
}

/* Somewhere in the value of a Connection field. */
static int is_named(const char *text, struct http_span name)
{
	for (size_t i = 0; i < head.n_fields; i++) {
		struct http_span value = head.fields[i].value;

		if (!is_field(text, head.fields[i].name, "connection"))
			continue;
		for (size_t j = 0; j + name.len <= value.len; j++) {
			if (!strncasecmp(text + value.start + j, text + name.start, name.len))
				return 1;
		}
	}
	return 0;
}

static void check_fields(const char *text, const char *written)
{
	size_t j = 0;

	for (size_t i = 0; i < head.n_fields; i++) {
		struct http_span name = head.fields[i].name;

		while (j < again.n_fields && is_ours(written, again.fields[j].name))
			j++;
		if (is_ours(text, name) || is_of_one_hop(text, name))
			continue;
		if (j < again.n_fields && is_same_span(text, name, written, again.fields[j].name) &&
		    is_same_span(text, head.fields[i].value, written, again.fields[j].value))
			j++;
		else
			check(is_named(text, name));
	}
	while (j < again.n_fields && is_ours(written, again.fields[j].name))
		j++;
	check(j == again.n_fields);
	for (size_t i = 0; i < again.n_fields; i++)
		check(!is_of_one_hop(written, again.fields[i].name));
}

static void check_path(const char *text, const char *written)
{
	const char *path = written + again.path.start;
	size_t added = again.path.len - head.path.len;

	check(again.path.len >= head.path.len && added <= 1);
	check(!memcmp(path + added, text + head.path.start, head.path.len));
	if (added)
		check(head.form == HTTP_ABSOLUTE &&
		      (path[0] == '/' || again.form == HTTP_ASTERISK));
	else
		check(path[0] == '/' || again.form == HTTP_ASTERISK);
}

static void check_written(const char *text, int close)
{
	static char first[WRITTEN_MAX], second[WRITTEN_MAX];
	const struct http_host *host = head.form == HTTP_ABSOLUTE ? &head.target : &head.host;
	char name[NET_NAME_MAX + 16] = "none.example";
	size_t len;

	if (head.has_host || head.form == HTTP_ABSOLUTE)
		host_text(host, name);
	len = http_write_head(&head, text, name, close, first, sizeof(first));
	if (head.form == HTTP_AUTHORITY) {
		check(len == 0);
		return;
	}
	check(len > 0);
	if (len > HTTP_HEAD_MAX || head.n_fields + 2 > HTTP_FIELDS_MAX)
		return;
	check(http_read_head(first, len, &again) == HTTP_OK);
	check(again.len == len && again.minor == head.minor && again.has_host);
	check(again.form == HTTP_ORIGIN || again.form == HTTP_ASTERISK);
	check(is_same_span(text, head.method, first, again.method));
	check(again.body == head.body && again.body_len == head.body_len);
	check(again.wants_close == close);
	if (head.has_host || head.form == HTTP_ABSOLUTE)
		check(is_same_host(&again.host, host));
	check_path(text, first);
	check_fields(text, first);
	check(http_write_head(&again, first, name, close, second, sizeof(second)) == len);
	check(!memcmp(first, second, len));
}

/* Any of the readers; nothing readable behind the end. */
static enum http_result read_part(int which, const char *data, size_t size, size_t *used)
{
	char *copy = malloc(size ? size : 1);
	enum http_result r;
	uint64_t chunk = 0;

	check(copy != NULL);
	memcpy(copy, data, size);
	*used = 0;
	if (which == 0) {
		r = http_read_head(copy, size, &again);
		*used = again.len;
		check((r == HTTP_BAD) == (again.why != NULL));
	} else if (which == 1) {
		r = http_read_chunk(copy, size, used, &chunk);
		check(chunk <= INT64_MAX);
	} else {
		r = http_read_trailer(copy, size, used);
	}
	check(r != HTTP_OK || (*used > 0 && *used <= size));
	free(copy);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	for (int which = 0; which < 3; which++) {
		size_t used, part_used;
		enum http_result r = read_part(which, text, size, &used);

		for (size_t n = 0; n<size; n += size> PREFIXES_MAX ? size / 50 : 1) {
			enum http_result part = read_part(which, text, n, &part_used);

			check(part == HTTP_MORE || part == r);
			check(part != HTTP_OK || (n >= used && part_used == used));
		}
	}
	if (http_read_head(text, size, &head) == HTTP_OK) {
		check_written(text, 0);
		check_written(text, 1);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "session_frame.h"

#include <string.h>

#include "base/arena.h"
#include "base/json_read.h"
#include "base/macros.h"

#define PART_MAX ((int64_t)1 << 40)

static int copy_word(char ret[FRAME_WORD_MAX], const char *from, size_t len)
{
	if (len == 0 || len >= FRAME_WORD_MAX)
		return -1;
	memcpy(ret, from, len);
	ret[len] = '\0';
	return 0;
}

static int64_t number_in(const char *text)
{
	size_t n = strspn(text, "0123456789");
	int64_t value = 0;

	if (n == 0 || n > 15 || text[n])
		return -1;
	for (size_t i = 0; i < n; i++)
		value = 10 * value + (text[i] - '0');
	return value;
}

/* Up to three words with a blank between them: how many, or -1. */
static int split_line(const char *line, size_t len, char words[3][FRAME_WORD_MAX])
{
	int n = 0;

	for (size_t at = 0; at <= len;) {
		const char *blank = memchr(line + at, ' ', len - at);
		size_t end = blank ? (size_t)(blank - line) : len;

		if (n == 3 || copy_word(words[n++], line + at, end - at) < 0)
			return -1;
		at = end + 1;
	}
	return n;
}

int frame_read_request(const char *data, size_t len, struct frame_request *ret)
{
	size_t most = len < FRAME_REQUEST_HEAD_MAX ? len : FRAME_REQUEST_HEAD_MAX;
	const char *end = most ? memchr(data, '\n', most) : NULL;
	char words[3][FRAME_WORD_MAX];
	int64_t size;
	int n;

	*ret = (struct frame_request){ .head_len = 0 };
	if (!end)
		return len >= FRAME_REQUEST_HEAD_MAX ? -1 : 0;
	n = split_line(data, (size_t)(end - data), words);
	if (n < 2)
		return -1;
	ret->is_greeting = n == 2;
	size = number_in(words[n == 2 ? 0 : 2]);
	if (size < 0 || (uint64_t)size > FRAME_REQUEST_MAX || (n == 2 && number_in(words[1]) < 0))
		return -1;
	if (n == 3) {
		memcpy(ret->kind, words[0], sizeof(ret->kind));
		memcpy(ret->token, words[1], sizeof(ret->token));
	}
	ret->head_len = (size_t)(end - data) + 1;
	ret->data_len = (size_t)size;
	return 1;
}

static int take_fields(const struct json_value *root, struct frame_message *m)
{
	static const char *const last[] = { "hello", "end", "value", "refused" };
	const struct json_value *type, *parts, *signals;
	int is_known = 0;

	type = root->type == JSON_OBJECT ? json_get(root, "type") : NULL;
	parts = root->type == JSON_OBJECT ? json_get(root, "parts") : NULL;
	if (!type || type->type != JSON_STRING || !parts || parts->type != JSON_ARRAY ||
	    parts->integer > FRAME_PARTS_MAX)
		return -1;
	for (const struct json_value *v = parts->first; v; v = v->next) {
		if (v->type != JSON_INTEGER || v->integer < 0 || v->integer > PART_MAX)
			return -1;
		m->data_len += (uint64_t)v->integer;
	}
	for (size_t i = 0; i < ARRAY_SIZE(last); i++)
		m->is_last |= !strcmp(type->text, last[i]);
	m->is_hello = !strcmp(type->text, "hello");
	is_known = m->is_last || !strcmp(type->text, "display") || !strcmp(type->text, "image");
	signals = json_get(root, "signals");
	m->signals = signals && signals->type == JSON_INTEGER ? signals->integer : -1;
	return is_known ? 0 : -1;
}

int frame_read_message(const char *data, size_t len, struct frame_message *ret)
{
	size_t most = len < FRAME_HEAD_MAX ? len : FRAME_HEAD_MAX;
	const char *end = most ? memchr(data, '\n', most) : NULL;
	const char *blank = end ? memchr(data, ' ', (size_t)(end - data)) : NULL;
	struct arena arena = ARENA_INIT;
	const struct json_value *root;
	int r;

	*ret = (struct frame_message){ .signals = -1 };
	if (!end)
		return len >= FRAME_HEAD_MAX ? -1 : 0;
	if (!blank || copy_word(ret->token, data, (size_t)(blank - data)) < 0)
		return -1;
	r = json_read(blank + 1, (size_t)(end - blank - 1), "message", &arena, &root, NULL);
	if (r >= 0)
		r = take_fields(root, ret);
	arena_done(&arena);
	ret->head_len = (size_t)(end - data) + 1;
	return r < 0 ? -1 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include <string.h>

#include "base/arena.h"
#include "base/json_read.h"
#include "base/macros.h"

static const char *const type_names[CHANNEL_TYPE_MAX] = {
	[CHANNEL_HELLO] = "hello", [CHANNEL_DISPLAY] = "display", [CHANNEL_END] = "end",
	[CHANNEL_VALUE] = "value", [CHANNEL_REFUSED] = "refused",
};

#define TYPE(t) (1u << CHANNEL_##t)

/* Fields beside type and parts, and the messages that may have them. */
static const struct {
	const char *name;
	enum json_type type;
	unsigned types;
} fields[] = {
	{ "version", JSON_STRING, TYPE(HELLO) }, { "mimes", JSON_ARRAY, TYPE(DISPLAY) | TYPE(END) },
	{ "count", JSON_INTEGER, TYPE(END) },	 { "signals", JSON_INTEGER, TYPE(END) },
	{ "error", JSON_STRING, TYPE(END) },	 { "status", JSON_INTEGER, TYPE(END) },
	{ "exited", JSON_TRUE, TYPE(END) },	 { "kind", JSON_STRING, TYPE(VALUE) },
};

static int is_known(const struct json_value *v, enum channel_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		enum json_type found = v->type == JSON_FALSE ? JSON_TRUE : v->type;

		if (!strcmp(v->key, fields[i].name))
			return found == fields[i].type && (fields[i].types & 1u << type);
	}
	return 0;
}

static int take_sizes(const struct json_value *parts, struct channel_message *m)
{
	if (!parts || parts->type != JSON_ARRAY || parts->integer > CHANNEL_PARTS_MAX)
		return -1;
	for (const struct json_value *v = parts->first; v; v = v->next) {
		if (v->type != JSON_INTEGER || v->integer < 0 ||
		    (uint64_t)v->integer > CHANNEL_DATA_MAX)
			return -1;
		m->sizes[m->n_parts++] = (size_t)v->integer;
		m->data_len += (size_t)v->integer;
	}
	return m->data_len > CHANNEL_DATA_MAX ? -1 : 0;
}

/* Names such as "text/html": they go to the client as they are, as keys of an object. */
static int is_mime(const char *text)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "/.+-_");

	return len > 0 && len < CHANNEL_MIME_MAX && !text[len];
}

static int take_mimes(const struct json_value *mimes, struct channel_message *m)
{
	if (mimes->integer > CHANNEL_PARTS_MAX)
		return -1;
	for (const struct json_value *v = mimes->first; v; v = v->next) {
		if (v->type != JSON_STRING || !is_mime(v->text))
			return -1;
		for (unsigned k = 0; k < m->n_mimes; k++)
			if (!strcmp(m->mimes[k], v->text))
				return -1;
		memcpy(m->mimes[m->n_mimes++], v->text, strlen(v->text) + 1);
	}
	return 0;
}

static int take_field(const struct json_value *v, struct channel_message *m)
{
	if (!is_known(v, m->type))
		return -1;
	if (!strcmp(v->key, "mimes"))
		return take_mimes(v, m);
	if (!strcmp(v->key, "count"))
		m->count = v->integer;
	else if (!strcmp(v->key, "signals"))
		m->signals = v->integer;
	else if (!strcmp(v->key, "status"))
		m->status = v->integer;
	else if (!strcmp(v->key, "exited"))
		m->exited = v->type == JSON_TRUE;
	else if (!strcmp(v->key, "error"))
		m->is_error = 1 + !strcmp(v->text, "interrupt");
	return 0;
}

static int take_head(const struct json_value *root, struct channel_message *m)
{
	const struct json_value *type = root->type == JSON_OBJECT ? json_get(root, "type") : NULL;
	int i = 0;

	if (!type || type->type != JSON_STRING)
		return -1;
	while (i < CHANNEL_TYPE_MAX && strcmp(type_names[i], type->text) != 0)
		i++;
	if (i == CHANNEL_TYPE_MAX || take_sizes(json_get(root, "parts"), m) < 0)
		return -1;
	m->type = (enum channel_type)i;
	for (const struct json_value *v = root->first; v; v = v->next)
		if (strcmp(v->key, "type") != 0 && strcmp(v->key, "parts") != 0 &&
		    take_field(v, m) < 0)
			return -1;
	m->is_interrupt = m->is_error == 2;
	if (m->type == CHANNEL_END && m->is_error)
		return m->n_parts == 3 ? 0 : -1;
	if (m->type == CHANNEL_END || m->type == CHANNEL_DISPLAY)
		return m->n_mimes == m->n_parts ? 0 : -1;
	return 0;
}

int channel_parse(const char *data, size_t len, struct channel_message *ret, const char **ret_why)
{
	size_t most = len < CHANNEL_HEAD_MAX ? len : CHANNEL_HEAD_MAX;
	const char *end = most ? memchr(data, '\n', most) : NULL;
	const char *blank = end ? memchr(data, ' ', (size_t)(end - data)) : NULL;
	struct arena arena = ARENA_INIT;
	const struct json_value *root;
	int r;

	*ret = (struct channel_message){ .count = -1, .signals = -1, .status = -1 };
	if (!end) {
		*ret_why = "a message has no end";
		return len >= CHANNEL_HEAD_MAX ? -1 : 0;
	}
	*ret_why = "a message is not understood";
	if (!blank || (size_t)(blank - data) >= CHANNEL_TOKEN_MAX)
		return -1;
	memcpy(ret->token, data, (size_t)(blank - data));
	r = json_read(blank + 1, (size_t)(end - blank - 1), "message", &arena, &root, NULL);
	if (r >= 0)
		r = take_head(root, ret);
	arena_done(&arena);
	if (r < 0)
		return -1;
	ret->head_len = (size_t)(end - data) + 1;
	return len - ret->head_len >= ret->data_len;
}

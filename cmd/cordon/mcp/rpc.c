/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"

/* A look at a text that may be no JSON, without recursion and without memory. */
struct look {
	const char *pos, *end;
	size_t values, depth;
	int n_ids;
	const char *id; /* the value of the "id" of the outermost object */
	size_t id_len;
};

/* Steps behind the string that begins here. */
static void skip_string(struct look *l)
{
	for (l->pos++; l->pos < l->end && *l->pos != '"'; l->pos++)
		if (*l->pos == '\\' && l->pos + 1 < l->end)
			l->pos++;
	if (l->pos < l->end)
		l->pos++;
}

static void skip_blanks(struct look *l)
{
	while (l->pos < l->end && (*l->pos == ' ' || *l->pos == '\t' || *l->pos == '\r'))
		l->pos++;
}

/* After the key "id" of the outermost object. */
static void look_at_id(struct look *l)
{
	const char *start;

	skip_blanks(l);
	if (l->pos == l->end || *l->pos != ':')
		return;
	l->pos++;
	skip_blanks(l);
	start = l->pos;
	l->n_ids++;
	if (l->pos < l->end && *l->pos == '"')
		skip_string(l);
	else
		while (l->pos < l->end && (ascii_is_digit(*l->pos) || *l->pos == '-'))
			l->pos++;
	l->id = start;
	l->id_len = (size_t)(l->pos - start);
}

static void look_at(struct look *l)
{
	while (l->pos < l->end) {
		const char *start = l->pos;

		switch (*l->pos) {
		case '"':
			skip_string(l);
			if (l->depth == 1 && l->pos - start == 4 && !memcmp(start, "\"id\"", 4))
				look_at_id(l);
			continue;
		case '{':
		case '[':
			l->depth++;
			l->values++;
			break;
		case '}':
		case ']':
			l->depth -= l->depth > 0;
			break;
		case ',':
		case ':':
			l->values++;
			break;
		default:
			break;
		}
		l->pos++;
	}
}

/* An id that can be repeated as it is: an integer, or a string without anything special. */
static int is_plain_id(const char *text, size_t len)
{
	size_t i = 0;

	if (len == 0 || len >= RPC_ID_MAX)
		return 0;
	if (text[0] == '"') {
		for (i = 1; i + 1 < len; i++)
			if (text[i] < ' ' || text[i] > '~' || text[i] == '\\')
				return 0;
		return len >= 2 && text[len - 1] == '"';
	}
	i += text[0] == '-';
	if (i == len || len - i > 18 || (text[i] == '0' && len - i > 1))
		return 0;
	for (; i < len; i++)
		if (!ascii_is_digit(text[i]))
			return 0;
	return 1;
}

const struct json_value *rpc_read(const char *text, size_t len, struct arena *arena,
				  struct rpc_message *ret, char *what, size_t size)
{
	struct look look = { .pos = text, .end = text + len };
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct json_value *root = NULL;

	*ret = (struct rpc_message){ .kind = RPC_INVALID, .id = "null", .what = what };
	look_at(&look);
	if (look.n_ids == 1 && is_plain_id(look.id, look.id_len)) {
		memcpy(ret->id, look.id, look.id_len);
		ret->id[look.id_len] = '\0';
	}
	if (look.values > RPC_VALUES_MAX) {
		ret->code = RPC_INVALID_REQUEST;
		snprintf(what, size, "the message has more than %d values", RPC_VALUES_MAX);
		return NULL;
	}
	if (json_read(text, len, "message", arena, &root, &err) < 0) {
		ret->code = err.code == CORDON_E_NOMEM ? RPC_INTERNAL_ERROR : RPC_PARSE_ERROR;
		snprintf(what, size, "%s", err.msg);
		return NULL;
	}
	return root;
}

int rpc_id(const struct json_value *value, char ret[RPC_ID_MAX])
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	int r = -1;

	if (!value || (value->type != JSON_STRING && value->type != JSON_INTEGER) ||
	    strlen(value->text) >= RPC_ID_MAX)
		return -1;
	json_writer_init(&w, &sb, 0);
	if (value->type == JSON_INTEGER)
		json_raw(&w, NULL, value->text);
	else
		json_string(&w, NULL, value->text);
	if (!sb.failed && sb.len < RPC_ID_MAX) {
		memcpy(ret, sb.data, sb.len + 1);
		r = 0;
	}
	strbuf_done(&sb);
	return r;
}

static void invalid(struct rpc_message *ret, int code, const char *what)
{
	ret->kind = RPC_INVALID;
	ret->code = code;
	ret->what = what;
}

void rpc_classify(const struct json_value *value, struct rpc_message *ret)
{
	const struct json_value *version, *method, *id;

	*ret = (struct rpc_message){ .kind = RPC_INVALID, .id = "null" };
	if (value->type != JSON_OBJECT) {
		invalid(ret, RPC_INVALID_REQUEST, "a message is an object");
		return;
	}
	id = json_get(value, "id");
	version = json_get(value, "jsonrpc");
	method = json_get(value, "method");
	if (id && rpc_id(id, ret->id) < 0) {
		/* An error without an id may have null there. */
		if (method || id->type != JSON_NULL)
			invalid(ret, RPC_INVALID_REQUEST,
				"an id is a string or an integer, of 500 bytes at most");
		else
			ret->kind = RPC_RESPONSE;
		return;
	}
	if (!version || version->type != JSON_STRING || strcmp(version->text, "2.0") != 0) {
		invalid(ret, RPC_INVALID_REQUEST, "'jsonrpc' has to be \"2.0\"");
		return;
	}
	if (!method && (json_get(value, "result") || json_get(value, "error"))) {
		ret->kind = RPC_RESPONSE;
		return;
	}
	if (!method || method->type != JSON_STRING) {
		invalid(ret, RPC_INVALID_REQUEST, "'method' has to be a string");
		return;
	}
	ret->method = method->text;
	ret->params = json_get(value, "params");
	ret->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
	if (!ret->params || ret->params->type == JSON_OBJECT)
		return;
	/* A notification has no answer, whatever it says. */
	ret->params = NULL;
	if (id)
		invalid(ret, RPC_INVALID_PARAMS, "'params' has to be an object");
}

void rpc_open_result(struct json_writer *w, struct strbuf *sb, const char *id)
{
	json_writer_init(w, sb, 0);
	json_open_object(w, NULL);
	json_string(w, "jsonrpc", "2.0");
	json_raw(w, "id", id);
	json_open_object(w, "result");
}

void rpc_close_result(struct json_writer *w)
{
	json_close_object(w);
	json_close_object(w);
}

void rpc_error(struct strbuf *sb, const char *id, int code, const char *message, const char *data)
{
	struct strbuf clean = STRBUF_INIT;
	struct json_writer w;

	/* A message may end in the middle of a character. */
	rpc_clean(&clean, message, strlen(message));
	json_writer_init(&w, sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "jsonrpc", "2.0");
	json_raw(&w, "id", id);
	json_open_object(&w, "error");
	json_int(&w, "code", code);
	json_string(&w, "message", clean.failed ? "out of memory" : clean.data);
	strbuf_done(&clean);
	if (data)
		json_raw(&w, "data", data);
	json_close_object(&w);
	json_close_object(&w);
}

int rpc_clean(struct strbuf *sb, const char *data, size_t len)
{
	size_t i = 0, run = 0;
	int was_bad = 0;

	while (i < len) {
		uint32_t cp;
		size_t n = (unsigned char)data[i] < 0x80 ? 1 : utf8_decode(data + i, len - i, &cp);

		if (n == 0) {
			strbuf_add(sb, data + run, i - run);
			strbuf_puts(sb, "\xef\xbf\xbd");
			was_bad = 1;
			run = i + 1;
			n = 1;
		}
		i += n;
	}
	strbuf_add(sb, data + run, len - run);
	return was_bad;
}

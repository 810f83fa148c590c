/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and notifications, of both eras.
 *
 * Up to 2025-11-25 a client begins with `initialize`, which settles the revision for the
 * connection. Since 2026-07-28 there is no beginning: every request says in its _meta which
 * revision it is of and what its sender can do. Each request is answered by what it says of itself,
 * so a client may first ask for the one and then use the other.
 */
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "server.h"

#define MODERN "2026-07-28"
#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER "io.modelcontextprotocol/serverInfo"
#define UNSUPPORTED_VERSION (-32022)
#define TTL_MS 3600000 /* the list of tools does not change */

/* That begin with initialize, newest first. */
static const char *const revisions[] = { "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05" };

/* The only one that has batches. */
#define BATCH_REVISION "2025-03-26"

struct request {
	struct server *server;
	struct line *line;
	struct batch *batch;
	const struct rpc_message *m;
	int is_modern;
};

void methods_answer(struct server *s, struct batch *batch, struct strbuf *message)
{
	if (!batch) {
		client_send(s, message);
		return;
	}
	if (message->len) {
		strbuf_putc(&batch->out, batch->out.len ? ',' : '[');
		strbuf_add(&batch->out, message->data, message->len);
	}
	if (--batch->pending > 0)
		return;
	if (batch->out.len) {
		strbuf_putc(&batch->out, ']');
		client_send(s, &batch->out);
	}
	strbuf_done(&batch->out);
}

void methods_sweep(struct server *s)
{
	struct batch **at = &s->batches;

	while (*at) {
		struct batch *batch = *at;

		if (batch->pending > 0) {
			at = &batch->next;
		} else {
			*at = batch->next;
			free(batch);
		}
	}
}

static void answer_nothing(struct server *s, struct batch *batch)
{
	struct strbuf none = STRBUF_INIT;

	if (batch)
		methods_answer(s, batch, &none);
}

static void fail(struct server *s, struct batch *batch, const char *id, int code, const char *what,
		 const char *data)
{
	struct strbuf sb = STRBUF_INIT;

	rpc_error(&sb, id, code, what, data);
	methods_answer(s, batch, &sb);
	strbuf_done(&sb);
}

static void request_fail(const struct request *q, int code, const char *what)
{
	fail(q->server, q->batch, q->m->id, code, what, NULL);
}

static void send_result(const struct request *q, struct json_writer *w, struct strbuf *sb)
{
	rpc_close_result(w);
	methods_answer(q->server, q->batch, sb);
	strbuf_done(sb);
}

static void write_server_info(struct json_writer *w, const char *key)
{
	json_open_object(w, key);
	json_string(w, "name", "cordon");
	json_string(w, "title", "Cordon");
	json_string(w, "version", cordon_version());
	json_close_object(w);
}

static void write_capabilities(struct json_writer *w)
{
	json_open_object(w, "capabilities");
	json_open_object(w, "tools");
	json_close_object(w);
	json_close_object(w);
}

/* What a model should know before its first call. */
static void write_instructions(const struct server *s, struct json_writer *w)
{
	struct strbuf sb = STRBUF_INIT, clean = STRBUF_INIT;
	char seconds[32];

	strbuf_puts(&sb, "Commands and code run in a sandbox: ");
	strbuf_puts(&sb,
		    s->has_network ? "only some hosts can be reached, " : "there is no network, ");
	if (s->base && s->workspace[0])
		strbuf_printf(&sb,
			      "and changes in %s are kept apart until the operator commits them. ",
			      s->base);
	else if (s->base)
		strbuf_printf(&sb, "and nothing outside of %s can be changed. ", s->base);
	else
		strbuf_puts(&sb, "and each call begins with an empty home and /tmp. ");
	strbuf_printf(&sb,
		      "A call may take %s seconds. get_limits says all that is allowed. What is "
		      "refused stays refused: tell the user which option the result names.",
		      server_seconds(s->wall_ms, seconds));
	if (!sb.failed)
		rpc_clean(&clean, sb.data, sb.len);
	json_string(w, "instructions", clean.failed || sb.failed ? "" : clean.data);
	strbuf_done(&clean);
	strbuf_done(&sb);
}

static void do_initialize(const struct request *q)
{
	const struct json_value *version = q->m->params ? json_get(q->m->params, "protocolVersion")
							: NULL;
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (!version || version->type != JSON_STRING) {
		request_fail(q, RPC_INVALID_PARAMS, "'protocolVersion' has to be a string");
		return;
	}
	if (q->batch) {
		request_fail(q, RPC_INVALID_REQUEST, "initialize cannot be part of a batch");
		return;
	}
	q->server->revision = revisions[0];
	for (size_t i = 0; i < ARRAY_SIZE(revisions); i++)
		if (!strcmp(version->text, revisions[i]))
			q->server->revision = revisions[i];
	rpc_open_result(&w, &sb, q->m->id);
	json_string(&w, "protocolVersion", q->server->revision);
	write_capabilities(&w);
	write_server_info(&w, "serverInfo");
	write_instructions(q->server, &w);
	send_result(q, &w, &sb);
}

static void write_versions(struct json_writer *w, const char *key)
{
	json_open_array(w, key);
	json_string(w, NULL, MODERN);
	for (size_t i = 0; i < ARRAY_SIZE(revisions); i++)
		json_string(w, NULL, revisions[i]);
	json_close_array(w);
}

static void write_modern(struct json_writer *w, int is_cacheable)
{
	json_string(w, "resultType", "complete");
	if (!is_cacheable)
		return;
	json_int(w, "ttlMs", TTL_MS);
	json_string(w, "cacheScope", "private");
}

static void do_discover(const struct request *q)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	rpc_open_result(&w, &sb, q->m->id);
	write_modern(&w, 1);
	write_versions(&w, "supportedVersions");
	write_capabilities(&w);
	write_instructions(q->server, &w);
	json_open_object(&w, "_meta");
	write_server_info(&w, META_SERVER);
	json_close_object(&w);
	send_result(q, &w, &sb);
}

static void do_ping(const struct request *q)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	rpc_open_result(&w, &sb, q->m->id);
	send_result(q, &w, &sb);
}

static void do_list(const struct request *q)
{
	const struct json_value *cursor = q->m->params ? json_get(q->m->params, "cursor") : NULL;
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (cursor) {
		request_fail(q, RPC_INVALID_PARAMS, "there is one page only, and no cursor");
		return;
	}
	rpc_open_result(&w, &sb, q->m->id);
	if (q->is_modern)
		write_modern(&w, 1);
	tools_list(q->server, &w);
	send_result(q, &w, &sb);
}

static void do_call(const struct request *q)
{
	const struct json_value *name = q->m->params ? json_get(q->m->params, "name") : NULL;
	const struct json_value *args = q->m->params ? json_get(q->m->params, "arguments") : NULL;

	if (!name || name->type != JSON_STRING)
		request_fail(q, RPC_INVALID_PARAMS, "'name' has to be a string");
	else if (!tool_find(q->server, name->text))
		request_fail(q, RPC_INVALID_PARAMS, "there is no such tool");
	else if (args && args->type != JSON_OBJECT)
		request_fail(q, RPC_INVALID_PARAMS, "'arguments' has to be an object");
	else if (q->server->n_calls >= MCP_CALLS_MAX)
		request_fail(q, RPC_INTERNAL_ERROR, "too many calls are running; try again later");
	else if (call_new(q->server, q->line, q->batch, q->m, q->is_modern) < 0)
		request_fail(q, RPC_INTERNAL_ERROR, "out of memory");
}

static const struct {
	const char *name;
	int is_legacy, is_modern, is_early; /* may come before initialize */
	void (*handle)(const struct request *q);
} methods[] = {
	{ "initialize", 1, 0, 1, do_initialize },    { "ping", 1, 0, 1, do_ping },
	{ "server/discover", 0, 1, 0, do_discover }, { "tools/list", 1, 1, 0, do_list },
	{ "tools/call", 1, 1, 0, do_call },
};

static const struct json_value *meta_of(const struct rpc_message *m, const char *key)
{
	const struct json_value *meta = m->params ? json_get(m->params, "_meta") : NULL;

	return meta && meta->type == JSON_OBJECT ? json_get(meta, key) : NULL;
}

static void unsupported(const struct request *q, const char *requested)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	write_versions(&w, "supported");
	json_string(&w, "requested", requested);
	json_close_object(&w);
	fail(q->server, q->batch, q->m->id, UNSUPPORTED_VERSION, "unsupported protocol version",
	     sb.failed ? NULL : sb.data);
	strbuf_done(&sb);
}

/* 1: the request says of itself all that it has to; -1: it was answered. */
static int check_envelope(const struct request *q)
{
	const struct json_value *version = meta_of(q->m, META_VERSION);
	const struct json_value *capabilities = meta_of(q->m, META_CAPABILITIES);

	if (!version)
		return 0;
	if (version->type != JSON_STRING)
		request_fail(q, RPC_INVALID_PARAMS, META_VERSION " has to be a string");
	else if (strcmp(version->text, MODERN) != 0)
		unsupported(q, version->text);
	else if (!capabilities || capabilities->type != JSON_OBJECT)
		request_fail(q, RPC_INVALID_PARAMS, META_CAPABILITIES " has to be an object");
	else
		return 1;
	return -1;
}

static void do_request(struct request *q)
{
	int modern = check_envelope(q);

	if (modern < 0)
		return;
	q->is_modern = modern;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (strcmp(q->m->method, methods[i].name) != 0)
			continue;
		if (!modern && !methods[i].is_legacy) {
			request_fail(q, RPC_INVALID_PARAMS, "_meta lacks " META_VERSION);
			return;
		}
		if (modern && !methods[i].is_modern)
			break;
		if (!modern && !methods[i].is_early && !q->server->revision) {
			request_fail(q, RPC_INVALID_REQUEST,
				     "a connection begins with initialize, or each request says "
				     "its revision in _meta");
			return;
		}
		methods[i].handle(q);
		return;
	}
	request_fail(q, RPC_NO_METHOD, "there is no such method");
}

static void do_notification(struct server *s, const struct rpc_message *m)
{
	const struct json_value *id = m->params ? json_get(m->params, "requestId") : NULL;
	char text[RPC_ID_MAX];

	/* The others need nothing to be done. */
	if (!strcmp(m->method, "notifications/cancelled") && rpc_id(id, text) == 0)
		call_cancel(s, text);
}

static int is_in_use(const struct server *s, const char *id)
{
	for (const struct call *call = s->calls; call; call = call->next)
		if (call->state != CALL_OVER && !strcmp(call->id, id))
			return 1;
	return 0;
}

static void do_message(struct server *s, struct line *line, struct batch *batch,
		       const struct json_value *value)
{
	struct rpc_message m;
	struct request q = { .server = s, .line = line, .batch = batch, .m = &m };

	rpc_classify(value, &m);
	if (m.kind == RPC_INVALID) {
		fail(s, batch, m.id, m.code, m.what, NULL);
	} else if (m.kind == RPC_REQUEST && is_in_use(s, m.id)) {
		/* With its id the answer would be taken for the first one's. */
		fail(s, batch, "null", RPC_INVALID_REQUEST,
		     "the id is that of a request that is not answered yet", NULL);
	} else if (m.kind == RPC_REQUEST) {
		do_request(&q);
	} else {
		if (m.kind == RPC_NOTIFICATION)
			do_notification(s, &m);
		answer_nothing(s, batch);
	}
}

static void do_batch(struct server *s, struct line *line, const struct json_value *array)
{
	struct batch *batch;
	const char *why = NULL;

	if (!s->revision || strcmp(s->revision, BATCH_REVISION) != 0)
		why = "batches are part of revision " BATCH_REVISION " only";
	else if (array->integer == 0)
		why = "a batch has at least one message";
	else if (array->integer > RPC_BATCH_MAX)
		why = "the batch has too many messages";
	if (why) {
		fail(s, NULL, "null", RPC_INVALID_REQUEST, why, NULL);
		return;
	}
	batch = calloc(1, sizeof(*batch));
	if (!batch) {
		fail(s, NULL, "null", RPC_INTERNAL_ERROR, "out of memory", NULL);
		return;
	}
	batch->out = (struct strbuf)STRBUF_INIT;
	batch->pending = 1 + (unsigned)array->integer;
	batch->next = s->batches;
	s->batches = batch;
	for (const struct json_value *v = array->first; v; v = v->next)
		do_message(s, line, batch, v);
	answer_nothing(s, batch);
}

static void line_put(struct line *line)
{
	if (--line->refs > 0)
		return;
	arena_done(&line->arena);
	free(line);
}

void methods_line(struct server *s, const char *text, size_t len)
{
	struct line *line = calloc(1, sizeof(*line));
	const struct json_value *root;
	struct rpc_message m;
	char what[256];

	if (!line) {
		fail(s, NULL, "null", RPC_INTERNAL_ERROR, "out of memory", NULL);
		return;
	}
	line->refs = 1;
	root = rpc_read(text, len, &line->arena, &m, what, sizeof(what));
	if (!root)
		fail(s, NULL, m.id, m.code, what, NULL);
	else if (root->type == JSON_ARRAY)
		do_batch(s, line, root);
	else
		do_message(s, line, NULL, root);
	line_put(line);
}

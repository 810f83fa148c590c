/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the MCP server reads: a client's line, and what the driver of an interpreter says. The first
 * byte chooses. Whatever was read is written again, and has to be JSON that can be read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd/cordon/mcp/channel.h"
#include "../cmd/cordon/mcp/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const struct strbuf *sb)
{
	const struct json_value *root;
	struct arena arena = ARENA_INIT;

	if (sb->failed || json_read(sb->data, sb->len, "answer", &arena, &root, NULL) < 0)
		abort();
	arena_done(&arena);
}

static void answer(const struct rpc_message *m)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (m->kind == RPC_INVALID) {
		rpc_error(&sb, m->id, m->code, m->what, NULL);
		check_json(&sb);
	} else if (m->kind == RPC_REQUEST) {
		rpc_open_result(&w, &sb, m->id);
		rpc_close_result(&w);
		check_json(&sb);
	}
	strbuf_done(&sb);
}

static void read_line(const char *text, size_t len)
{
	struct arena arena = ARENA_INIT;
	struct rpc_message m;
	const struct json_value *root;
	char what[256];

	root = rpc_read(text, len, &arena, &m, what, sizeof(what));
	if (!root) {
		answer(&m);
	} else {
		rpc_classify(root, &m);
		answer(&m);
		for (const struct json_value *v = root->type == JSON_ARRAY ? root->first : NULL; v;
		     v = v->next) {
			rpc_classify(v, &m);
			answer(&m);
		}
	}
	arena_done(&arena);
}

static void read_channel(const char *data, size_t len)
{
	struct channel_message m;
	size_t total = 0;
	const char *why;

	if (channel_parse(data, len, &m, &why) != 1)
		return;
	for (unsigned i = 0; i < m.n_parts; i++)
		total += m.sizes[i];
	if (total != m.data_len || m.head_len + m.data_len > len || m.n_mimes > CHANNEL_PARTS_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf sb = STRBUF_INIT, again = STRBUF_INIT;
	/* A copy of its own size, so that a step too far is seen. */
	char *copy = size > 1 ? malloc(size - 1) : NULL;

	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] == 'c')
		read_channel(copy, size - 1);
	else
		read_line(copy, size - 1);
	/* What was cleaned is clean. */
	rpc_clean(&sb, copy, size - 1);
	if (sb.data && rpc_clean(&again, sb.data, sb.len))
		abort();
	strbuf_done(&sb);
	strbuf_done(&again);
	free(copy);
	return 0;
}

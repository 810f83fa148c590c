/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's configuration, as `cordon mcp --wrap-config` reads it: TOML, or JSON with comments
 * (the first byte chooses). The places of values are those of the text: a string that is cut out
 * there and read alone says the same; blanking comments moves nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "../cmd/cordon/mcp/jsonc.h"
#include "../cmd/cordon/mcp/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_string(const char *text, const struct toml_value *v)
{
	struct arena arena = ARENA_INIT;
	struct strbuf sb = STRBUF_INIT;
	const struct json_value *root = NULL, *again;

	strbuf_puts(&sb, "x = ");
	strbuf_add(&sb, text + v->at, v->len);
	if (sb.failed || toml_read(sb.data, sb.len, "again", &arena, &root, NULL) < 0)
		abort();
	again = json_get(root, "x");
	if (!again || again->type != JSON_STRING || strcmp(again->text, v->v.text) != 0)
		abort();
	arena_done(&arena);
	strbuf_done(&sb);
}

/* Values nest no deeper than the reader lets them. */
static void check_values(const char *text, size_t len, const struct json_value *v, int *left)
{
	for (; v; v = v->next) {
		const struct toml_value *t = toml_of(v);

		if (t->at > len || t->len > len - t->at || t->key_at > len ||
		    t->prefix_len > len - t->key_at)
			abort();
		/* Two for each would take long in a large text. */
		if (v->type == JSON_STRING && (*left)-- > 0)
			check_string(text, t);
		if (t->len && v->type == JSON_ARRAY && text[t->at] != '[')
			abort();
		check_values(text, len, v->first, left);
	}
}

static void read_toml(const char *text, size_t len)
{
	struct arena arena = ARENA_INIT;
	const struct json_value *root = NULL;
	int left = 64;

	if (toml_read(text, len, "config", &arena, &root, NULL) == 0)
		check_values(text, len, root->first, &left);
	else if (root)
		abort();
	arena_done(&arena);
}

static void read_json(const char *text, size_t len)
{
	struct arena arena = ARENA_INIT;
	struct strbuf sb = STRBUF_INIT;
	const struct json_value *root = NULL;

	strbuf_add(&sb, text, len);
	strbuf_puts(&sb, "");
	if (!sb.failed && jsonc_blank(&sb, "config", NULL) == 0) {
		if (sb.len != len)
			abort();
		for (size_t i = 0; i < len; i++)
			if (sb.data[i] != text[i] && (sb.data[i] != ' ' || text[i] == '\n'))
				abort();
		if (json_read(sb.data, sb.len, "config", &arena, &root, NULL) == 0 && !root)
			abort();
	}
	arena_done(&arena);
	strbuf_done(&sb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of its own size, so that a step too far is seen. */
	char *copy = size > 1 ? malloc(size - 1) : NULL;

	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] == 't')
		read_toml(copy, size - 1);
	else
		read_json(copy, size - 1);
	free(copy);
	return 0;
}

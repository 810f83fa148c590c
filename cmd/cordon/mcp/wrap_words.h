/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MCP_WRAP_WORDS_H
#define MCP_WRAP_WORDS_H

#include "base/json_read.h"
#include "base/strbuf.h"
#include "config.h"

/* One word, as JSON. */
void wrap_word(struct strbuf *sb, const char *word);

/* Whether it names a place of which each server has its own part. */
int wrap_is_own(const char *word);

/* What a client gives to a server's process: variables of its own (an object), and names that it
 * passes on (a list). NULL = none. */
struct wrap_env {
	const struct json_value *own, *passed;
};

/* The name in an entry of such a list, or NULL. */
const char *wrap_variable(const struct json_value *entry);

/* "mcp", "--wrap", options, "-e", "NAME", ..., "--". @owner: the key of the object that has the
 * map of servers, NULL if that is the whole file. */
void wrap_words(struct strbuf *sb, const struct words *words, const char *owner,
		const struct json_value *server, const struct wrap_env *env);

#endif

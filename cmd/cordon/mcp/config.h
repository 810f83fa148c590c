/* SPDX-License-Identifier: Apache-2.0 */
/* What this verb does besides serving. */
#ifndef MCP_CONFIG_H
#define MCP_CONFIG_H

#include <cordon/error.h>

#include "base/arena.h"
#include "options.h"

struct words {
	struct arena arena;
	const char *program; /* our own file */
	struct strlist list; /* options, with absolute paths */
};

int words_make(struct words *w, const struct parsed *args, struct cordon_error *err);

/* They return an exit status. */
int mcp_print_config(const struct parsed *args);
int mcp_wrap_config(const struct parsed *args);
int mcp_selftest(const struct parsed *args);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The text below TOML's grammar: blanks, comments and strings. */
#ifndef MCP_TOML_TEXT_H
#define MCP_TOML_TEXT_H

#include <stddef.h>

#include <cordon/error.h>

#include "base/arena.h"
#include "base/macros.h"

struct toml_reader {
	const char *text, *pos, *end;
	const char *name; /* of the file, for messages */
	struct arena *arena;
	struct cordon_error *err;
	size_t n_values;
	int depth;
};

/* Says what is wrong where the reader is. Returns -1. */
int toml_fail(struct toml_reader *rd, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The characters of the whole text; a mark of UTF-8 at the beginning is skipped. 0 or -1. */
int toml_check(struct toml_reader *rd);

/* Is @what here? toml_take() also steps behind it. */
int toml_at(const struct toml_reader *rd, const char *what);
int toml_take(struct toml_reader *rd, const char *what);

void toml_skip_blanks(struct toml_reader *rd);
/* Blanks, comments and ends of lines. */
void toml_skip_lines(struct toml_reader *rd);
/* Nothing but a comment may follow. 0 or -1. */
int toml_end_line(struct toml_reader *rd);

/* The string of one of the four kinds that begins here, or NULL. */
const char *toml_string(struct toml_reader *rd);

#endif

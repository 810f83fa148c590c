/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference between two texts, line by line.
 *
 * Both texts may be made to take long, so time and memory are bounded: a stretch that costs too
 * much to compare is given as replaced altogether. That describes the same change at greater
 * length, never wrongly.
 */
#ifndef BASE_TEXTDIFF_H
#define BASE_TEXTDIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define TEXTDIFF_LINES_MAX (2u << 20)
#define TEXTDIFF_BYTES_MAX (64u << 20)

/* Line i is data[start[i]] to data[start[i + 1]], with its newline; only the last may have none. */
struct textdiff_side {
	const char *data;
	uint32_t *start;
	uint32_t n;
};

/* Lines a to a + na of the old text became lines b to b + nb of the new one. */
struct textdiff_edit {
	uint32_t a, na, b, nb;
};

struct textdiff {
	struct textdiff_side old_side, new_side;
	struct textdiff_edit *edits; /* ordered, with at least one equal line between two */
	size_t n;
	bool is_rough; /* something was too costly, and is given as replaced */
};

/* Compares; the texts must stay while the result is used. 0, -ENOMEM, or -E2BIG if a text has more
 * lines or bytes than the bounds above. @budget: steps to spend, 0 = the usual amount. */
int textdiff_make(const char *old_text, size_t old_len, const char *new_text, size_t new_len,
		  uint64_t budget, struct textdiff *ret);
void textdiff_done(struct textdiff *diff);

/* The hunks of a unified diff ("@@ -1,3 +1,4 @@" ...), with @context lines around each change. */
void textdiff_unified(const struct textdiff *diff, uint32_t context, struct strbuf *sb);

#endif

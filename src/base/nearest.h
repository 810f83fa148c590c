/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean": the candidate that a mistyped word most likely stands for.
 *
 *	nearest_init(&n, word);
 *	for (...)
 *		nearest_offer(&n, candidate);
 *	if (n.best) ...
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_LEN_MAX 64 /* longer words and candidates get no suggestion */

struct nearest {
	const char *word;
	const char *best;  /* NULL while nothing is near enough; borrowed from the candidate */
	unsigned distance; /* of best; a later candidate must be nearer */
};

void nearest_init(struct nearest *n, const char *word);
void nearest_offer(struct nearest *n, const char *candidate);

/* The whole search over a list; NULL if nothing is near enough. */
const char *nearest_in_list(const char *word, const char *const *list, size_t count);

/* Edits (insert, delete, replace, swap neighbours; case does not count) from @a to @b, or
 * @limit + 1 if there are more than @limit. */
unsigned nearest_distance(const char *a, const char *b, unsigned limit);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

#include <string.h>

#include "base/ascii.h"

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	if (b < a)
		a = b;
	return c < a ? c : a;
}

unsigned nearest_distance(const char *a, const char *b, unsigned limit)
{
	unsigned rows[3][NEAREST_LEN_MAX + 1];
	unsigned *before = rows[0], *last = rows[1], *now = rows[2], *spare;
	size_t a_len = strlen(a), b_len = strlen(b), i, j;

	if (a_len > NEAREST_LEN_MAX || b_len > NEAREST_LEN_MAX)
		return limit + 1;
	for (j = 0; j <= b_len; j++)
		last[j] = (unsigned)j;
	for (i = 1; i <= a_len; i++) {
		unsigned best = now[0] = (unsigned)i;

		for (j = 1; j <= b_len; j++) {
			unsigned same = ascii_lower(a[i - 1]) == ascii_lower(b[j - 1]);

			now[j] = min3(now[j - 1] + 1, last[j] + 1, last[j - 1] + !same);
			if (i > 1 && j > 1 && ascii_lower(a[i - 1]) == ascii_lower(b[j - 2]) &&
			    ascii_lower(a[i - 2]) == ascii_lower(b[j - 1]) &&
			    before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
			if (now[j] < best)
				best = now[j];
		}
		/* A swap reaches two rows back, but never below what the last row had. */
		if (best > limit + 1)
			return limit + 1;
		spare = before;
		before = last;
		last = now;
		now = spare;
	}
	return last[b_len] > limit ? limit + 1 : last[b_len];
}

/* A third of the letters may be wrong, so that no word becomes an entirely different one. */
static unsigned tolerance(size_t len)
{
	if (len <= 2)
		return 1;
	return len / 3 < 3 ? (unsigned)(len / 3) : 3;
}

void nearest_init(struct nearest *n, const char *word)
{
	n->word = word;
	n->best = NULL;
	n->distance = tolerance(strlen(word)) + 1;
}

/* The last part of a dotted key written alone ("read"), or a word not written to its end ("time").
 */
static int is_part_of(const char *word, const char *candidate)
{
	const char *dot = strrchr(candidate, '.');
	size_t len = strlen(word);

	if (dot && strcmp(dot + 1, word) == 0)
		return 1;
	return len >= 3 && strncmp(candidate, word, len) == 0;
}

static int lacks_end(const char *word, const char *candidate)
{
	size_t len = strlen(word);

	return len >= 3 && strncmp(candidate, word, len) == 0 && candidate[len] &&
	       !candidate[len + 1];
}

void nearest_offer(struct nearest *n, const char *candidate)
{
	unsigned distance;

	if (n->distance == 0 || !*n->word)
		return;
	distance = nearest_distance(n->word, candidate, n->distance - 1);
	if (distance > 1 && is_part_of(n->word, candidate))
		distance = 1;
	/* Of two at one letter's distance it is the one that lacks only its end: --cpu is --cpus
	 * and not
	 * --gpu. "x" is no misspelling of "y": something of the word must remain. */
	if ((distance < n->distance && distance < strlen(candidate)) ||
	    (n->best && n->distance == 1 && lacks_end(n->word, candidate) &&
	     !lacks_end(n->word, n->best))) {
		n->best = candidate;
		n->distance = distance;
	}
}

const char *nearest_in_list(const char *word, const char *const *list, size_t count)
{
	struct nearest n;
	size_t i;

	nearest_init(&n, word);
	for (i = 0; i < count; i++)
		nearest_offer(&n, list[i]);
	return n.best;
}

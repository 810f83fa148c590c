/* SPDX-License-Identifier: Apache-2.0 */
/* A bump allocator: everything that belongs to one policy or one plan is freed at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/macros.h"

struct arena_block;

struct arena {
	struct arena_block *blocks;
};

#define ARENA_INIT { NULL }

void arena_done(struct arena *arena);

/* Zeroed, aligned for any type; NULL when memory is out. */
void *arena_alloc(struct arena *arena, size_t size) CHECK_RESULT;
char *arena_strdup(struct arena *arena, const char *s) CHECK_RESULT;
char *arena_strndup(struct arena *arena, const char *s, size_t len) CHECK_RESULT;
char *arena_printf(struct arena *arena, const char *fmt, ...) CHECK_RESULT PRINTF_LIKE(2, 3);

/* Room for one more in an array of the arena (@array: address of the pointer to it), counted in *n;
 * the address of the new, zeroed element, or NULL when memory is out. */
void *arena_add(struct arena *arena, void *array, size_t *n, size_t *cap, size_t size) CHECK_RESULT;

/* A list of strings in an arena. */
struct strlist {
	const char **v;
	size_t n, cap;
};

/* Appends (does not copy @s). 0 or -1 when memory is out. */
int strlist_add(struct arena *arena, struct strlist *list, const char *s) CHECK_RESULT;
int strlist_has(const struct strlist *list, const char *s);

#endif

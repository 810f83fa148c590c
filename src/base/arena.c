/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_MIN 4000 /* with malloc's header still under a page */
#define BLOCK_MAX ((size_t)64 << 10)
#define LIST_MIN 8

struct arena_block {
	struct arena_block *next;
	size_t size, used;
	_Alignas(max_align_t) unsigned char data[];
};

void arena_done(struct arena *arena)
{
	struct arena_block *block = arena->blocks;

	while (block) {
		struct arena_block *next = block->next;

		free(block);
		block = next;
	}
	arena->blocks = NULL;
}

static struct arena_block *add_block(struct arena *arena, size_t need)
{
	struct arena_block *block, *head = arena->blocks;
	size_t size = head ? head->size * 2 : BLOCK_MIN - sizeof(*block);

	if (size > BLOCK_MAX)
		size = BLOCK_MAX;
	if (size < need)
		size = need;
	block = calloc(1, sizeof(*block) + size);
	if (!block)
		return NULL;
	block->size = size;
	block->next = head;
	arena->blocks = block;
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	struct arena_block *block = arena->blocks;
	void *p;

	if (size > SIZE_MAX / 4)
		return NULL;
	size = (size + align - 1) & ~(align - 1);
	if (!block || block->size - block->used < size) {
		block = add_block(arena, size);
		if (!block)
			return NULL;
	}
	p = block->data + block->used;
	block->used += size;
	return p;
}

char *arena_strndup(struct arena *arena, const char *s, size_t len)
{
	char *copy;

	if (len == SIZE_MAX)
		return NULL;
	copy = arena_alloc(arena, len + 1);
	if (copy)
		memcpy(copy, s, len);
	return copy;
}

char *arena_strdup(struct arena *arena, const char *s)
{
	return arena_strndup(arena, s, strlen(s));
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
	va_list ap, again;
	char *text = NULL;
	int len;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	if (len >= 0)
		text = arena_alloc(arena, (size_t)len + 1);
	if (text)
		vsnprintf(text, (size_t)len + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return text;
}

void *arena_add(struct arena *arena, void *array, size_t *n, size_t *cap, size_t size)
{
	void *v;

	/* By memcpy: the pointer's own type is not known here. */
	memcpy(&v, array, sizeof(v));
	if (*n == *cap) {
		size_t want = *cap ? *cap * 2 : LIST_MIN;
		void *bigger = want > SIZE_MAX / size ? NULL : arena_alloc(arena, want * size);

		if (!bigger)
			return NULL;
		if (*n > 0)
			memcpy(bigger, v, *n * size);
		v = bigger;
		memcpy(array, &v, sizeof(v));
		*cap = want;
	}
	return (char *)v + (*n)++ * size;
}

int strlist_add(struct arena *arena, struct strlist *list, const char *s)
{
	const char **slot = arena_add(arena, &list->v, &list->n, &list->cap, sizeof(*slot));

	if (!slot)
		return -1;
	*slot = s;
	return 0;
}

int strlist_has(const struct strlist *list, const char *s)
{
	size_t i;

	for (i = 0; i < list->n; i++)
		if (strcmp(list->v[i], s) == 0)
			return 1;
	return 0;
}

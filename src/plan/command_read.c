/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/command_read.h"

#define ALIGN_OFFSETS 4u

/* The last byte of the block is NUL (checked first): a string that starts inside ends inside. */
static int is_string(const struct command_header *h, uint32_t off)
{
	return off >= h->strings_off && off < h->size;
}

static int is_list(const struct command_header *h, uint32_t off, uint32_t n)
{
	const uint32_t *v = (const void *)((const char *)h + off);
	uint64_t end = (uint64_t)off + (uint64_t)n * sizeof(uint32_t);

	if (n > COMMAND_STRINGS_MAX || off % ALIGN_OFFSETS || off < sizeof(*h) ||
	    end > h->strings_off)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (!is_string(h, v[i]))
			return 0;
	return 1;
}

int command_read_check(const void *block, size_t size)
{
	const struct command_header *h = block;

	if (size < sizeof(*h) || size > COMMAND_SIZE_MAX || (uintptr_t)block % ALIGN_OFFSETS)
		return -1;
	if (h->magic != COMMAND_MAGIC || h->version != COMMAND_VERSION || h->size != size)
		return -1;
	if (h->strings_off < sizeof(*h) || h->strings_off >= h->size ||
	    ((const char *)block)[size - 1] != 0)
		return -1;
	if (h->n_argv == 0 || h->n_paths == 0 ||
	    (uint64_t)h->n_argv + h->n_envp + h->n_paths > COMMAND_STRINGS_MAX)
		return -1;
	if (!is_list(h, h->argv_off, h->n_argv) || !is_list(h, h->envp_off, h->n_envp) ||
	    !is_list(h, h->paths_off, h->n_paths))
		return -1;
	return h->cwd == 0 || is_string(h, h->cwd) ? 0 : -1;
}

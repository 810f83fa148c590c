/* SPDX-License-Identifier: Apache-2.0 */
/* git_config_orders() over any bytes. */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "git/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int see(void *ctx, enum git_order what, const char *value)
{
	size_t *left = ctx;

	/* At most one order for each two bytes, and only values that fit into a path. */
	if (strlen(value) >= PATH_MAX || (*left)-- == 0)
		abort();
	if (what != GIT_ORDER_WORKTREE && !*value)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Nothing readable behind the end. */
	char *copy = malloc(size ? size : 1);
	size_t left = size / 2;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	git_config_orders(copy, size, see, &left);
	free(copy);
	return 0;
}

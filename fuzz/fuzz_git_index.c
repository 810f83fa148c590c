/* SPDX-License-Identifier: Apache-2.0 */
/* git_index_read() over any bytes, as SHA-1 and as SHA-256 repositories have them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "git/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int see(void *ctx, uint32_t mode, const char *path, size_t len)
{
	size_t *entries = ctx;

	/* Promised to be one string of this length. */
	if (strlen(path) != len || len >= GIT_INDEX_PATH_MAX)
		abort();
	if (git_index_path_is_clean(path, len) && (path[0] == '/' || len == 0))
		abort();
	*entries += mode != 0;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Nothing readable behind the end. */
	uint8_t *copy = malloc(size ? size : 1);
	struct git_index_info info;
	size_t entries = 0;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	git_index_read(copy, size, 20, see, &entries, &info);
	git_index_read(copy, size, 32, see, &entries, &info);
	free(copy);
	return 0;
}

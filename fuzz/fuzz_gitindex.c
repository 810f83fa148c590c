/* SPDX-License-Identifier: Apache-2.0 */
/* gitindex_read() over any bytes, as SHA-1 and as SHA-256 repositories have them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launch/gitindex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int see(void *ctx, uint32_t mode, const char *path, size_t len)
{
	size_t *entries = ctx;

	/* Promised to be one string of this length. */
	if (strlen(path) != len || len >= GITINDEX_PATH_MAX)
		abort();
	if (gitindex_path_is_clean(path, len) && (path[0] == '/' || len == 0))
		abort();
	*entries += mode != 0;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Nothing readable behind the end. */
	uint8_t *copy = malloc(size ? size : 1);
	struct gitindex_info info;
	size_t entries = 0;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	gitindex_read(copy, size, 20, see, &entries, &info);
	gitindex_read(copy, size, 32, see, &entries, &info);
	free(copy);
	return 0;
}

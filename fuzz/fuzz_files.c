/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's view of its standard input: heads, paths and data of requests out of any bytes. What
 * is accepted fits into its buffers and is a string.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Part of the freestanding init, in no library. */
#include "init/files/parse.c" /* NOLINT(bugprone-suspicious-include) */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As server.c takes it: a path that is not there as a whole is the end. */
static int take_path(const uint8_t **data, size_t *left, uint32_t len)
{
	/* An exact allocation, so that the address sanitizer sees one byte too many. */
	char *path = malloc((size_t)len + 1);
	int r;

	if (!path)
		abort();
	if (len > *left) {
		free(path);
		return -1;
	}
	memcpy(path, *data, len);
	*data += len;
	*left -= len;
	r = serve_check_path(path, len);
	if (r == 0 && strlen(path) != len)
		abort();
	if (r != 0 && !memchr(path, 0, len))
		abort();
	free(path);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cordon_files_request request;

	while (size >= sizeof(request)) {
		memcpy(&request, data, sizeof(request));
		data += sizeof(request);
		size -= sizeof(request);
		if (serve_check_request(&request) < 0)
			return 0;
		if (request.path_len >= SERVE_PATH_BYTES || request.path2_len >= SERVE_PATH_BYTES ||
		    request.op >= CORDON_FILES_OP_MAX)
			abort();
		if (take_path(&data, &size, request.path_len) < 0 ||
		    take_path(&data, &size, request.path2_len) < 0 || request.data_len > size)
			return 0;
		data += request.data_len;
		size -= request.data_len;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* SOCKS5, taken as a greeting and as a request; however the bytes are cut, the answer is the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/socks.h"

#define INPUT_MAX 600 /* no greeting or request is longer */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct http_host *host)
{
	char text[NET_NAME_MAX + 1];
	struct net_addr addr;

	if (host->port == 0)
		abort();
	if (host->is_addr)
		return;
	/* Canonical, and nothing that is an address in truth. */
	if (net_name_parse(host->name, strlen(host->name), text) < 0 ||
	    strcmp(host->name, text) != 0 ||
	    net_addr_parse(host->name, strlen(host->name), &addr) == 0)
		abort();
}

static enum socks_result read_one(int is_request, const uint8_t *data, size_t size, size_t *used)
{
	/* Nothing readable behind the end. */
	uint8_t *copy = malloc(size ? size : 1);
	struct http_host host;
	enum socks_result r;

	if (!copy)
		abort();
	memcpy(copy, data, size);
	*used = 0;
	if (is_request)
		r = socks_read_request(copy, size, used, &host);
	else
		r = socks_read_greeting(copy, size, used);
	if (r == SOCKS_OK && is_request)
		check_host(&host);
	if (*used > size || (r == SOCKS_OK && *used == 0))
		abort();
	free(copy);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_MAX)
		size = INPUT_MAX;
	for (int is_request = 0; is_request < 2; is_request++) {
		size_t used, part_used;
		enum socks_result r = read_one(is_request, data, size, &used);

		for (size_t n = 0; n < size; n++) {
			enum socks_result part = read_one(is_request, data, n, &part_used);

			if (part != SOCKS_MORE && (part != r || part_used != used))
				abort();
		}
	}
	return 0;
}

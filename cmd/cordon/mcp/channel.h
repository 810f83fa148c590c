/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an interpreter's driver says, over the channel: "TOKEN JSON\n" and the parts whose sizes the
 * JSON has (bindings/python/pycordon/_channel.py). The driver shares its process with the code, so
 * this is the guest's: what does not fit ends the interpreter.
 */
#ifndef MCP_CHANNEL_H
#define MCP_CHANNEL_H

#include <stddef.h>

#include "base/strbuf.h"

#define CHANNEL_HEAD_MAX 65536
#define CHANNEL_PARTS_MAX 64
#define CHANNEL_TOKEN_MAX 40
#define CHANNEL_MIME_MAX 64
#define CHANNEL_DATA_MAX ((size_t)4 << 20) /* bytes of a message's parts together */

enum channel_type {
	CHANNEL_HELLO = 0,
	CHANNEL_DISPLAY,
	CHANNEL_END,
	CHANNEL_VALUE,
	CHANNEL_REFUSED,
	CHANNEL_TYPE_MAX
};

struct channel_message {
	enum channel_type type;
	char token[CHANNEL_TOKEN_MAX];
	unsigned n_parts, n_mimes;
	size_t sizes[CHANNEL_PARTS_MAX];
	char mimes[CHANNEL_PARTS_MAX][CHANNEL_MIME_MAX];
	long long count, signals, status; /* -1 = not said */
	int is_error, is_interrupt, exited;
	size_t head_len; /* with its newline; the parts follow */
	size_t data_len; /* of all parts */
};

/* Looks at what has come: 1 = a message is whole, 0 = there is more to come, -1 = it breaks the
 * rules, and *ret_why says how. */
int channel_parse(const char *data, size_t len, struct channel_message *ret, const char **ret_why);

#endif

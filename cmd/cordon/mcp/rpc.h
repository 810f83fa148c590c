/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC 2.0: one line of a client is read into messages.
 *
 * Strict, since what is taken one way here must not be taken another way elsewhere: what
 * base/json_read.h refuses is refused. A message that is refused gets an answer with its id where
 * that can be told, so that its sender does not wait for ever.
 */
#ifndef MCP_RPC_H
#define MCP_RPC_H

#include "base/json_read.h"
#include "base/json_write.h"

#define RPC_LINE_MAX ((size_t)16 << 20) /* bytes of a message */
#define RPC_VALUES_MAX 65536		/* values in it: each costs some memory */
#define RPC_ID_MAX 512			/* bytes of an id as JSON */
#define RPC_BATCH_MAX 64

#define RPC_PARSE_ERROR (-32700)
#define RPC_INVALID_REQUEST (-32600)
#define RPC_NO_METHOD (-32601)
#define RPC_INVALID_PARAMS (-32602)
#define RPC_INTERNAL_ERROR (-32603)

enum rpc_kind {
	RPC_REQUEST = 0,
	RPC_NOTIFICATION,
	RPC_RESPONSE, /* to nothing: the server never asks */
	RPC_INVALID
};

struct rpc_message {
	enum rpc_kind kind;
	char id[RPC_ID_MAX]; /* as JSON; "null" = it has none */
	const char *method;
	const struct json_value *params; /* an object, or NULL */
	int code;			 /* RPC_INVALID: what to answer ... */
	const char *what;		 /* ... in words */
};

/*
 * Reads a line. Returns its value, or NULL: then ret->code, ret->id and @what (@size bytes) say
 * what to answer. All memory is the arena's.
 */
const struct json_value *rpc_read(const char *text, size_t len, struct arena *arena,
				  struct rpc_message *ret, char *what, size_t size);

/* What @value, a line or an item of a batch, is. */
void rpc_classify(const struct json_value *value, struct rpc_message *ret);

/* An id, or a progress token, as JSON into @ret: 0, or -1 if @value is no string and no integer. */
int rpc_id(const struct json_value *value, char ret[RPC_ID_MAX]);

/* {"jsonrpc":"2.0","id":ID, and the opened or whole rest. */
void rpc_open_result(struct json_writer *w, struct strbuf *sb, const char *id);
void rpc_close_result(struct json_writer *w);
/* @data: JSON, or NULL. */
void rpc_error(struct strbuf *sb, const char *id, int code, const char *message, const char *data);

/* Adds @data as UTF-8; what is none becomes U+FFFD. Returns 1 if that happened. */
int rpc_clean(struct strbuf *sb, const char *data, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading TOML, as Codex has its configuration in, into the tree that JSON is read into, with the
 * places of everything in the text. A document that two readers could take for different things is
 * an error; one that breaks a rule without being ambiguous (a table that is begun twice) is not,
 * since the client refuses it anyway.
 */
#ifndef MCP_TOML_H
#define MCP_TOML_H

#include "base/json_read.h"

#define TOML_VALUES_MAX 8192
#define TOML_DEPTH_MAX 32 /* of values in each other, and parts of a key */

/* Lines and columns of the values are not set; dates and numbers are JSON_NUMBER. */
struct toml_value {
	struct json_value v;	 /* first: a pointer to it is one to all of this */
	size_t at, len;		 /* of the value as it is written; of a table of its own 0 */
	size_t key_at;		 /* where its key begins */
	size_t prefix_len;	 /* of that what comes before the key's last part */
	int is_inline;		 /* it is in a table that is written as a value */
	int is_closed;		 /* nothing may be added to it */
	struct toml_value *last; /* of a table or array */
};

/* As json_read(); the messages are "NAME:LINE: what is wrong". */
int toml_read(const char *text, size_t len, const char *name, struct arena *arena,
	      const struct json_value **ret, struct cordon_error *err) CHECK_RESULT;

/* Of a value that toml_read() has made. */
const struct toml_value *toml_of(const struct json_value *v);

#endif

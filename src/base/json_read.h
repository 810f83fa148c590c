/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON into a tree that lives in an arena.
 *
 * Strict (RFC 8259) and stricter where a document could mean two things: no duplicate keys, no NUL
 * characters, no unpaired surrogates, no byte order mark, nothing after the value, and no more than
 * JSON_READ_DEPTH_MAX levels. Independent of the locale; time is at most n log n in the length.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>

#include "base/arena.h"
#include "base/macros.h"

#define JSON_READ_DEPTH_MAX 32
#define JSON_READ_BYTES_MAX ((size_t)16 << 20) /* callers usually set a smaller one */

enum json_type {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_INTEGER, /* no point, no exponent, fits into 64 bits */
	JSON_NUMBER,  /* any other; only as text */
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
	JSON_MAX
};

struct json_value {
	enum json_type type;
	unsigned line, column; /* of its first character, both from 1; columns are characters */
	unsigned key_line, key_column;
	const char *key;	  /* in an object, else NULL */
	struct json_value *next;  /* the next one in the same array or object */
	struct json_value *first; /* of an array or object */
	const char *text;	  /* of a string; of a number as it was written */
	int64_t integer;	  /* of a JSON_INTEGER; of an array or object: its length */
};

/*
 * Reads @text, which need not end in NUL and is not needed afterwards. All memory belongs to
 * @arena, on failure too. Messages are "NAME:LINE:COLUMN: what is wrong", with the code
 * CORDON_E_POLICY.
 */
int json_read(const char *text, size_t len, const char *name, struct arena *arena,
	      const struct json_value **ret, struct cordon_error *err) CHECK_RESULT;

/* The member of an object, or NULL. */
const struct json_value *json_get(const struct json_value *object, const char *key);

#endif

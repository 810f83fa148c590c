/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON into a strbuf: commas and nesting are kept by the writer.
 *
 * Bytes that are not valid UTF-8 are carried losslessly: each such byte 0xNN becomes the lone
 * surrogate U+DCNN written as the escape \udcNN (Python's "surrogateescape").
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define JSON_DEPTH_MAX 16

struct json_value;

struct json_writer {
	struct strbuf *out;
	int depth;
	int pretty; /* indent with two spaces */
	unsigned char has_items[JSON_DEPTH_MAX + 1];
};

void json_writer_init(struct json_writer *w, struct strbuf *out, int pretty);
/* @key is NULL inside arrays and at the top. */
void json_open_object(struct json_writer *w, const char *key);
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w, const char *key);
void json_close_array(struct json_writer *w);
void json_string(struct json_writer *w, const char *key, const char *value); /* NULL -> null */
void json_bytes(struct json_writer *w, const char *key, const void *data, size_t len);
void json_int(struct json_writer *w, const char *key, int64_t value);
void json_uint(struct json_writer *w, const char *key, uint64_t value);
void json_raw(struct json_writer *w, const char *key, const char *number); /* as it is written */
void json_ms(struct json_writer *w, const char *key, double value);	   /* three decimals */
void json_bool(struct json_writer *w, const char *key, int value);
void json_null(struct json_writer *w, const char *key);
/* What was read (base/json_read.h). */
void json_copy(struct json_writer *w, const char *key, const struct json_value *value);

#endif

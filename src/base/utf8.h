/* SPDX-License-Identifier: Apache-2.0 */
/* Strict UTF-8, and the rule for what may be shown to a person unchanged. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Length (1 to 4) of the well-formed sequence at the start of @s, and its code point; 0 if there is
 * none within @len bytes. Overlong forms, surrogates and values above U+10FFFF are not well-formed.
 */
size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp);

#define UTF8_MAX 4

/* The other way, for a code point that utf8_decode() could have given; returns the length. Writes
 * no more bytes than that, and no NUL. */
size_t utf8_encode(uint32_t cp, char ret[UTF8_MAX]);

/*
 * Code points that change how their surroundings look instead of showing something: C0, DEL, C1,
 * line separators, the characters that reorder text and those that cannot be seen.
 */
int utf8_is_control(uint32_t cp);

#define UTF8_ESCAPED_MAX 8

/*
 * Takes one character off the start of @s (@len > 0) and writes it to @ret in a form that is safe
 * on a terminal and in a single line: as it is, or as \xNN or \uNNNN. Returns the bytes taken;
 * *ret_len is the number of bytes written (no NUL).
 */
size_t utf8_escape(const char *s, size_t len, char ret[UTF8_ESCAPED_MAX], size_t *ret_len);

#endif

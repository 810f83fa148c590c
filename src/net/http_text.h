/* SPDX-License-Identifier: Apache-2.0 */
/* Characters, words and lines of HTTP/1, for its parsers and its writer. */
#ifndef NET_HTTP_TEXT_H
#define NET_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

/* tchar of RFC 9110, 5.6.2 */
bool http_is_token_char(char c);

/* Is the text @word, whatever the case? @word is lower case and ends with NUL. */
bool http_is_word(const char *text, size_t len, const char *word);
/* The same, with '_' equal to '-': a gateway to CGI would read it as that field. */
bool http_is_like_word(const char *text, size_t len, const char *word);
bool http_is_one_of(const char *text, size_t len, const char *const words[]);

/*
 * The next line from @pos, of at most @len bytes in all: *ret_len without its CRLF. A CR or LF that
 * is not part of a CRLF, and every other control character but the tab, is HTTP_BAD as soon as it
 * is seen, however long the line is.
 */
enum http_result http_read_line(const char *data, size_t len, size_t pos, size_t *ret_len,
				const char **ret_why);

/* "name: value" in the line of @len bytes at @pos of @data. HTTP_OK or HTTP_BAD. */
enum http_result http_read_field(const char *data, size_t pos, size_t len, struct http_span *name,
				 struct http_span *value, const char **ret_why);

/*
 * Cuts the next element out of a list of words with commas; *pos is where to go on, empty elements
 * are passed over. 1; 0 at the end; -1 if it is not a word.
 */
int http_next_word(const char *text, size_t len, size_t *pos, struct http_span *ret);

#endif

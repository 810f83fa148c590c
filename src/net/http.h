/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1 request heads, parsed strictly and written anew, so the server reads what was checked
 * here.
 *
 * Anything that two parsers could read in two ways is an error: a line that does not end in CRLF,
 * white space before a colon, folded lines, control characters, two Host or Content-Length lines,
 * Content-Length beside Transfer-Encoding, any transfer coding but "chunked", a version other than
 * 1.0 and 1.1 (and no Transfer-Encoding in 1.0), a Host that is not a host name or not the
 * target's. Bytes from 0x80 on are allowed in values only.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/name.h"

#define HTTP_HEAD_MAX (16 << 10)
#define HTTP_FIELDS_MAX 128
#define HTTP_CHUNK_LINE_MAX 256
#define HTTP_TRAILER_MAX (4 << 10)

enum http_result {
	HTTP_OK = 0,
	HTTP_MORE,     /* not complete yet */
	HTTP_BAD,      /* not a request, or one that can be read in two ways: 400 */
	HTTP_TOO_LONG, /* 431 */
};

enum http_form {
	HTTP_ORIGIN,	/* GET /path */
	HTTP_ABSOLUTE,	/* GET http://host[:port]/path, as to a proxy */
	HTTP_AUTHORITY, /* CONNECT host:port */
	HTTP_ASTERISK,	/* OPTIONS * */
};

enum http_body {
	HTTP_NO_BODY,
	HTTP_LENGTH,
	HTTP_CHUNKED
};

/* A host as it was written in a Host field or a request target. */
struct http_host {
	bool is_addr;
	struct net_addr addr;
	char name[NET_NAME_MAX + 1]; /* canonical, unless is_addr */
	uint16_t port;		     /* 0 = none was written */
};

struct http_span {
	uint16_t start, len; /* within the head */
};

struct http_head {
	size_t len; /* bytes of the whole head */
	enum http_form form;
	uint8_t minor; /* HTTP/1.x */
	/* The path with its query. It may be empty in absolute form or begin with the query: "/" is
	 * to be put in front then, as http_write_head() does. */
	struct http_span method, path;
	bool has_host;		 /* HTTP/1.0 may have none */
	struct http_host host;	 /* of the Host field */
	struct http_host target; /* absolute and authority form */
	enum http_body body;
	uint64_t body_len; /* HTTP_LENGTH */
	bool wants_close;  /* Connection: close, or HTTP/1.0 without keep-alive */
	size_t n_fields;
	struct {
		struct http_span name, value;
	} fields[HTTP_FIELDS_MAX];
	const char *why; /* HTTP_BAD: what is wrong, in a few words */
};

enum http_result http_read_head(const char *data, size_t len, struct http_head *ret);

/* "host", "host:port", "[v6]:port": a Host field or the authority of a CONNECT. 0 or -1. */
int http_read_host(const char *text, size_t len, struct http_host *ret);

/*
 * The head in origin form (or asterisk), one Host line (@host as it is to be written), framing
 * as it was understood, and every other field as it came but those that are for one hop only
 * (Connection and what it names, Keep-Alive, Proxy-*, TE, Trailer, Upgrade, HTTP2-Settings).
 * @close: with "Connection: close"; otherwise a request of HTTP/1.0 gets a "keep-alive". Returns
 * the length, 0 if @cap is too small or the form is CONNECT's; HTTP_HEAD_MAX + 512 is always
 * enough.
 */
size_t http_write_head(const struct http_head *head, const char *data, const char *host, bool close,
		       char *ret, size_t cap);

/* One "SIZE[;extension]CRLF" line of a chunked body: its bytes in *ret_used, the size in *ret_size.
 * Extensions are understood and dropped; sizes go up to 2^63 - 1. */
enum http_result http_read_chunk(const char *data, size_t len, size_t *ret_used,
				 uint64_t *ret_size);
/* The trailer section after the last chunk, up to and with the empty line; fields are checked and
 * are to be dropped. */
enum http_result http_read_trailer(const char *data, size_t len, size_t *ret_used);

#endif

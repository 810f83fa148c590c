/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads: what is understood, what is refused and for which reason, what is written. */
#include "net/http.h"
#include "tap.h"
#include "test_net_lib.h"

#define H "Host: a.example\r\n"

static struct http_head head; /* large */

static enum http_result read_part(const char *text, size_t len)
{
	char *copy = exact_copy(text, len);
	enum http_result r = http_read_head(copy, len, &head);

	free(copy);
	return r;
}

/* Every prefix says MORE until one says what all longer ones say; OK only at the head's end. */
static void check_head(const char *text, size_t len, enum http_result want, const char *why)
{
	bool is_decided = false;

	for (size_t n = 0; n <= len; n++) {
		enum http_result r = read_part(text, n);

		if (!is_decided && r == HTTP_MORE && n < len)
			continue;
		CHECK_MSG(r == want, "'%s': %d after %zu of %zu bytes, expected %d (%s)", text,
			  (int)r, n, len, (int)want, head.why ? head.why : "");
		if (r != want)
			return;
		if (r == HTTP_BAD)
			CHECK_STR(head.why, why);
		if (r == HTTP_OK && !is_decided)
			CHECK_INT(head.len, n);
		is_decided = true;
	}
}

static const char *span(const char *text, struct http_span at, char ret[256])
{
	snprintf(ret, 256, "%.*s", at.len, text + at.start);
	return ret;
}

static const char *host_text(const struct http_host *host, char ret[400])
{
	char addr[NET_ADDR_TEXT_MAX];

	snprintf(ret, 400, "%s:%d", host->is_addr ? net_addr_format(&host->addr, addr) : host->name,
		 host->port);
	return ret;
}

static void test_requests(void)
{
	static const struct {
		const char *text;
		enum http_form form;
		const char *method, *path, *host, *target;
		enum http_body body;
		uint64_t body_len;
		bool wants_close;
	} rows[] = {
		{ "GET / HTTP/1.1\r\n" H "\r\n", HTTP_ORIGIN, "GET", "/", "a.example:0", ":0" },
		{ "GET / HTTP/1.1\r\n" H "\r\nGET", HTTP_ORIGIN, "GET", "/", "a.example:0", ":0" },
		{ "POST /a?b=c&d=//e HTTP/1.1\r\nhost:A.Example.:8080\r\ncontent-length: "
		  "12\r\n\r\n",
		  HTTP_ORIGIN, "POST", "/a?b=c&d=//e", "a.example:8080", ":0", HTTP_LENGTH, 12 },
		{ "PUT //b HTTP/1.1\r\nHOST:\t a.example \t\r\nTransfer-Encoding: Chunked\r\n\r\n",
		  HTTP_ORIGIN, "PUT", "//b", "a.example:0", ":0", HTTP_CHUNKED },
		{ "GET / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", HTTP_ORIGIN, "GET", "/",
		  "a.example:0", ":0", HTTP_LENGTH, 0 },
		{ "M-SEARCH / HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\n",
		  HTTP_ORIGIN, "M-SEARCH", "/", "a.example:0", ":0", HTTP_LENGTH, INT64_MAX },
		{ "GET / HTTP/1.1\r\n" H "Connection: , Close\r\n\r\n", HTTP_ORIGIN, "GET", "/",
		  "a.example:0", ":0", .wants_close = true },
		{ "GET / HTTP/1.1\r\n" H "Connection: x\r\nConnection: close,x\r\n\r\n",
		  HTTP_ORIGIN, "GET", "/", "a.example:0", ":0", .wants_close = true },
		{ "GET / HTTP/1.0\r\n\r\n", HTTP_ORIGIN, "GET", "/", NULL, ":0",
		  .wants_close = true },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", HTTP_ORIGIN, "GET", "/", NULL,
		  ":0" },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", HTTP_ORIGIN, "GET",
		  "/", NULL, ":0", .wants_close = true },
		{ "GET / HTTP/1.1\r\nHost: 192.0.2.1:81\r\n\r\n", HTTP_ORIGIN, "GET", "/",
		  "192.0.2.1:81", ":0" },
		{ "GET / HTTP/1.1\r\nHost: [2001:DB8::1]:81\r\n\r\n", HTTP_ORIGIN, "GET", "/",
		  "2001:db8::1:81", ":0" },
		{ "GET / HTTP/1.1\r\nHost: [::ffff:192.0.2.1]\r\n\r\n", HTTP_ORIGIN, "GET", "/",
		  "192.0.2.1:0", ":0" },
		{ "GET HTTP://a.EXAMPLE/x?y HTTP/1.1\r\n" H "\r\n", HTTP_ABSOLUTE, "GET", "/x?y",
		  "a.example:0", "a.example:0" },
		{ "GET http://a.example:80 HTTP/1.1\r\n" H "\r\n", HTTP_ABSOLUTE, "GET", "",
		  "a.example:0", "a.example:80" },
		{ "GET http://a.example?q HTTP/1.1\r\n" H "\r\n", HTTP_ABSOLUTE, "GET", "?q",
		  "a.example:0", "a.example:0" },
		{ "GET http://a.example:81/ HTTP/1.0\r\n\r\n", HTTP_ABSOLUTE, "GET", "/", NULL,
		  "a.example:81", .wants_close = true },
		{ "OPTIONS * HTTP/1.1\r\n" H "\r\n", HTTP_ASTERISK, "OPTIONS", "*", "a.example:0",
		  ":0" },
		{ "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n\x16",
		  HTTP_AUTHORITY, "CONNECT", "", "a.example:443", "a.example:443" },
		{ "CONNECT a.example:443 HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n",
		  HTTP_AUTHORITY, "CONNECT", "", "a.example:0", "a.example:443", HTTP_LENGTH },
		{ "CONNECT [::1]:443 HTTP/1.0\r\n\r\n", HTTP_AUTHORITY, "CONNECT", "", NULL,
		  "::1:443", .wants_close = true },
		{ "GET / HTTP/1.1\r\n" H "X: \xc3\xbc\t\"\\\r\nY:\r\nZ: \t \r\n\r\n", HTTP_ORIGIN,
		  "GET", "/", "a.example:0", ":0" },
	};
	char buffer[400];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *text = rows[i].text;

		check_head(text, strlen(text), HTTP_OK, NULL);
		CHECK_INT(head.form, rows[i].form);
		CHECK_STR(span(text, head.method, buffer), rows[i].method);
		CHECK_STR(span(text, head.path, buffer), rows[i].path);
		CHECK_INT(head.has_host, rows[i].host != NULL);
		CHECK_STR(host_text(&head.host, buffer), rows[i].host ? rows[i].host : ":0");
		CHECK_STR(host_text(&head.target, buffer), rows[i].target);
		CHECK_INT(head.body, rows[i].body);
		CHECK_INT(head.body_len, rows[i].body_len);
		CHECK_INT(head.wants_close, rows[i].wants_close);
		CHECK(head.why == NULL);
	}
}

#define LINE "no request line"
#define VERSION "a version other than HTTP/1.0 and HTTP/1.1"
#define TARGET "a target that is neither a path nor http://"
#define TARGET_CHAR "a target with a character that is not allowed there"
#define TARGET_HOST "a target with no host name in it"
#define AUTHORITY "CONNECT to something that is not HOST:PORT"
#define OTHER "a Host field other than the target's"
#define FIELD "a line that is no header field"
#define FOLDED "a folded line"
#define CONTROL "a control character"
#define NO_CR "a line that ends without CR"
#define NO_LF "a CR without LF"
#define NO_HOST "no Host field"
#define BAD_HOST "a Host field with no host name in it"
#define TWO_HOSTS "two Host fields"
#define TWO_LENGTHS "two Content-Length fields"
#define NO_NUMBER "a Content-Length that is no number"
#define BOTH "both Content-Length and Transfer-Encoding"
#define CODING "a Transfer-Encoding other than chunked"
#define TWO_CODINGS "two Transfer-Encoding fields"
#define LIKE "a field that could be taken for the body's length"
#define NAMES "a Connection field that names an important one"
#define NO_LIST "a Connection field that is no list of words"
#define CL "Content-Length: 5\r\n"
#define TE "Transfer-Encoding: chunked\r\n"
#define GET "GET / HTTP/1.1\r\n"

struct bad_row {
	const char *text; /* goes on with an empty line */
	const char *why;
};

static void check_bad(const struct bad_row *rows, size_t n)
{
	char text[1024];

	for (size_t i = 0; i < n; i++) {
		int len = snprintf(text, sizeof(text), "%s\r\n\r\n", rows[i].text);

		check_head(text, (size_t)len, HTTP_BAD, rows[i].why);
	}
}
#define CHECK_BAD(rows) check_bad((rows), sizeof(rows) / sizeof((rows)[0]))

static void test_bad_request_lines(void)
{
	static const struct bad_row rows[] = {
		{ "", LINE },
		{ "\r\n" GET H, LINE },
		{ " GET / HTTP/1.1\r\n" H, LINE },
		{ "GET", LINE },
		{ "GET /", LINE },
		{ "GET /\r\n" H, LINE }, /* HTTP/0.9 */
		{ "G@T / HTTP/1.1\r\n" H, LINE },
		{ "GET\t/ HTTP/1.1\r\n" H, LINE },
		{ "GET  HTTP/1.1\r\n" H, LINE },
		{ "SSH-2.0-OpenSSH_9.2p1 Debian-2", LINE },
		{ "GET  / HTTP/1.1\r\n" H, TARGET_CHAR },
		{ "GET /  HTTP/1.1\r\n" H, TARGET_CHAR },
		{ "GET / x HTTP/1.1\r\n" H, TARGET_CHAR },
		{ "GET /\tHTTP/1.1\r\n" H, VERSION },
		{ "GET / HTTP/1.1 \r\n" H, VERSION },
		{ "GET / HTTP/1.2\r\n" H, VERSION },
		{ "GET / HTTP/2.0\r\n" H, VERSION },
		{ "GET / HTTP/1.10\r\n" H, VERSION },
		{ "GET / HTTP/01.1\r\n" H, VERSION },
		{ "GET / http/1.1\r\n" H, VERSION },
		{ "GET / HTTP/1,1\r\n" H, VERSION },
		{ "PRI * HTTP/2.0", VERSION },
		{ "GET /#x HTTP/1.1\r\n" H, TARGET_CHAR },
		{ "GET /\xc3\xbc HTTP/1.1\r\n" H, TARGET_CHAR },
		{ "GET /\x01 HTTP/1.1\r\n" H, CONTROL },
		{ "GET /\x7f HTTP/1.1\r\n" H, CONTROL },
		{ "\x16\x03\x01", CONTROL },
		{ "GET x HTTP/1.1\r\n" H, TARGET },
		{ "GET ?x HTTP/1.1\r\n" H, TARGET },
		{ "GET * HTTP/1.1\r\n" H, "a target * with another method than OPTIONS" },
		{ "options * HTTP/1.1\r\n" H, "a target * with another method than OPTIONS" },
		{ "OPTIONS ** HTTP/1.1\r\n" H, TARGET },
		{ "GET https://a.example/ HTTP/1.1\r\n" H, TARGET },
		{ "GET ftp://a.example/ HTTP/1.1\r\n" H, TARGET },
		{ "GET http:/a.example/ HTTP/1.1\r\n" H, TARGET },
		{ "GET http:///a.example/ HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http:// HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http://a@a.example/ HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http://a:b@a.example/ HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http://a.example\\@b/ HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http://a.example:/ HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http://a.example%2eb/ HTTP/1.1\r\n" H, TARGET_HOST },
		{ "GET http://a.example#@b/ HTTP/1.1\r\n" H, TARGET_CHAR },
		{ "GET http://b.example/ HTTP/1.1\r\n" H, OTHER },
		{ "GET http://a.example:81/ HTTP/1.1\r\n" H, OTHER },
		{ "GET http://a.example/ HTTP/1.1\r\nHost: a.example:81", OTHER },
		{ "GET http://b.example/ HTTP/1.0\r\n" H, OTHER },
		{ "GET http://1.2.3.4/ HTTP/1.1\r\nHost: 1.2.3.5", OTHER },
		{ "GET http://a.example/ HTTP/1.1", NO_HOST },
	};

	CHECK_BAD(rows);
}

static void test_bad_connects(void)
{
	static const struct bad_row rows[] = {
		{ "CONNECT a.example HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a.example:0 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a.example:65536 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a.example:0443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a.example:+443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a.example:443/ HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a@a.example:443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT http://a.example:443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT / HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT * HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT ::1:443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT 127.1:443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT [127.0.0.1]:443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "connect a.example:443 HTTP/1.1\r\n" H, AUTHORITY },
		{ "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443", OTHER },
		{ "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80", OTHER },
		{ "CONNECT a.example:443 HTTP/1.1\r\n" H CL, "CONNECT with a body" },
		{ "CONNECT a.example:443 HTTP/1.1\r\n" H TE, "CONNECT with a body" },
		{ "CONNECT a.example:443 HTTP/1.1", NO_HOST },
	};

	CHECK_BAD(rows);
}

static void test_bad_lines_and_hosts(void)
{
	static const struct bad_row rows[] = {
		{ "GET / HTTP/1.1\n" H, NO_CR },
		{ GET "Host: a.example\n", NO_CR },
		{ GET H "X: y\nTransfer-Encoding: chunked", NO_CR },
		{ GET H "X: y\rTransfer-Encoding: chunked", NO_LF },
		{ GET H "\n", NO_CR },
		{ GET H "\rX: y", NO_LF },
		{ GET H "X: y\r\r\n", NO_LF },
		{ GET H "X: y\x0b", CONTROL },
		{ GET H "X: y\x0c", CONTROL },
		{ GET H "X: y\x1b[m", CONTROL },
		{ GET H "X: y\x7f", CONTROL },
		{ GET H " folded", FOLDED },
		{ GET H "X: y\r\n z", FOLDED },
		{ GET H "X: y\r\n\tz", FOLDED },
		{ GET " Host: a.example", FOLDED },
		{ GET H "Transfer-Encoding:\r\n chunked", CODING },
		{ GET H "Transfer-Encoding : chunked", FIELD },
		{ GET H "Content-Length\t: 5", FIELD },
		{ GET H ": y", FIELD },
		{ GET H "X", FIELD },
		{ GET H "X Y: z", FIELD },
		{ GET H "X(y): z", FIELD },
		{ GET H "\"X\": z", FIELD },
		{ GET H "X\xc3\xbc: z", FIELD },
		{ GET H "\xef\xbb\xbfTransfer-Encoding: chunked", FIELD },
		{ GET "X: y", NO_HOST },
		{ GET, NO_HOST },
		{ GET H H, TWO_HOSTS },
		{ GET H "hOST: b.example", TWO_HOSTS },
		{ "GET / HTTP/1.0\r\n" H H, TWO_HOSTS },
		{ GET "Host:", BAD_HOST },
		{ GET "Host: a.example, b.example", BAD_HOST },
		{ GET "Host: a.example b.example", BAD_HOST },
		{ GET "Host: a@a.example", BAD_HOST },
		{ GET "Host: http://a.example", BAD_HOST },
		{ GET "Host: a.example/x", BAD_HOST },
		{ GET "Host: a.example:", BAD_HOST },
		{ GET "Host: a.example:80:80", BAD_HOST },
		{ GET "Host: a.example:080", BAD_HOST },
		{ GET "Host: a.example:99999", BAD_HOST },
		{ GET "Host: a.example:8 0", BAD_HOST },
		{ GET "Host: a..example", BAD_HOST },
		{ GET "Host: .a.example", BAD_HOST },
		{ GET "Host: 2130706433", BAD_HOST },
		{ GET "Host: 0x7f.1", BAD_HOST },
		{ GET "Host: 127.0.0.1.", BAD_HOST },
		{ GET "Host: 127.0.0.01", BAD_HOST },
		{ GET "Host: [::1", BAD_HOST },
		{ GET "Host: [::1]x", BAD_HOST },
		{ GET "Host: [::1%25lo]", BAD_HOST },
		{ GET "Host: [a.example]", BAD_HOST },
		{ GET "Host: ::1", BAD_HOST },
		{ GET "Host: b\xc3\xbc.example", BAD_HOST },
		{ GET "Host: a.example\xe3\x80\x82", BAD_HOST },
	};

	CHECK_BAD(rows);
}

static void test_bad_framing(void)
{
	static const struct bad_row rows[] = {
		{ GET H CL TE, BOTH },
		{ GET H TE CL, BOTH },
		{ GET H CL CL, TWO_LENGTHS },
		{ GET H CL "Content-Length: 6", TWO_LENGTHS },
		{ GET H "Content-Length: 5, 5", NO_NUMBER },
		{ GET H "Content-Length: 5,", NO_NUMBER },
		{ GET H "Content-Length: +5", NO_NUMBER },
		{ GET H "Content-Length: -5", NO_NUMBER },
		{ GET H "Content-Length: 05", NO_NUMBER },
		{ GET H "Content-Length: 00", NO_NUMBER },
		{ GET H "Content-Length: 0x5", NO_NUMBER },
		{ GET H "Content-Length: 5 5", NO_NUMBER },
		{ GET H "Content-Length: 5.0", NO_NUMBER },
		{ GET H "Content-Length: 5e0", NO_NUMBER },
		{ GET H "Content-Length:", NO_NUMBER },
		{ GET H "Content-Length: \xd9\xa5", NO_NUMBER },
		{ GET H "Content-Length: 9223372036854775808", NO_NUMBER },
		{ GET H "Content-Length: 18446744073709551621", NO_NUMBER },
		{ GET H "Content-Length: 100000000000000000000000000", NO_NUMBER },
		{ GET H TE TE, TWO_CODINGS },
		{ GET H TE "Transfer-Encoding: identity", TWO_CODINGS },
		{ GET H "Transfer-Encoding: identity", CODING },
		{ GET H "Transfer-Encoding: xchunked", CODING },
		{ GET H "Transfer-Encoding: chunkedx", CODING },
		{ GET H "Transfer-Encoding: chunk", CODING },
		{ GET H "Transfer-Encoding: gzip, chunked", CODING },
		{ GET H "Transfer-Encoding: chunked, identity", CODING },
		{ GET H "Transfer-Encoding: chunked, chunked", CODING },
		{ GET H "Transfer-Encoding: ,chunked", CODING },
		{ GET H "Transfer-Encoding: chunked;q=1", CODING },
		{ GET H "Transfer-Encoding: \"chunked\"", CODING },
		{ GET H "Transfer-Encoding:", CODING },
		{ GET H "Transfer-Encoding: \x0b"
			"chunked",
		  CONTROL },
		{ "GET / HTTP/1.0\r\n" H TE, "Transfer-Encoding in HTTP/1.0" },
		{ GET H "Transfer_Encoding: chunked", LIKE },
		{ GET H CL "content_length: 6", LIKE },
		{ GET H "Connection: Content-Length\r\n" CL, NAMES },
		{ GET H "Connection: close, transfer-encoding\r\n" TE, NAMES },
		{ GET H "Connection: host", NAMES },
		{ GET H "Connection: close close", NO_LIST },
		{ GET H "Connection: close;", NO_LIST },
		{ GET H "Connection: \"close\"", NO_LIST },
	};

	CHECK_BAD(rows);
}

static void test_a_null_byte_is_refused_everywhere(void)
{
	static const char good[] = "GET /x HTTP/1.1\r\nHost: a.example\r\nX: y\r\n\r\n";
	char text[sizeof(good)];

	for (size_t i = 0; i < sizeof(good) - 1; i++) {
		memcpy(text, good, sizeof(good));
		text[i] = '\0';
		CHECK_MSG(read_part(text, sizeof(good) - 1) == HTTP_BAD, "NUL at %zu", i);
	}
}

static void test_long_heads(void)
{
	static struct bytes text;
	static char written[HTTP_HEAD_MAX + 512];
	char host[NET_NAME_MAX + 1 + 6] = "";

	for (unsigned more = 0; more < 2; more++) {
		text.len = 0;
		put_text(&text, "GET / HTTP/1.1\r\n" H);
		for (unsigned i = 0; i < HTTP_FIELDS_MAX - 1 + more; i++)
			put_text(&text, "X:y\r\n");
		put_text(&text, "\r\n");
		CHECK_INT(read_part((char *)text.b, text.len), more ? HTTP_TOO_LONG : HTTP_OK);
	}
	/* As long as it may be, and all that can be added to it fits. */
	for (unsigned more = 0; more < 2; more++) {
		text.len = 0;
		put_text(&text, "GET http://a?x HTTP/1.1\r\nHost:a\r\n");
		for (unsigned i = 0; i < HTTP_FIELDS_MAX - 2; i++)
			put_text(&text, "X:y\r\n");
		put_text(&text, "X:");
		while (text.len < HTTP_HEAD_MAX - 4 + more)
			put_u8(&text, 'a');
		CHECK_INT(read_part((char *)text.b, text.len), HTTP_MORE);
		put_text(&text, "\r\n\r\n");
		CHECK_INT(read_part((char *)text.b, text.len), more ? HTTP_TOO_LONG : HTTP_OK);
		if (more)
			continue;
		memset(host, 'h', sizeof(host) - 1);
		CHECK(http_write_head(&head, (char *)text.b, host, true, written, sizeof(written)) >
		      HTTP_HEAD_MAX);
	}
	memset(text.b, 'A', HTTP_HEAD_MAX);
	CHECK_INT(read_part((char *)text.b, HTTP_HEAD_MAX - 1), HTTP_MORE);
	CHECK_INT(read_part((char *)text.b, HTTP_HEAD_MAX), HTTP_TOO_LONG);
}

static void test_writing(void)
{
	static const struct {
		const char *in, *want;
		bool close;
	} rows[] = {
		{ GET H "\r\n", GET "Host: W\r\n\r\n" },
		{ GET H "\r\n", GET "Host: W\r\nConnection: close\r\n\r\n", true },
		{ "GET http://a.example HTTP/1.1\r\n" H "\r\n", GET "Host: W\r\n\r\n" },
		{ "GET http://a.example?q HTTP/1.1\r\n" H "\r\n",
		  "GET /?q HTTP/1.1\r\nHost: W\r\n\r\n" },
		{ "GET http://a.example/p HTTP/1.1\r\n" H "\r\n",
		  "GET /p HTTP/1.1\r\nHost: W\r\n\r\n" },
		{ "OPTIONS http://a.example HTTP/1.1\r\n" H "\r\n",
		  "OPTIONS * HTTP/1.1\r\nHost: W\r\n\r\n" },
		{ "OPTIONS http://a.example/ HTTP/1.1\r\n" H "\r\n",
		  "OPTIONS / HTTP/1.1\r\nHost: W\r\n\r\n" },
		{ "OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS * HTTP/1.1\r\nHost: W\r\n\r\n" },
		{ "GET / HTTP/1.0\r\n\r\n",
		  "GET / HTTP/1.0\r\nHost: W\r\nConnection: close\r\n\r\n", true },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		  "GET / HTTP/1.0\r\nHost: W\r\nConnection: keep-alive\r\n\r\n" },
		{ GET "a:  b c\t\r\n" H "A:d\r\nExpect: 100-continue\r\ncontent-length:7\r\n\r\n",
		  GET "Host: W\r\na: b c\r\nA: d\r\nExpect: 100-continue\r\nContent-Length: "
		      "7\r\n\r\n" },
		{ GET H "transfer-encoding: CHUNKED\r\nempty:\r\n\r\n",
		  GET "Host: W\r\nempty: \r\nTransfer-Encoding: chunked\r\n\r\n" },
		{ GET H "Content-Length: 9223372036854775807\r\n\r\n",
		  GET "Host: W\r\nContent-Length: 9223372036854775807\r\n\r\n" },
		{ GET H "Connection: keep-alive, X-A\r\nx-a: 1\r\nX-AB: 2\r\nKeep-Alive: 3\r\n"
			"Proxy-Authorization: s\r\nPROXY-x: s\r\nTE: trailers\r\nTrailer: x\r\n"
			"Upgrade: h2c\r\nHTTP2-Settings: x\r\nConnection: x_b\r\nX_b: 1\r\nX-B: "
			"2\r\n\r\n",
		  GET "Host: W\r\nX-AB: 2\r\nX-B: 2\r\n\r\n" },
		{ "CONNECT a.example:443 HTTP/1.1\r\n" H "\r\n", "" },
	};
	char out[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t len;

		CHECK_INT(read_part(rows[i].in, strlen(rows[i].in)), HTTP_OK);
		len = http_write_head(&head, rows[i].in, "W", rows[i].close, out, sizeof(out) - 1);
		out[len] = '\0';
		CHECK_STR(out, rows[i].want);
		/* Too little room is no head at all. */
		for (size_t cap = 0; cap < len; cap++) {
			char *small = exact_copy(out, cap);

			CHECK_INT(
				http_write_head(&head, rows[i].in, "W", rows[i].close, small, cap),
				0);
			free(small);
		}
	}
}

static void test_chunks(void)
{
	static const struct {
		const char *text;
		enum http_result want;
		uint64_t size;
		size_t left; /* bytes behind the line */
	} rows[] = {
		{ "0\r\n", HTTP_OK, 0 },
		{ "0\r\n\r\n", HTTP_OK, 0, 2 },
		{ "1aF\r\nx", HTTP_OK, 0x1af, 1 },
		{ "0000000000000005\r\n", HTTP_OK, 5 },
		{ "7fffffffffffffff\r\n", HTTP_OK, INT64_MAX },
		{ "5;a\r\n", HTTP_OK, 5 },
		{ "5;a=b;c=\"d;\\\"\\\\ \t\xc3\";e\r\n", HTTP_OK, 5 },
		{ "", HTTP_MORE },
		{ "5", HTTP_MORE },
		{ "5\r", HTTP_MORE },
		{ "5;a=\"", HTTP_MORE },
		{ "8000000000000000\r\n", HTTP_BAD },
		{ "ffffffffffffffff\r\n", HTTP_BAD },
		{ "00000000000000005\r\n", HTTP_BAD },
		{ "10000000000000005\r\n", HTTP_BAD },
		{ "\r\n", HTTP_BAD },
		{ ";a\r\n", HTTP_BAD },
		{ "0x5\r\n", HTTP_BAD },
		{ "+5\r\n", HTTP_BAD },
		{ "-5\r\n", HTTP_BAD },
		{ "5_0\r\n", HTTP_BAD },
		{ " 5\r\n", HTTP_BAD },
		{ "5 \r\n", HTTP_BAD },
		{ "5\t\r\n", HTTP_BAD },
		{ "5\n", HTTP_BAD },
		{ "5\rx\n", HTTP_BAD },
		{ "5\r\r\n", HTTP_BAD },
		{ "g\r\n", HTTP_BAD },
		{ "5,5\r\n", HTTP_BAD },
		{ "5;\r\n", HTTP_BAD },
		{ "5;;a\r\n", HTTP_BAD },
		{ "5; a\r\n", HTTP_BAD },
		{ "5 ;a\r\n", HTTP_BAD },
		{ "5;a=\r\n", HTTP_BAD },
		{ "5;a =b\r\n", HTTP_BAD },
		{ "5;a=b=c\r\n", HTTP_BAD },
		{ "5;a\n", HTTP_BAD },
		{ "5;a\rb\r\n", HTTP_BAD },
		{ "5;a=\"b\n\"\r\n", HTTP_BAD },
		{ "5;a=\"b\r\n\"\r\n", HTTP_BAD },
		{ "5;a=\"b\\\n\"\r\n", HTTP_BAD },
		{ "5;a=\"b\"c\r\n", HTTP_BAD },
		{ "5;a=b\x01\r\n", HTTP_BAD },
		{ "5;a=b\xc3\r\n", HTTP_BAD },
	};
	char longest[HTTP_CHUNK_LINE_MAX + 1];
	uint64_t size = 0;
	size_t used = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t len = strlen(rows[i].text);
		bool is_decided = false;

		for (size_t n = 0; n <= len; n++) {
			char *copy = exact_copy(rows[i].text, n);
			enum http_result r = http_read_chunk(copy, n, &used, &size);

			free(copy);
			if (!is_decided && r == HTTP_MORE && n < len)
				continue;
			is_decided = true;
			CHECK_MSG(r == rows[i].want, "'%s': %d after %zu", rows[i].text, (int)r, n);
			if (r != HTTP_OK)
				continue;
			CHECK_INT(used, len - rows[i].left);
			CHECK(size == rows[i].size);
		}
	}
	memset(longest, 'a', sizeof(longest));
	longest[0] = '5';
	longest[1] = ';';
	CHECK_INT(http_read_chunk(longest, HTTP_CHUNK_LINE_MAX, &used, &size), HTTP_MORE);
	CHECK_INT(http_read_chunk(longest, HTTP_CHUNK_LINE_MAX + 1, &used, &size), HTTP_TOO_LONG);
	longest[HTTP_CHUNK_LINE_MAX - 2] = '\r';
	longest[HTTP_CHUNK_LINE_MAX - 1] = '\n';
	CHECK_INT(http_read_chunk(longest, HTTP_CHUNK_LINE_MAX, &used, &size), HTTP_OK);
}

static void test_trailers(void)
{
	static const struct {
		const char *text;
		enum http_result want;
		size_t left;
	} rows[] = {
		{ "\r\n", HTTP_OK },
		{ "\r\nGET", HTTP_OK, 3 },
		{ "X: y\r\nZ:\r\n\r\nmore", HTTP_OK, 4 },
		{ "", HTTP_MORE },
		{ "X: y\r\n", HTTP_MORE },
		{ "X: y\r\n\r", HTTP_MORE },
		{ "\n", HTTP_BAD },
		{ "\rx", HTTP_BAD },
		{ "X\r\n\r\n", HTTP_BAD },
		{ "X : y\r\n\r\n", HTTP_BAD },
		{ " X: y\r\n\r\n", HTTP_BAD },
		{ "X: y\r\n z\r\n\r\n", HTTP_BAD },
		{ "X: y\x01", HTTP_BAD },
		{ "GET / HTTP/1.1\r\nHost: x\r\n\r\n", HTTP_BAD },
		{ "Content-Length: 5\r\n\r\n", HTTP_BAD },
		{ "transfer-encoding: chunked\r\n\r\n", HTTP_BAD },
		{ "Host: b\r\n\r\n", HTTP_BAD },
	};
	static struct bytes text;
	size_t used = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t len = strlen(rows[i].text);
		bool is_decided = false;

		for (size_t n = 0; n <= len; n++) {
			char *copy = exact_copy(rows[i].text, n);
			enum http_result r = http_read_trailer(copy, n, &used);

			free(copy);
			if (!is_decided && r == HTTP_MORE && n < len)
				continue;
			is_decided = true;
			CHECK_MSG(r == rows[i].want, "'%s': %d after %zu", rows[i].text, (int)r, n);
			if (r == HTTP_OK)
				CHECK_INT(used, len - rows[i].left);
		}
	}
	for (unsigned i = 0; i <= HTTP_FIELDS_MAX; i++)
		put_text(&text, "X:y\r\n");
	CHECK_INT(http_read_trailer((char *)text.b, text.len, &used), HTTP_TOO_LONG);
	memset(text.b, 'a', HTTP_TRAILER_MAX);
	CHECK_INT(http_read_trailer((char *)text.b, HTTP_TRAILER_MAX - 1, &used), HTTP_MORE);
	CHECK_INT(http_read_trailer((char *)text.b, HTTP_TRAILER_MAX, &used), HTTP_TOO_LONG);
}

TAP_MAIN(test_requests, test_bad_request_lines, test_bad_connects, test_bad_lines_and_hosts,
	 test_bad_framing, test_a_null_byte_is_refused_everywhere, test_long_heads, test_writing,
	 test_chunks, test_trailers)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Port 80: requests are read one by one, checked, and written anew. A server gets what was
 * understood here, so the two cannot disagree about where a request ends or which host it is for.
 * Answers are not looked at. Upgrades are not passed on: nothing could be checked after one.
 */
#include "gateway/conn.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/text.h"

#define HOST_TEXT_MAX (NET_NAME_MAX + 16)
#define CHUNK_LINE_MAX 1024

const char http_too_long[] = "head too long";

void http_answer(struct conn *c, const char *status, const char *host, const char *why)
{
	char body[NET_NAME_MAX + 256], answer[NET_NAME_MAX + 512];
	size_t n = append_text(body, 0, sizeof(body), "cordon: "), at;

	n = append_text(body, n, sizeof(body), host);
	n = append_text(body, n, sizeof(body), why);
	n = append_text(body, n, sizeof(body), "\n");
	at = append_text(answer, 0, sizeof(answer), "HTTP/1.1 ");
	at = append_text(answer, at, sizeof(answer), status);
	at = append_text(answer, at, sizeof(answer),
			 "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ");
	at = append_number(answer, at, sizeof(answer), n);
	at = append_text(answer, at, sizeof(answer), "\r\n\r\n");
	at = append_text(answer, at, sizeof(answer), body);
	sock_send(c->client.fd, answer, at);
}

/* The Host line that is sent: the name that was checked, never the client's text. */
static void host_line(const struct conn *c, const struct http_host *host, char ret[HOST_TEXT_MAX])
{
	char text[NET_NAME_MAX + 1];
	const char *name = c->name || host->is_addr ? conn_host(c, text) : host->name;
	bool is_v6 = !c->name && host->is_addr && c->addr.is_v6;
	size_t n = append_text(ret, 0, HOST_TEXT_MAX, is_v6 ? "[" : "");

	n = append_text(ret, n, HOST_TEXT_MAX, name);
	n = append_text(ret, n, HOST_TEXT_MAX, is_v6 ? "]" : "");
	if (c->port != 80) {
		n = append_text(ret, n, HOST_TEXT_MAX, ":");
		append_number(ret, n, HOST_TEXT_MAX, c->port);
	}
}

static void show_host(const struct http_host *host, char ret[NET_NAME_MAX + 1])
{
	if (host->is_addr)
		net_addr_format(&host->addr, ret);
	else
		append_text(ret, 0, NET_NAME_MAX + 1, host->name);
}

/* Which host a request is for, as its form says. */
static const struct http_host *host_of(const struct http_head *head)
{
	return head->form == HTTP_ABSOLUTE ? &head->target : head->has_host ? &head->host : NULL;
}

/* Reads the head that comes next: its host is the connection's, or the request is refused. */
static enum http_result next_head(struct gateway *g, struct conn *c, struct http_head *head)
{
	long n = conn_peek(c, scratch, HTTP_HEAD_MAX);
	const struct http_host *host;
	enum http_result r;

	if (n == -EAGAIN)
		return HTTP_MORE;
	/* Its end between requests is passed on; half a head never is. */
	if (n <= 0) {
		c->http = HTTP_AT_END;
		c->up.has_end = true;
		return HTTP_MORE;
	}
	r = http_read_head(scratch, (size_t)n, head);
	if (r == HTTP_MORE && !c->has_partial) {
		c->has_partial = true;
		conn_deadline(g, c, HEAD_NS);
	}
	if (r == HTTP_MORE)
		return r;
	c->has_partial = false;
	if (r != HTTP_OK || head->form == HTTP_AUTHORITY) {
		conn_refuse(g, c, GATEWAY_R_HTTP,
			    r == HTTP_TOO_LONG ? http_too_long
			    : r == HTTP_OK     ? "CONNECT"
					       : head->why);
		return HTTP_BAD;
	}
	host = host_of(head);
	if (host && admit_host(g, c, host) && (!head->has_host || admit_host(g, c, &head->host)))
		return HTTP_OK;
	if (host) {
		char text[NET_NAME_MAX + 1];

		show_host(admit_host(g, c, host) ? &head->host : host, text);
		conn_refuse(g, c, GATEWAY_R_HOST, text);
	} else {
		conn_refuse(g, c, GATEWAY_R_HTTP, "no Host");
	}
	return HTTP_BAD;
}

bool http_check_first(struct gateway *g, struct conn *c)
{
	static struct http_head head;
	enum http_result r = next_head(g, c, &head);

	if (r == HTTP_MORE && c->http == HTTP_AT_END) {
		c->verdict = "abandoned";
		conn_reset(g, c);
	}
	c->is_checked = r == HTTP_OK;
	return c->is_checked;
}

static enum flow_state pass_head(struct gateway *g, struct conn *c)
{
	static struct http_head head;
	char host[HOST_TEXT_MAX];
	enum http_result r = next_head(g, c, &head);
	enum flow_state put;
	bool is_last;
	size_t n;

	if (r != HTTP_OK)
		return FLOW_WAITS;
	/* A proxy's client may want another host with its next request: one request per connection.
	 */
	is_last = head.wants_close || c->proxy == PROXY_ABSOLUTE;
	host_line(c, host_of(&head), host);
	n = http_write_head(&head, scratch, host, is_last, scratch_out, sizeof(scratch_out));
	put = n ? flow_put(g, &c->up, scratch_out, n) : FLOW_BROKEN;
	if (put != FLOW_MORE)
		return put;
	conn_consume(c, head.len);
	c->up.left = head.body == HTTP_LENGTH ? head.body_len : 0;
	c->is_last = is_last;
	c->http = head.body == HTTP_LENGTH    ? HTTP_AT_BODY
		  : head.body == HTTP_CHUNKED ? HTTP_AT_CHUNK
		  : is_last		      ? HTTP_AT_END
					      : HTTP_AT_HEAD;
	return FLOW_MORE;
}

/* "SIZE" in hexadecimal and the end of the line. */
static size_t chunk_line(uint64_t size, char ret[24])
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;
	int shift = 60;

	while (shift > 0 && (size >> shift & 0xf) == 0)
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		ret[n++] = digits[size >> shift & 0xf];
	ret[n++] = '\r';
	ret[n++] = '\n';
	return n;
}

static enum flow_state pass_chunk(struct gateway *g, struct conn *c, const char *data, size_t len)
{
	char line[24];
	uint64_t size = 0;
	size_t used = 0;
	enum http_result r = http_read_chunk(data, len, &used, &size);
	enum flow_state put;

	if (r == HTTP_MORE && len < CHUNK_LINE_MAX)
		return FLOW_WAITS;
	if (r != HTTP_OK) {
		conn_refuse(g, c, GATEWAY_R_HTTP, "chunk");
		return FLOW_WAITS;
	}
	put = flow_put(g, &c->up, line, chunk_line(size, line));
	if (put != FLOW_MORE)
		return put;
	conn_consume(c, used);
	c->up.left = size;
	c->http = size ? HTTP_AT_CHUNK_DATA : HTTP_AT_TRAILER;
	return FLOW_MORE;
}

static enum flow_state pass_trailer(struct gateway *g, struct conn *c, const char *data, size_t len)
{
	size_t used = 0;
	enum http_result r = http_read_trailer(data, len, &used);
	enum flow_state put;

	if (r == HTTP_MORE && len < HTTP_HEAD_MAX)
		return FLOW_WAITS;
	if (r != HTTP_OK) {
		conn_refuse(g, c, GATEWAY_R_HTTP, "trailer");
		return FLOW_WAITS;
	}
	put = flow_put(g, &c->up, "\r\n", 2);
	if (put != FLOW_MORE)
		return put;
	conn_consume(c, used);
	c->http = c->is_last ? HTTP_AT_END : HTTP_AT_HEAD;
	return FLOW_MORE;
}

static enum flow_state pass_chunk_end(struct gateway *g, struct conn *c, const char *data,
				      size_t len)
{
	enum flow_state put;

	if (len < 2 && (len == 0 || data[0] == '\r'))
		return FLOW_WAITS;
	if (data[0] != '\r' || data[1] != '\n') {
		conn_refuse(g, c, GATEWAY_R_HTTP, "chunk");
		return FLOW_WAITS;
	}
	put = flow_put(g, &c->up, "\r\n", 2);
	if (put != FLOW_MORE)
		return put;
	conn_consume(c, 2);
	c->http = HTTP_AT_CHUNK;
	return FLOW_MORE;
}

/* What lies between bodies; nothing is in the pipe. FLOW_MORE: something was done. */
static enum flow_state pass_framing(struct gateway *g, struct conn *c)
{
	long n;

	if (c->http == HTTP_AT_HEAD)
		return pass_head(g, c);
	n = conn_peek(c, scratch, HTTP_HEAD_MAX);
	if (n == -EAGAIN)
		return FLOW_WAITS;
	if (n <= 0)
		return FLOW_BROKEN; /* in the middle of a request */
	switch (c->http) {
	case HTTP_AT_CHUNK:
		return pass_chunk(g, c, scratch, (size_t)n);
	case HTTP_AT_CHUNK_END:
		return pass_chunk_end(g, c, scratch, (size_t)n);
	case HTTP_AT_TRAILER:
		return pass_trailer(g, c, scratch, (size_t)n);
	case HTTP_AT_HEAD:
	case HTTP_AT_BODY:
	case HTTP_AT_CHUNK_DATA:
	case HTTP_AT_END:
		break;
	}
	return FLOW_BROKEN;
}

/*
 * After the last request nothing more is passed on, but we must notice that the client is gone: the
 * answer may take long, and the connection would keep its slot until then.
 */
static enum flow_state await_end(struct gateway *g, struct conn *c)
{
	for (int i = 0; i < 16; i++) {
		long n = sock_recv(c->client.fd, scratch, sizeof(scratch));

		if (n == -EAGAIN)
			return FLOW_DONE;
		if (n < 0)
			return FLOW_BROKEN;
		if (n == 0) {
			c->up.has_end = true;
			return flow_pump(g, &c->up);
		}
	}
	return FLOW_BROKEN; /* it does not want the answer */
}

enum flow_state http_pump(struct gateway *g, struct conn *c)
{
	for (int i = 0; i < 64; i++) {
		enum flow_state r = flow_pump(g, &c->up);

		if (r != FLOW_DONE)
			return r;
		if (c->up.has_end)
			return c->up.left || c->http != HTTP_AT_END ? FLOW_BROKEN : FLOW_DONE;
		if (c->http == HTTP_AT_END)
			return await_end(g, c);
		if (c->http == HTTP_AT_BODY)
			c->http = c->is_last ? HTTP_AT_END : HTTP_AT_HEAD;
		else if (c->http == HTTP_AT_CHUNK_DATA)
			c->http = HTTP_AT_CHUNK_END;
		if (c->http == HTTP_AT_END)
			continue;
		r = pass_framing(g, c);
		if (r != FLOW_MORE && (c->state != CONN_RELAY || c->http != HTTP_AT_END))
			return r;
	}
	return FLOW_MORE;
}

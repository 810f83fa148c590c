/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level landlock: programs speak to us as to a proxy. CONNECT and SOCKS5 name the target and then
 * speak to it; an absolute-form request names it in its first line.
 */
#include "gateway/conn.h"

#include <linux/errno.h>

#include "net/socks.h"

static void refuse_name(struct gateway *g, struct conn *c, const char *name,
			enum gateway_reason reason)
{
	deny(g, reason, name, c->port, NULL);
	c->verdict = "refused";
	proxy_answer(c, false, true, name);
	conn_linger(g, c);
}

/* From what was asked for to the connection's target. */
static bool set_target(struct gateway *g, struct conn *c, const struct http_host *host,
		       uint16_t default_port)
{
	enum net_verdict verdict;

	c->port = host->port ? host->port : default_port;
	c->kind = c->port == 443 ? CONN_TLS : c->port == 80 ? CONN_HTTP : CONN_PLAIN;
	if (c->proxy == PROXY_ABSOLUTE)
		c->kind = CONN_HTTP;
	if (host->is_addr) {
		c->addr = host->addr;
		return admit_target(g, c);
	}
	/* Only an allowed name gets a place in the table. */
	verdict = net_judge_name(&g->rules, host->name, c->port);
	if (verdict != NET_ALLOWED) {
		refuse_name(g, c, host->name, reason_of(verdict));
		return false;
	}
	c->name = name_add(g, host->name);
	if (c->name)
		return admit_target(g, c);
	refuse_name(g, c, host->name, GATEWAY_R_NAMES);
	return false;
}

static void refuse_request(struct gateway *g, struct conn *c, const char *why)
{
	deny(g, GATEWAY_R_PROXY, "proxy", 0, why);
	c->verdict = "refused";
	http_answer(c, "400 Bad Request", "", why);
	conn_linger(g, c);
}

static bool ask_http(struct gateway *g, struct conn *c, size_t len)
{
	static struct http_head head;
	enum http_result r = http_read_head(scratch, len, &head);

	if (r == HTTP_MORE)
		return false;
	if (r != HTTP_OK) {
		refuse_request(g, c, r == HTTP_TOO_LONG ? http_too_long : head.why);
		return false;
	}
	if (head.form == HTTP_AUTHORITY) {
		c->proxy = PROXY_CONNECT;
		conn_consume(c, head.len);
		return set_target(g, c, &head.target, 0);
	}
	if (head.form != HTTP_ABSOLUTE) {
		refuse_request(g, c, "a request to a proxy must name its host");
		return false;
	}
	/* It stays in the socket: the request itself is for the server. */
	c->proxy = PROXY_ABSOLUTE;
	return set_target(g, c, &head.target, 80);
}

static bool ask_socks(struct gateway *g, struct conn *c, size_t len)
{
	static const uint8_t greeting[2] = { 5, 0 }, no_method[2] = { 5, 0xff };
	uint8_t reply[SOCKS_REPLY_LEN];
	struct http_host host;
	size_t used = 0;
	enum socks_result r;

	if (c->proxy == PROXY_UNKNOWN) {
		r = socks_read_greeting((const uint8_t *)scratch, len, &used);
		if (r == SOCKS_MORE)
			return false;
		sock_send(c->client.fd, r == SOCKS_OK ? greeting : no_method, 2);
		if (r != SOCKS_OK) {
			deny(g, GATEWAY_R_PROXY, "", 0, "a SOCKS greeting with other methods");
			c->verdict = "refused";
			conn_linger(g, c);
			return false;
		}
		conn_consume(c, used);
		c->proxy = PROXY_SOCKS_GREETED;
		return proxy_ask(g, c);
	}
	memset(&host, 0, sizeof(host));
	r = socks_read_request((const uint8_t *)scratch, len, &used, &host);
	if (r == SOCKS_MORE)
		return false;
	if (r != SOCKS_OK) {
		deny(g, GATEWAY_R_PROXY, "", 0, "a SOCKS request for something else");
		c->verdict = "refused";
		socks_write_reply(r == SOCKS_NO_COMMAND ? 7 : 8, reply);
		sock_send(c->client.fd, reply, sizeof(reply));
		conn_linger(g, c);
		return false;
	}
	conn_consume(c, used);
	c->proxy = PROXY_SOCKS;
	return set_target(g, c, &host, 0);
}

bool proxy_ask(struct gateway *g, struct conn *c)
{
	long n = conn_peek(c, scratch, HTTP_HEAD_MAX);

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		c->verdict = "abandoned";
		conn_reset(g, c);
		return false;
	}
	if (c->proxy == PROXY_SOCKS_GREETED || scratch[0] == 5)
		return ask_socks(g, c, (size_t)n);
	return ask_http(g, c, (size_t)n);
}

void proxy_answer(struct conn *c, bool is_ok, bool is_refused, const char *host)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	uint8_t reply[SOCKS_REPLY_LEN];

	if (c->proxy == PROXY_SOCKS) {
		socks_write_reply(is_ok ? 0 : is_refused ? 2 : 4, reply);
		sock_send(c->client.fd, reply, sizeof(reply));
	} else if (is_ok && c->proxy == PROXY_CONNECT) {
		sock_send(c->client.fd, established, sizeof(established) - 1);
	} else if (!is_ok) {
		http_answer(c, is_refused ? "403 Forbidden" : "502 Bad Gateway", host,
			    is_refused ? " is not allowed in this sandbox (--net-allow)"
				       : " cannot be reached");
	}
}

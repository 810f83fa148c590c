/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: walking the records tells whether the hello is complete; only a complete one
 * is read. Decisions follow the order of the bytes, so the pieces in which they arrive do not
 * matter.
 *
 * With Encrypted Client Hello (extension 0xfe0d) there is a second name that only the server can
 * read. The outer name, which is read here like any other, is the server that terminates TLS and so
 * the one that the connection goes to; what that server does next is invisible, as with any server.
 * Such a hello cannot be told from one with a GREASE extension.
 */
#include "net/hello.h"

#include <stdbool.h>
#include <string.h>

#include "net/bytes.h"

#define RECORD_HEADER_LEN 5
#define RECORD_MAX (16 << 10)
#define RECORD_HANDSHAKE 22
#define MAJOR_VERSION 3
#define MESSAGE_HEADER_LEN 4
#define MESSAGE_CLIENT_HELLO 1
#define EXT_SERVER_NAME 0
#define NAME_TYPE_HOST 0

/* Walks over the hello's bytes, from record to record. */
struct cursor {
	const uint8_t *data; /* whole records, checked */
	size_t pos;
	size_t record_left;
	size_t left; /* of the hello */
};

/* The record header at @data, of which @len bytes are there. */
static enum hello_result read_record(const uint8_t *data, size_t len, bool is_first,
				     size_t *ret_len)
{
	enum hello_result not_ours = is_first ? HELLO_NOT_TLS : HELLO_BROKEN;

	if (len >= 1 && data[0] != RECORD_HANDSHAKE)
		return not_ours;
	if (len >= 2 && data[1] != MAJOR_VERSION)
		return not_ours;
	if (len < RECORD_HEADER_LEN)
		return HELLO_MORE;
	*ret_len = be16_get(data + 3);
	/* Empty records are forbidden, and would mean endless work. */
	if (*ret_len == 0 || *ret_len > RECORD_MAX)
		return HELLO_BROKEN;
	return HELLO_OK;
}

/* One more byte of the message header; *total is the message's length when it is complete. */
static enum hello_result read_header_byte(size_t index, uint8_t byte, size_t *total)
{
	if (index == 0)
		return byte == MESSAGE_CLIENT_HELLO ? HELLO_OK : HELLO_BROKEN;
	*total = *total << 8 | byte;
	if (index < MESSAGE_HEADER_LEN - 1)
		return HELLO_OK;
	*total += MESSAGE_HEADER_LEN;
	return *total > HELLO_MAX ? HELLO_TOO_LONG : HELLO_OK;
}

/* Is the whole hello there? *ret_len is its length then, with the message header, and *ret_end
 * where its last record ends. */
static enum hello_result walk_records(const uint8_t *data, size_t len, size_t *ret_len,
				      size_t *ret_end)
{
	size_t pos = 0, got = 0, total = 0;

	while (got < MESSAGE_HEADER_LEN || got < total) {
		size_t record_len, there;
		enum hello_result r;

		r = read_record(data + pos, len - pos, pos == 0, &record_len);
		if (r != HELLO_OK)
			return r;
		pos += RECORD_HEADER_LEN;
		there = len - pos < record_len ? len - pos : record_len;
		for (size_t i = 0; i < there && got + i < MESSAGE_HEADER_LEN; i++) {
			r = read_header_byte(got + i, data[pos + i], &total);
			if (r != HELLO_OK)
				return r;
		}
		/* A client sends nothing more before it has an answer. */
		if (got + there >= MESSAGE_HEADER_LEN && got + record_len > total)
			return HELLO_BROKEN;
		if (there < record_len)
			return HELLO_MORE;
		got += record_len;
		pos += record_len;
	}
	*ret_len = total;
	*ret_end = pos;
	return HELLO_OK;
}

/* The next @n bytes, to @ret unless that is NULL. 0 or -1. */
static int take(struct cursor *c, size_t n, uint8_t *ret)
{
	if (n > c->left)
		return -1;
	c->left -= n;
	while (n > 0) {
		size_t part;

		if (c->record_left == 0) {
			c->record_left = be16_get(c->data + c->pos + 3);
			c->pos += RECORD_HEADER_LEN;
		}
		part = n < c->record_left ? n : c->record_left;
		if (ret) {
			memcpy(ret, c->data + c->pos, part);
			ret += part;
		}
		c->pos += part;
		c->record_left -= part;
		n -= part;
	}
	return 0;
}

static int take_u8(struct cursor *c, size_t *ret)
{
	uint8_t byte;

	if (take(c, 1, &byte) < 0)
		return -1;
	*ret = byte;
	return 0;
}

static int take_u16(struct cursor *c, size_t *ret)
{
	uint8_t bytes[2];

	if (take(c, 2, bytes) < 0)
		return -1;
	*ret = be16_get(bytes);
	return 0;
}

/*
 * The @len bytes of a server_name extension: a list with one entry. Only one type of entry was ever
 * defined. The length and meaning of other types are unknown, so they cannot be skipped.
 */
static enum hello_result read_server_name(struct cursor *c, size_t len, char ret[NET_NAME_MAX + 1])
{
	uint8_t text[NET_NAME_MAX + 1]; /* one more, for a dot at the end */
	size_t list_len, type, name_len;

	if (len < 5 || take_u16(c, &list_len) < 0 || list_len != len - 2)
		return HELLO_BROKEN;
	if (take_u8(c, &type) < 0 || type != NAME_TYPE_HOST)
		return HELLO_BROKEN;
	if (take_u16(c, &name_len) < 0 || name_len != list_len - 3 || name_len == 0)
		return HELLO_BROKEN;
	if (name_len > sizeof(text))
		return take(c, name_len, NULL) < 0 ? HELLO_BROKEN : HELLO_BAD_NAME;
	if (take(c, name_len, text) < 0)
		return HELLO_BROKEN;
	return net_name_parse((const char *)text, name_len, ret) < 0 ? HELLO_BAD_NAME : HELLO_OK;
}

static enum hello_result read_extensions(struct cursor *c, char ret[NET_NAME_MAX + 1])
{
	enum hello_result r = HELLO_NO_NAME;
	size_t type, len;

	if (c->left == 0) /* a client from before there were extensions */
		return HELLO_NO_NAME;
	if (take_u16(c, &len) < 0 || len != c->left)
		return HELLO_BROKEN;
	while (c->left > 0) {
		if (take_u16(c, &type) < 0 || take_u16(c, &len) < 0 || len > c->left)
			return HELLO_BROKEN;
		if (type != EXT_SERVER_NAME) {
			if (take(c, len, NULL) < 0)
				return HELLO_BROKEN;
			continue;
		}
		if (r != HELLO_NO_NAME)
			return HELLO_BROKEN;
		r = read_server_name(c, len, ret);
		if (r == HELLO_BROKEN)
			return r;
	}
	return r;
}

enum hello_result hello_read(const uint8_t *data, size_t len, char ret[NET_NAME_MAX + 1])
{
	struct cursor c = { .data = data };
	char name[NET_NAME_MAX + 1] = { 0 };
	enum hello_result r;
	size_t n, end;

	r = walk_records(data, len < HELLO_MAX ? len : HELLO_MAX, &c.left, &end);
	if (r == HELLO_MORE && len >= HELLO_MAX)
		return HELLO_TOO_LONG;
	if (r != HELLO_OK)
		return r;
	if (take(&c, MESSAGE_HEADER_LEN, NULL) < 0 || take_u16(&c, &n) < 0 ||
	    n >> 8 != MAJOR_VERSION || take(&c, 32, NULL) < 0)
		return HELLO_BROKEN;
	if (take_u8(&c, &n) < 0 || n > 32 || take(&c, n, NULL) < 0) /* session */
		return HELLO_BROKEN;
	if (take_u16(&c, &n) < 0 || n == 0 || n % 2 || take(&c, n, NULL) < 0) /* ciphers */
		return HELLO_BROKEN;
	if (take_u8(&c, &n) < 0 || n == 0 || take(&c, n, NULL) < 0) /* compression */
		return HELLO_BROKEN;
	r = read_extensions(&c, name);
	if (r == HELLO_OK)
		memcpy(ret, name, sizeof(name));
	return r;
}

size_t hello_length(const uint8_t *data, size_t len)
{
	size_t total, end;

	return walk_records(data, len < HELLO_MAX ? len : HELLO_MAX, &total, &end) == HELLO_OK ? end
											       : 0;
}

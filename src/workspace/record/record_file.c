/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records on disk. A line each, and fields separated by spaces:
 *
 *	cordon-records 1
 *	PARENT FLAGS TYPE MODE SIZE INO MTIME NS CTIME NS SEEN NS HASH NAME
 *	...
 *	end COUNT
 *
 * PARENT is the number of an earlier line, counted from 0, or -1. In NAME all bytes that are not
 * plain are written %XX. A file that deviates from this in any way counts as missing: then only
 * times tell what was changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "workspace/record/record.h"

#define FILE_NAME "records"
#define HEAD_LINE "cordon-records 1\n"
#define BYTES_MAX ((size_t)512 << 20)

#define FLAG_LIVE 1u
#define FLAG_UNCERTAIN 2u
#define FLAG_WHOLE 4u
#define FLAG_HASH 8u
#define FLAG_ALL 15u

/* --- writing ------------------------------------------------------------------------------------
 */

static void put_name(struct strbuf *sb, const char *name)
{
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c <= ' ' || c >= 0x7f || c == '%')
			strbuf_printf(sb, "%%%02X", c);
		else
			strbuf_putc(sb, (char)c);
	}
}

static void put_hex(struct strbuf *sb, const unsigned char *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		strbuf_putc(sb, digits[data[i] >> 4]);
		strbuf_putc(sb, digits[data[i] & 15]);
	}
}

static void put_record(struct strbuf *sb, const struct ws_record *r, int64_t parent)
{
	unsigned flags = (r->is_live ? FLAG_LIVE : 0) | (r->is_uncertain ? FLAG_UNCERTAIN : 0) |
			 (r->is_whole ? FLAG_WHOLE : 0) | (r->has_hash ? FLAG_HASH : 0);

	strbuf_printf(sb, "%" PRId64 " %u %u %u %" PRIu64 " %" PRIu64, parent, flags, r->type,
		      r->mode, r->size, r->ino);
	strbuf_printf(sb, " %jd %ld %jd %ld %jd %ld ", (intmax_t)r->mtime.tv_sec, r->mtime.tv_nsec,
		      (intmax_t)r->ctime.tv_sec, r->ctime.tv_nsec, (intmax_t)r->seen.tv_sec,
		      r->seen.tv_nsec);
	put_hex(sb, r->hash.v, sizeof(r->hash.v));
	strbuf_putc(sb, ' ');
	put_name(sb, r->name);
	strbuf_putc(sb, '\n');
}

/* Directories that lead to nothing any more are left out. */
static int put_records(struct strbuf *sb, const struct ws_records *records)
{
	uint32_t *number = calloc(records->n + 1, sizeof(*number)), n = 0;

	if (!number)
		return -ENOMEM;
	for (size_t i = records->n; i-- > 0;) {
		const struct ws_record *r = &records->v[i];

		if (r->is_live)
			number[i] = 1;
		if (number[i] && r->parent != WS_NO_RECORD)
			number[r->parent] = 1;
	}
	strbuf_puts(sb, HEAD_LINE);
	for (size_t i = 0; i < records->n; i++) {
		const struct ws_record *r = &records->v[i];

		if (!number[i])
			continue;
		number[i] = n++;
		put_record(sb, r, r->parent == WS_NO_RECORD ? -1 : (int64_t)number[r->parent]);
	}
	strbuf_printf(sb, "end %u\n", n);
	free(number);
	return sb->failed ? -ENOMEM : 0;
}

int ws_records_save(struct cordon_workspace *ws, struct ws_records *records,
		    struct cordon_error *err)
{
	struct strbuf sb = STRBUF_INIT;
	int r;

	if (!records->is_changed)
		return 0;
	sb.max = BYTES_MAX;
	r = put_records(&sb, records);
	if (r == 0)
		/* Not durable: a power cut that takes records away leaves the rule by time. */
		r = store_file_replace(ws->dir_fd, FILE_NAME, &sb, false);
	strbuf_done(&sb);
	if (r < 0)
		return cordon_err(err, r == -ENOMEM ? CORDON_E_NOMEM : CORDON_E_SYSTEM, -r,
				  "%s/" FILE_NAME, ws->path);
	records->is_changed = false;
	return 0;
}

/* --- reading ------------------------------------------------------------------------------------
 */

/* The next number of a line, and the space behind it. */
static bool take_number(const char **at, int64_t min, int64_t max, int64_t *ret)
{
	char *end;

	if (**at != '-' && (**at < '0' || **at > '9'))
		return false;
	errno = 0;
	*ret = strtoll(*at, &end, 10);
	if (errno != 0 || end == *at || *end != ' ' || *ret < min || *ret > max)
		return false;
	*at = end + 1;
	return true;
}

static bool take_time(const char **at, struct timespec *ret)
{
	int64_t s, ns;

	if (!take_number(at, INT64_MIN, INT64_MAX, &s) || !take_number(at, 0, 999999999, &ns))
		return false;
	ret->tv_sec = s;
	ret->tv_nsec = ns;
	return true;
}

static bool take_hex(const char **at, unsigned char *ret, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = ascii_hex_value((*at)[0]),
		    low = high < 0 ? -1 : ascii_hex_value((*at)[1]);

		if (low < 0)
			return false;
		ret[i] = (unsigned char)(high << 4 | low);
		*at += 2;
	}
	return true;
}

/* A name in place: it only becomes shorter. Its length, 0 if it is none. */
static size_t take_name(char *text)
{
	const char *from = text;
	char *to = text;

	while (*from) {
		unsigned char c = (unsigned char)*from++;

		if (c == '%' && (!take_hex(&from, &c, 1) || c == '\0'))
			return 0;
		if (c == '/')
			return 0;
		*to++ = (char)c;
	}
	*to = '\0';
	return (size_t)(to - text);
}

static bool take_fields(const char **at, int64_t *ret_parent, uint64_t n, struct ws_record *r)
{
	int64_t flags, type, mode, size, ino;

	if (!take_number(at, -1, (int64_t)n - 1, ret_parent) ||
	    !take_number(at, 0, FLAG_ALL, &flags) ||
	    !take_number(at, 0, CORDON_FILE_MAX - 1, &type) || !take_number(at, 0, 07777, &mode) ||
	    !take_number(at, 0, INT64_MAX, &size) || !take_number(at, INT64_MIN, INT64_MAX, &ino) ||
	    !take_time(at, &r->mtime) || !take_time(at, &r->ctime) || !take_time(at, &r->seen) ||
	    !take_hex(at, r->hash.v, sizeof(r->hash.v)) || **at != ' ')
		return false;
	++*at;
	r->is_live = flags & FLAG_LIVE;
	r->is_uncertain = flags & FLAG_UNCERTAIN;
	r->is_whole = flags & FLAG_WHOLE;
	r->has_hash = flags & FLAG_HASH;
	r->type = (uint8_t)type;
	r->mode = (uint16_t)mode;
	r->size = (uint64_t)size;
	r->ino = (uint64_t)ino;
	return true;
}

/* 0, -EINVAL or -ENOMEM. */
static int read_line(struct ws_records *records, char *line)
{
	struct ws_record r = { 0 };
	const char *at = line;
	int64_t parent;
	uint32_t i, up;
	size_t len;

	if (!take_fields(&at, &parent, records->n, &r))
		return -EINVAL;
	len = take_name(line + (at - line));
	up = parent < 0 ? WS_NO_RECORD : (uint32_t)parent;
	if (len == 0 || ws_records_child(records, up, at, len) != WS_NO_RECORD)
		return -EINVAL;
	i = ws_records_make(records, up, at, len);
	if (i == WS_NO_RECORD)
		return -ENOMEM;
	r.name = records->v[i].name;
	r.parent = records->v[i].parent;
	r.next = records->v[i].next;
	records->v[i] = r;
	return 0;
}

/* @text ends in NUL and is changed. */
static int parse(struct ws_records *records, char *text, size_t len)
{
	char end[32], *line = text + strlen(HEAD_LINE);

	if (strlen(text) != len || strncmp(text, HEAD_LINE, strlen(HEAD_LINE)) != 0)
		return -EINVAL;
	while (*line) {
		char *stop = strchr(line, '\n');
		int r;

		if (!stop)
			return -EINVAL;
		*stop = '\0';
		if (strncmp(line, "end ", 4) == 0) {
			snprintf(end, sizeof(end), "end %zu", records->n);
			return strcmp(line, end) == 0 && stop[1] == '\0' ? 0 : -EINVAL;
		}
		r = read_line(records, line);
		if (r < 0)
			return r;
		line = stop + 1;
	}
	return -EINVAL;
}

int ws_records_load(struct cordon_workspace *ws, struct ws_records **ret, struct cordon_error *err)
{
	struct ws_records *records = ws_records_new();
	struct strbuf sb = STRBUF_INIT;
	int r;

	*ret = NULL;
	sb.max = BYTES_MAX;
	r = records ? store_file_read(ws->dir_fd, FILE_NAME, &sb) : -ENOMEM;
	if (r == 0)
		r = parse(records, sb.data, sb.len);
	strbuf_done(&sb);
	if (r < 0 && r != -ENOENT && r != -ENOMEM) {
		ws_records_free(records);
		records = ws_records_new();
		if (records)
			records->is_changed = true;
	}
	if (!records || r == -ENOMEM) {
		ws_records_free(records);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	*ret = records;
	return 0;
}

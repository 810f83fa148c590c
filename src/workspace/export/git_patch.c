/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a patch that are git's own: quoted names, ids of blobs, binary files as text. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/sha1.h"
#include "workspace/export/export.h"

/* Names */

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void add_quoted(struct strbuf *sb, const char *s)
{
	static const char letters[] = "abtnvfr"; /* 7 to 13 */

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (is_plain(c))
			strbuf_putc(sb, *s);
		else if (c >= 7 && c <= 13)
			strbuf_printf(sb, "\\%c", letters[c - 7]);
		else if (c == '"' || c == '\\')
			strbuf_printf(sb, "\\%c", *s);
		else
			strbuf_printf(sb, "\\%03o", c);
	}
}

void git_quote(struct strbuf *sb, const char *prefix, const char *path)
{
	const char *p = path;

	while (*p && is_plain((unsigned char)*p))
		p++;
	if (*p) {
		strbuf_putc(sb, '"');
		strbuf_puts(sb, prefix);
		add_quoted(sb, path);
		strbuf_putc(sb, '"');
	} else {
		strbuf_puts(sb, prefix);
		strbuf_puts(sb, path);
	}
}

/* ".git" and what Windows takes for it; git refuses these everywhere. */
static bool is_git_dir(const char *name, size_t len)
{
	size_t i;

	if (len >= 4 && !strncasecmp(name, ".git", 4))
		i = 4;
	else if (len >= 5 && !strncasecmp(name, "git~1", 5))
		i = 5;
	else
		return false;
	while (i < len && (name[i] == '.' || name[i] == ' '))
		i++;
	return i == len || name[i] == ':' || name[i] == '\\';
}

bool git_refuses(const char *path, bool is_link)
{
	const char *name = path;

	for (const char *p = path; *p; p = name) {
		size_t len = strcspn(p, "/");

		if (is_git_dir(p, len))
			return true;
		name = p[len] ? p + len + 1 : p + len;
		if (!*name && is_link && !strncasecmp(p, ".gitmodules", 11))
			return true;
	}
	return false;
}

void git_blob_id(const void *data, size_t len, char ret[GIT_ID_SIZE])
{
	unsigned char id[20];
	struct sha1 sha;
	char head[32];
	int n = snprintf(head, sizeof(head), "blob %zu", len);

	sha1_start(&sha);
	sha1_add(&sha, head, (size_t)n + 1); /* with its NUL */
	sha1_add(&sha, data, len);
	sha1_end(&sha, id);
	for (size_t i = 0; i < sizeof(id); i++)
		snprintf(ret + 2 * i, 3, "%02x", id[i]);
}

/* Binary files. Lines of up to 52 bytes, five letters for four bytes, the length in front. */

#define LINE_BYTES 52

struct lines {
	struct sink *sink;
	size_t n;
	unsigned char line[LINE_BYTES];
};

static void end_line(struct lines *l)
{
	static const char letters[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"!#$%&()*+-;<=>?@^_`{|}~";
	char text[1 + LINE_BYTES / 4 * 5 + 1];
	size_t used = 0;

	if (!l->n)
		return;
	text[used++] = (char)(l->n <= 26 ? 'A' + (l->n - 1) : 'a' + (l->n - 27));
	memset(l->line + l->n, 0, sizeof(l->line) - l->n);
	for (size_t i = 0; i < l->n; i += 4) {
		uint32_t word = (uint32_t)l->line[i] << 24 | (uint32_t)l->line[i + 1] << 16 |
				(uint32_t)l->line[i + 2] << 8 | l->line[i + 3];

		for (size_t k = 5; k-- > 0; word /= 85)
			text[used + k] = letters[word % 85];
		used += 5;
	}
	text[used++] = '\n';
	sink_add(l->sink, text, used);
	l->n = 0;
}

static void add_bytes(struct lines *l, const unsigned char *p, size_t len)
{
	while (len) {
		size_t n = LINE_BYTES - l->n < len ? LINE_BYTES - l->n : len;

		memcpy(l->line + l->n, p, n);
		l->n += n;
		p += n;
		len -= n;
		if (l->n == LINE_BYTES)
			end_line(l);
	}
}

static uint32_t adler32(const unsigned char *p, size_t len)
{
	uint32_t a = 1, b = 0;

	while (len) {
		/* So many bytes fit before b could overflow. */
		size_t n = len < 5552 ? len : 5552;

		len -= n;
		for (; n; n--) {
			a += *p++;
			b += a;
		}
		a %= 65521;
		b %= 65521;
	}
	return b << 16 | a;
}

void git_literal(struct sink *sink, const void *data, size_t len)
{
	/* A zlib stream (RFC 1950) of stored blocks: nothing is compressed. */
	static const unsigned char header[] = { 0x78, 0x01 };
	struct lines l = { .sink = sink };
	const unsigned char *p = data;
	uint32_t sum = adler32(p, len);
	unsigned char tail[4] = { (unsigned char)(sum >> 24), (unsigned char)(sum >> 16),
				  (unsigned char)(sum >> 8), (unsigned char)sum };
	size_t n;

	sink_printf(sink, "literal %zu\n", len);
	add_bytes(&l, header, sizeof(header));
	do {
		unsigned char block[5];

		n = len < 65535 ? len : 65535;
		block[0] = n == len; /* the last one */
		block[1] = (unsigned char)n;
		block[2] = (unsigned char)(n >> 8);
		block[3] = (unsigned char)~block[1];
		block[4] = (unsigned char)~block[2];
		add_bytes(&l, block, sizeof(block));
		add_bytes(&l, p, n);
		p += n;
		len -= n;
	} while (len);
	add_bytes(&l, tail, sizeof(tail));
	end_line(&l);
	sink_puts(sink, "\n");
}

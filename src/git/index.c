/* SPDX-License-Identifier: Apache-2.0 */
#include "git/index.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define HEADER_BYTES 12
#define MODE_AT 24
#define STAT_BYTES 40 /* of an entry, before its hash */
#define EXTENSION_HEADER_BYTES 8
#define FLAG_EXTENDED 0x4000u
#define NAME_MASK 0x0fffu
#define IEOT_BLOCK_BYTES 8

struct index_cursor {
	const unsigned char *data;
	size_t end; /* of what lies before the trailing hash */
	size_t pos;
	unsigned hash_len;
	uint32_t version, n_entries;
	size_t entries_end;
	size_t ieot, ieot_end; /* table of blocks of entries, 0 = none */
	bool has_link;
	size_t name_len;
	char name[GIT_INDEX_PATH_MAX]; /* version 4: the last one */
};

static uint32_t be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t be16(const unsigned char *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

/* A number of version 4: seven bits in each byte. */
static int read_varint(struct index_cursor *r, size_t *ret)
{
	size_t value;
	unsigned c;

	if (r->pos >= r->end)
		return -EINVAL;
	c = r->data[r->pos++];
	value = c & 127;
	while (c & 128) {
		/* Longer than any name. */
		if (r->pos >= r->end || value > GIT_INDEX_PATH_MAX)
			return -EINVAL;
		c = r->data[r->pos++];
		value = ((value + 1) << 7) + (c & 127);
	}
	*ret = value;
	return 0;
}

/* In version 4 only the part that differs from the last name is on disk. */
static int read_name(struct index_cursor *r, size_t start, uint32_t flags, const char **ret,
		     size_t *ret_len)
{
	size_t keep = 0, strip, len, said = flags & NAME_MASK;
	const unsigned char *text, *nul;

	if (r->version == 4) {
		if (read_varint(r, &strip) < 0 || strip > r->name_len)
			return -EINVAL;
		keep = r->name_len - strip;
	}
	text = r->data + r->pos;
	nul = memchr(text, 0, r->end - r->pos);
	if (!nul)
		return -EINVAL;
	len = (size_t)(nul - text) + keep;
	/* Git uses the stored length, so it must agree with the name. */
	if (len >= GIT_INDEX_PATH_MAX || (said < NAME_MASK ? len != said : len < NAME_MASK))
		return -EINVAL;
	if (r->version == 4) {
		memcpy(r->name + keep, text, len - keep + 1);
		r->name_len = len;
		r->pos += len - keep + 1;
		*ret = r->name;
	} else {
		size_t size = (r->pos - start + len + 8) & ~(size_t)7;

		if (size > r->end - start)
			return -EINVAL;
		r->pos = start + size;
		*ret = (const char *)text;
	}
	*ret_len = len;
	return 0;
}

static int read_entry(struct index_cursor *r,
		      int (*fn)(void *ctx, uint32_t mode, const char *path, size_t len), void *ctx)
{
	size_t start = r->pos, fixed = STAT_BYTES + r->hash_len + 2, len;
	uint32_t mode, flags;
	const char *name;
	int e;

	if (r->end - r->pos < fixed + 2)
		return -EINVAL;
	mode = be32(r->data + start + MODE_AT);
	flags = be16(r->data + start + fixed - 2);
	r->pos += fixed + (flags & FLAG_EXTENDED ? 2 : 0);
	e = read_name(r, start, flags, &name, &len);
	return e < 0 ? e : fn(ctx, mode, name, len);
}

static int read_extension(struct index_cursor *r, struct git_index_info *info)
{
	const unsigned char *sign = r->data + r->pos, *body = sign + EXTENSION_HEADER_BYTES;
	size_t size;

	if (r->end - r->pos < EXTENSION_HEADER_BYTES)
		return -EINVAL;
	size = be32(sign + 4);
	r->pos += EXTENSION_HEADER_BYTES;
	if (size > r->end - r->pos)
		return -EINVAL;
	if (memcmp(sign, "link", 4) == 0) {
		static const unsigned char none[GIT_INDEX_HASH_MAX];

		if (r->has_link || size < r->hash_len)
			return -EINVAL;
		r->has_link = true;
		info->has_base = memcmp(body, none, r->hash_len) != 0;
		memcpy(info->base, body, r->hash_len);
	} else if (memcmp(sign, "IEOT", 4) == 0) {
		if (r->ieot || size < 4 || be32(body) != 1 || (size - 4) % IEOT_BLOCK_BYTES)
			return -EINVAL;
		r->ieot = r->pos + 4;
		r->ieot_end = r->pos + size;
	}
	r->pos += size;
	return 0;
}

/*
 * Git finds the end of the entries at a fixed place before the end of the file. It must find the
 * same extensions there as by reading in order.
 */
static int check_end_of_entries(const struct index_cursor *r)
{
	size_t size = EXTENSION_HEADER_BYTES + 4 + r->hash_len;
	const unsigned char *p;

	if (r->end < HEADER_BYTES + size)
		return 0;
	p = r->data + r->end - size;
	if (memcmp(p, "EOIE", 4) != 0)
		return 0;
	return be32(p + EXTENSION_HEADER_BYTES) == r->entries_end ? 0 : -EINVAL;
}

static int ignore_entry(void *ctx, uint32_t mode, const char *path, size_t len)
{
	(void)ctx;
	(void)mode;
	(void)path;
	(void)len;
	return 0;
}

/*
 * With several threads git reads the entries by blocks, each at its own offset and beginning with a
 * whole name. These must be the very entries that were read in order.
 */
static int check_blocks(struct index_cursor *r)
{
	uint64_t n = 0;
	int e = 0;

	r->pos = HEADER_BYTES;
	r->name_len = 0;
	for (size_t at = r->ieot; e == 0 && at && at < r->ieot_end; at += IEOT_BLOCK_BYTES) {
		uint32_t count = be32(r->data + at + 4);

		n += count;
		if (be32(r->data + at) != r->pos || n > r->n_entries)
			return -EINVAL;
		for (uint32_t i = 0; e == 0 && i < count; i++) {
			size_t before = r->name_len, start = r->pos, strip;

			if (i == 0 && r->version == 4) {
				uint32_t flags = be16(r->data + start + STAT_BYTES + r->hash_len);

				r->pos += STAT_BYTES + r->hash_len + 2 +
					  (flags & FLAG_EXTENDED ? 2 : 0);
				if (read_varint(r, &strip) < 0 || strip != before)
					return -EINVAL;
				r->pos = start;
			}
			e = read_entry(r, ignore_entry, NULL);
		}
	}
	return e == 0 && r->ieot && n != r->n_entries ? -EINVAL : e;
}

int git_index_read(const void *data, size_t size, unsigned hash_len,
		   int (*fn)(void *ctx, uint32_t mode, const char *path, size_t len), void *ctx,
		   struct git_index_info *ret)
{
	struct index_cursor r = { .data = data, .pos = HEADER_BYTES, .hash_len = hash_len };
	struct git_index_info info = { .has_base = false };
	int e = 0;

	if (hash_len > GIT_INDEX_HASH_MAX || size < HEADER_BYTES + hash_len ||
	    memcmp(data, "DIRC", 4) != 0)
		return -EINVAL;
	r.end = size - hash_len;
	r.version = be32(r.data + 4);
	r.n_entries = be32(r.data + 8);
	if (r.version < 2 || r.version > 4)
		return -EINVAL;
	for (uint32_t i = 0; e == 0 && i < r.n_entries; i++)
		e = read_entry(&r, fn, ctx);
	r.entries_end = r.pos;
	while (e == 0 && r.pos < r.end)
		e = read_extension(&r, &info);
	if (e == 0)
		e = check_end_of_entries(&r);
	if (e == 0)
		e = check_blocks(&r);
	if (e == 0)
		*ret = info;
	return e;
}

bool git_index_path_is_clean(const char *path, size_t len)
{
	if (len == 0 || len >= GIT_INDEX_PATH_MAX || memchr(path, 0, len))
		return false;
	for (size_t at = 0; at <= len;) {
		const char *slash = at < len ? memchr(path + at, '/', len - at) : NULL;
		size_t n = slash ? (size_t)(slash - path) - at : len - at;

		if (n == 0 || (n == 1 && path[at] == '.') ||
		    (n == 2 && path[at] == '.' && path[at + 1] == '.') ||
		    (n == 4 && strncasecmp(path + at, ".git", 4) == 0))
			return false;
		at += n + 1;
	}
	return true;
}

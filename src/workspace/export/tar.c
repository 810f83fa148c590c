/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes as a POSIX pax archive: a ustar header for each entry, preceded by a pax header for what
 * does not fit. Deleted names are empty files ".wh.NAME", as in container images.
 *
 * Everything in it belongs to uid 0. Set-id bits, attributes, FIFOs, sockets and devices are left
 * out, and so are files whose name begins with ".wh.", which would mean a deletion.
 *
 * Files with holes are written as GNU tar does it ("PAX sparse 1.0"), which bsdtar and Python read,
 * too: the content begins with a map, as text, of what is data.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/utf8.h"
#include "workspace/export/export.h"
#include "workspace/export/extents.h"

#define BLOCK 512
#define FILE_MAX ((uint64_t)8 << 30)
#define USTAR_SIZE_MAX UINT64_C(077777777777)
#define USTAR_TIME_MAX INT64_C(077777777777)
#define WHITEOUT ".wh."
#define COPY_SIZE 65536

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};

_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

struct entry {
	const char *path; /* of directories with a slash at the end */
	const char *target;
	char type; /* '0' file, '2' link, '5' directory, 'x' pax header */
	unsigned mode;
	uint64_t size;
	struct timespec mtime;
	bool is_sparse;
	uint64_t real_size; /* of a sparse one, with its holes */
};

static void put_padding(struct export *x, uint64_t size)
{
	static const char zeros[BLOCK];

	sink_add(&x->sink, zeros, (size_t)((BLOCK - size % BLOCK) % BLOCK));
}

/* As much of @s as fits; what does not is in the pax header. */
static void set_text(char *field, size_t size, const char *s)
{
	size_t len = strnlen(s, size);

	memcpy(field, s, len);
}

/* With zeros in front and a NUL behind. */
static void set_octal(char *field, size_t size, uint64_t value)
{
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

static void put_header(struct export *x, const struct entry *e)
{
	struct header h = { 0 };
	const unsigned char *bytes = (const unsigned char *)&h;
	int64_t mtime = e->mtime.tv_sec;
	unsigned sum = 0;

	/* A tar that does not know the format unpacks the map and the data there. */
	set_text(h.name, sizeof(h.name), e->is_sparse ? "GNUSparseFile.0/file" : e->path);
	set_octal(h.mode, sizeof(h.mode), e->mode);
	set_octal(h.uid, sizeof(h.uid), 0);
	set_octal(h.gid, sizeof(h.gid), 0);
	set_octal(h.size, sizeof(h.size), e->size <= USTAR_SIZE_MAX ? e->size : 0);
	set_octal(h.mtime, sizeof(h.mtime),
		  mtime < 0 || mtime > USTAR_TIME_MAX ? 0 : (uint64_t)mtime);
	h.type = e->type;
	if (e->target)
		set_text(h.link, sizeof(h.link), e->target);
	memcpy(h.magic, "ustar", sizeof(h.magic));
	memcpy(h.version, "00", sizeof(h.version));
	set_octal(h.major, sizeof(h.major), 0);
	set_octal(h.minor, sizeof(h.minor), 0);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += bytes[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", sum); /* then NUL and the blank */
	sink_add(&x->sink, &h, sizeof(h));
}

/* pax headers: lines "LENGTH KEY=VALUE\n", where the length counts itself. */

static void add_record(struct strbuf *sb, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3; /* blank, =, newline */
	size_t len = rest + 1;
	char digits[24];

	for (;;) {
		size_t n = rest + (size_t)snprintf(digits, sizeof(digits), "%zu", len);

		if (n == len)
			break;
		len = n;
	}
	strbuf_printf(sb, "%s %s=", digits, key);
	strbuf_puts(sb, value);
	strbuf_putc(sb, '\n');
}

static bool is_utf8(const char *s)
{
	size_t left = strlen(s), n;
	uint32_t cp;

	for (; left; s += n, left -= n) {
		n = utf8_decode(s, left, &cp);
		if (!n)
			return false;
	}
	return true;
}

static bool is_ascii(const char *s)
{
	while (*s && !(*s & 0x80))
		s++;
	return !*s;
}

/* Whether it fits into the ustar field, in characters that every tar reads the same way. */
static bool fits(const char *s, size_t size)
{
	return strlen(s) <= size && is_ascii(s);
}

static void add_mtime(struct strbuf *sb, const struct timespec *t)
{
	int64_t s = t->tv_sec;
	long ns = t->tv_nsec;
	char text[48];

	/* A decimal number: -1.5 s is kept as -2 s and half a second. */
	if (s < 0 && ns) {
		s++;
		ns = 1000000000 - ns;
	}
	snprintf(text, sizeof(text), "%s%" PRIu64 "%s%09ld", t->tv_sec < 0 ? "-" : "",
		 s < 0 ? (uint64_t)-s : (uint64_t)s, ".", ns);
	add_record(sb, "mtime", text);
}

static void add_sparse(struct strbuf *sb, const struct entry *e)
{
	char size[24];

	snprintf(size, sizeof(size), "%" PRIu64, e->real_size);
	add_record(sb, "GNU.sparse.major", "1");
	add_record(sb, "GNU.sparse.minor", "0");
	add_record(sb, "GNU.sparse.name", e->path);
	add_record(sb, "GNU.sparse.realsize", size);
}

static int put_pax(struct export *x, const struct entry *e)
{
	bool is_bytes = !is_utf8(e->path) || (e->target && !is_utf8(e->target));
	struct entry pax = { .path = "PaxHeaders/entry", .type = 'x', .mode = 0644 };
	struct strbuf sb = STRBUF_INIT;
	char size[24];

	if (is_bytes)
		add_record(&sb, "hdrcharset", "BINARY");
	if (e->is_sparse)
		add_sparse(&sb, e);
	else if (!fits(e->path, sizeof(((struct header *)NULL)->name)))
		add_record(&sb, "path", e->path);
	if (e->target && !fits(e->target, sizeof(((struct header *)NULL)->link)))
		add_record(&sb, "linkpath", e->target);
	if (e->size > USTAR_SIZE_MAX) {
		snprintf(size, sizeof(size), "%" PRIu64, e->size);
		add_record(&sb, "size", size);
	}
	if (e->mtime.tv_nsec || e->mtime.tv_sec < 0 || e->mtime.tv_sec > USTAR_TIME_MAX)
		add_mtime(&sb, &e->mtime);
	if (sb.failed) {
		strbuf_done(&sb);
		return cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory");
	}
	if (sb.len) {
		pax.size = sb.len;
		put_header(x, &pax);
		sink_add(&x->sink, sb.data, sb.len);
		put_padding(x, sb.len);
	}
	strbuf_done(&sb);
	return 0;
}

static int put_entry(struct export *x, const struct entry *e)
{
	int r = put_pax(x, e);

	if (r == 0)
		put_header(x, e);
	return r;
}

/* Files */

/* Exactly @len bytes from @at on, whatever the file has meanwhile. 1 if it had fewer. */
static int put_bytes(struct export *x, int fd, uint64_t at, uint64_t len)
{
	static const char zeros[COPY_SIZE];
	char buf[COPY_SIZE];
	bool is_short = false;

	while (len && !x->sink.error) {
		size_t step = len < sizeof(buf) ? (size_t)len : sizeof(buf);
		ssize_t n = is_short ? 0 : read_full_at(fd, buf, step, (off_t)at);

		if (n < 0)
			return (int)n;
		sink_add(&x->sink, buf, (size_t)n);
		sink_add(&x->sink, zeros, step - (size_t)n);
		is_short = is_short || (size_t)n < step;
		at += step;
		len -= step;
	}
	return is_short;
}

/* The map, in lines: how many pieces, then offset and length of each. It ends at the file's end. */
static void make_map(const struct extents *map, uint64_t size, struct strbuf *sb)
{
	static const char zeros[BLOCK];
	const struct extent *last = map->v && map->n ? &map->v[map->n - 1] : NULL;
	bool has_end = last && last->start + last->len == size;

	strbuf_printf(sb, "%zu\n", map->n + !has_end);
	for (size_t i = 0; map->v && i < map->n; i++)
		strbuf_printf(sb, "%" PRIu64 "\n%" PRIu64 "\n", map->v[i].start, map->v[i].len);
	if (!has_end)
		strbuf_printf(sb, "%" PRIu64 "\n0\n", size);
	strbuf_add(sb, zeros, (BLOCK - sb->len % BLOCK) % BLOCK);
}

/* The header and the data. 1 if the file changed meanwhile. */
static int put_pieces(struct export *x, int fd, struct entry *e, const struct extents *map,
		      const struct strbuf *text)
{
	uint64_t real_size = e->size;
	struct stat st;
	int r;

	e->is_sparse = text->len > 0;
	e->real_size = real_size;
	if (e->is_sparse)
		e->size = text->len + map->bytes;
	r = put_entry(x, e);
	if (r < 0)
		return r;
	if (text->len > 0)
		sink_add(&x->sink, text->data, text->len);
	for (size_t i = 0; map->v && i < map->n && r >= 0; i++) {
		int more = put_bytes(x, fd, map->v[i].start, map->v[i].len);

		r = more < 0 ? export_failed(x, e->path, -more) : r | more;
	}
	put_padding(x, e->size);
	if (r >= 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != real_size))
		r = 1;
	return r;
}

static int put_content(struct export *x, int fd, struct entry *e, const struct stat *st)
{
	struct strbuf text = STRBUF_INIT;
	struct extents map;
	int r = extents_read(fd, e->size, &map);

	if (r == -EFBIG) {
		r = cordon_err(x->err, CORDON_E_PATH, 0,
			       "'%s' has more holes than are written to an archive", e->path);
		cordon_err_hint(x->err, "name the paths to export, without this file");
		return r;
	}
	if (r < 0)
		return export_failed(x, e->path, -r);
	if (map.bytes < e->size)
		make_map(&map, e->size, &text);
	if (text.failed)
		r = cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory");
	else
		r = export_cover(x, st, map.bytes, map.bytes);
	if (r == 0)
		r = put_pieces(x, fd, e, &map, &text);
	strbuf_done(&text);
	extents_done(&map);
	return r;
}

static int put_file(struct export *x, uint32_t node)
{
	const struct ws_node *n = &x->changes.v[node];
	const char *path = x->path.data;
	struct entry e = { .path = path, .type = '0', .mode = n->mode & 0777u };
	struct stat st;
	int fd = cursor_open_file(&x->content.c, n->name, &st);
	int r;

	if (fd < 0)
		return export_failed(x, path, -fd);
	e.size = (uint64_t)st.st_size;
	e.mtime = st.st_mtim;
	if (e.size > FILE_MAX) {
		close(fd);
		r = cordon_err(x->err, CORDON_E_PATH, EFBIG,
			       "'%s' has %" PRIu64 " bytes, more than is written to an archive",
			       path, e.size);
		cordon_err_hint(x->err, "name the paths to export, without this file");
		return r;
	}
	r = put_content(x, fd, &e, &st);
	close(fd);
	if (r > 0) {
		/* The archive stays readable; the error is reported at its end. */
		x->late_error = cordon_err(x->err, CORDON_E_STATE, 0,
					   "'%s' changed while it was read", path);
		r = 0;
	}
	return r;
}

static int put_link(struct export *x, uint32_t node)
{
	const struct ws_node *n = &x->changes.v[node];
	struct entry e = { .path = x->path.data,
			   .target = n->target ? n->target : "",
			   .type = '2',
			   .mode = 0777 };
	struct stat st;

	if (fstatat(x->content.c.fd, n->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return export_failed(x, x->path.data, errno);
	e.mtime = st.st_mtim;
	return put_entry(x, &e);
}

static int put_directory(struct export *x, uint32_t node)
{
	const struct ws_node *n = &x->changes.v[node];
	struct entry e = { .type = '5', .mode = n->mode & 01777u };
	struct stat st;

	if (fstatat(x->content.c.fd, n->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return export_failed(x, x->path.data, errno);
	e.mtime = st.st_mtim;
	strbuf_putc(&x->path, '/');
	if (x->path.failed)
		return cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory");
	e.path = x->path.data;
	return put_entry(x, &e);
}

/* An empty file that says that @node's path is gone. */
static int put_whiteout(struct export *x, const char *path)
{
	struct entry e = { .type = '0', .mode = 0644 };
	const char *slash = strrchr(path, '/');
	size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
	struct strbuf sb = STRBUF_INIT;
	int r;

	strbuf_add(&sb, path, dir);
	strbuf_puts(&sb, WHITEOUT);
	strbuf_puts(&sb, path + dir);
	if (sb.failed)
		r = cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory");
	else {
		e.path = sb.data;
		r = put_entry(x, &e);
	}
	strbuf_done(&sb);
	return r;
}

static bool is_gone(const struct export *x, uint32_t node)
{
	return node != WS_NO_NODE && x->changes.v[node].kind == CORDON_CHANGE_DELETED;
}

/* Whether its directory was deleted or replaced by something else. */
static bool is_below_gone(const struct export *x, const struct ws_node *n)
{
	const struct ws_node *dir = n->parent == WS_NO_NODE ? NULL : &x->changes.v[n->parent];

	return dir && (dir->kind == CORDON_CHANGE_DELETED ||
		       (dir->kind == CORDON_CHANGE_TYPE && dir->type != CORDON_FILE_DIRECTORY));
}

static bool is_like_whiteout(const char *path)
{
	return !strncmp(path, WHITEOUT, strlen(WHITEOUT)) || strstr(path, "/" WHITEOUT);
}

static int put_node(struct export *x, uint32_t node)
{
	const struct ws_node *n = &x->changes.v[node];
	int r;

	if (is_like_whiteout(x->path.data)) {
		x->left_out++;
		return 0;
	}
	if (is_gone(x, node))
		return is_below_gone(x, n) ? 0 : put_whiteout(x, x->path.data);
	if (n->type != CORDON_FILE_REGULAR && n->type != CORDON_FILE_SYMLINK &&
	    n->type != CORDON_FILE_DIRECTORY) {
		x->left_out++;
		/* What it replaced is gone all the same. */
		return n->old_type ? put_whiteout(x, x->path.data) : 0;
	}
	r = walker_go_to_file(&x->content, node);
	if (r < 0)
		return export_failed(x, x->path.data, -r);
	if (n->type == CORDON_FILE_DIRECTORY)
		return put_directory(x, node);
	return n->type == CORDON_FILE_SYMLINK ? put_link(x, node) : put_file(x, node);
}

int tar_export(struct export *x)
{
	static const char end[2 * BLOCK];
	int r = export_walk(x, put_node);

	if (r < 0)
		return r;
	sink_add(&x->sink, end, sizeof(end));
	if (sink_flush(&x->sink) < 0)
		return cordon_err(x->err, CORDON_E_SYSTEM, -x->sink.error, "cannot write");
	return x->late_error ? x->late_error : r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches for a person's eyes.
 *
 * The guest wrote the text, and the user decides by it. So nothing in it is interpreted or removed:
 * control bytes and characters that reorder text are shown escaped.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/utf8.h"
#include "out.h"
#include "workspace.h"

#define COLOR_HEAD "\033[1m"
#define COLOR_HUNK "\033[36m"
#define COLOR_ADDED "\033[32m"
#define COLOR_GONE "\033[31m"
#define COLOR_OFF "\033[0m"
#define FLUSH_AT 65536
#define BAR_MAX 40
#define PATCH_MAX (256 << 20)
#define PATCH_PIECE (1 << 20) /* more is never written at once */

enum line_kind {
	LINE_HEAD = 0, /* of a file */
	LINE_HUNK,
	LINE_SAME,
	LINE_ADDED,
	LINE_GONE,
	LINE_NOTE, /* "\ No newline" */
};

/* A patch in memory, line by line. The numbers in its head say where a hunk ends, because the guest
 * decides what its lines look like. */
struct patch_cursor {
	const char *p, *end;
	uint64_t gone_left, added_left;
	const char *line;
	size_t len; /* with its newline */
	int kind;
};

/* "12,3" or "12" at *p: the second number, or 1. */
static uint64_t read_count(const char **p, const char *end)
{
	uint64_t n = 0;
	int has_count = 0;

	for (; *p < end && ((**p >= '0' && **p <= '9') || **p == ','); ++*p) {
		if (**p == ',') {
			has_count = 1;
			n = 0;
		} else {
			n = 10 * n + (uint64_t)(**p - '0');
		}
	}
	return has_count ? n : 1;
}

static int begin_hunk(struct patch_cursor *r)
{
	const char *p = r->line + 4, *end = r->line + r->len;

	r->gone_left = read_count(&p, end);
	while (p < end && (*p == ' ' || *p == '+'))
		p++;
	r->added_left = read_count(&p, end);
	return LINE_HUNK;
}

static int kind_in_hunk(struct patch_cursor *r)
{
	switch (r->line[0]) {
	case '+':
		r->added_left -= r->added_left > 0;
		return LINE_ADDED;
	case '-':
		r->gone_left -= r->gone_left > 0;
		return LINE_GONE;
	case '\\':
		return LINE_NOTE;
	default:
		r->added_left -= r->added_left > 0;
		r->gone_left -= r->gone_left > 0;
		return LINE_SAME;
	}
}

static int next_line(struct patch_cursor *r)
{
	const char *nl;

	if (r->p == r->end)
		return 0;
	nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
	r->line = r->p;
	r->p = nl ? nl + 1 : r->end;
	r->len = (size_t)(r->p - r->line);
	if (r->gone_left || r->added_left)
		r->kind = kind_in_hunk(r);
	else if (r->len > 4 && !memcmp(r->line, "@@ -", 4))
		r->kind = begin_hunk(r);
	else
		r->kind = r->line[0] == '\\' ? LINE_NOTE : LINE_HEAD;
	return 1;
}

static int refuse_large(struct cordon_error *err)
{
	cordon_err(err, CORDON_E_STATE, 0, "the patch is larger than %d MiB", PATCH_MAX >> 20);
	cordon_err_hint(err,
			"name single paths, or write it to a file: cordon workspace diff --patch "
			"> FILE");
	return -CORDON_E_STATE;
}

/* The patch as one piece of memory, which cannot grow beyond its size. */
static int load(const struct patch_source *source, struct patch_cursor *ret,
		struct cordon_error *err)
{
	int fd = memfd_create("patch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *map = NULL;
	off_t len = 0;
	int r;

	if (fd < 0 || ftruncate(fd, PATCH_MAX) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0) {
		r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a memory file");
	} else {
		r = source->make(source->arg, fd, err);
		len = lseek(fd, 0, SEEK_CUR);
		if (r < 0 && len > PATCH_MAX - PATCH_PIECE)
			r = refuse_large(err);
	}
	if (r >= 0 && len > 0) {
		map = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map == MAP_FAILED)
			r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot read the patch");
	}
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return r;
	*ret = (struct patch_cursor){ .p = map, .end = (const char *)map + len };
	return r;
}

static const char *color_of(int kind)
{
	static const char *const colors[] = {
		[LINE_HEAD] = COLOR_HEAD,   [LINE_HUNK] = COLOR_HUNK, [LINE_SAME] = "",
		[LINE_ADDED] = COLOR_ADDED, [LINE_GONE] = COLOR_GONE, [LINE_NOTE] = "",
	};

	return colors[kind];
}

/* A line without its newline. Only tabs stay; a carriage return at its end is no news where the
 * line did not change. */
static void add_clean(struct strbuf *sb, const char *p, size_t len, int kind)
{
	char one[UTF8_ESCAPED_MAX];

	if (len && p[len - 1] == '\r' && kind == LINE_SAME)
		len--;
	while (len) {
		size_t n, taken = 1;

		if (*p == '\t') {
			strbuf_putc(sb, '\t');
		} else {
			taken = utf8_escape(p, len, one, &n);
			strbuf_add(sb, one, n);
		}
		p += taken;
		len -= taken;
	}
}

int patch_show(const struct patch_source *source, int fd, struct cordon_error *err)
{
	int has_color = out_has_color(fd);
	struct strbuf sb = STRBUF_INIT;
	struct patch_cursor reader = { 0 };
	int r = load(source, &reader, err);
	int w = 0;

	if (r < 0)
		return r;
	while (w == 0 && next_line(&reader)) {
		const char *color = has_color ? color_of(reader.kind) : "";
		size_t len = reader.len;

		len -= reader.line[len - 1] == '\n';
		strbuf_puts(&sb, color);
		add_clean(&sb, reader.line, len, reader.kind);
		strbuf_puts(&sb, *color ? COLOR_OFF "\n" : "\n");
		if (sb.len > FLUSH_AT && !sb.failed) {
			w = write_full(fd, sb.data, sb.len);
			sb.len = 0;
		}
	}
	if (sb.failed)
		r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	else if (w == 0 && sb.len)
		w = write_full(fd, sb.data, sb.len);
	if (w < 0)
		r = cordon_err(err, CORDON_E_SYSTEM, -w, "cannot write");
	strbuf_done(&sb);
	return r;
}

/* Numbers */

struct file_stat {
	const char *name; /* as in the patch, perhaps in quotes */
	size_t name_len;
	int has_prefix; /* b/ is only for git */
	uint64_t added, gone;
	int is_binary;
};

static int starts_with(const struct patch_cursor *r, const char *prefix)
{
	size_t len = strlen(prefix);

	return r->len >= len && !memcmp(r->line, prefix, len);
}

/* "diff --git a/x b/x": both names are the same but for a letter, so half of it is the name. What
 * was renamed has a line of its own for it. */
static void take_name(const struct patch_cursor *r, struct file_stat *f)
{
	static const char start[] = "diff --git ", to[] = "rename to ";

	if (starts_with(r, start)) {
		size_t half = (r->len - (sizeof(start) - 1) - 2) / 2;
		const char *name = r->line + r->len - 1 - half;

		f->name = name;
		f->name_len = half;
		f->has_prefix = 1;
	} else if (starts_with(r, to)) {
		f->name = r->line + sizeof(to) - 1;
		f->name_len = r->len - sizeof(to);
		f->has_prefix = 0;
	}
}

static void add_stat(struct strbuf *sb, const struct file_stat *f)
{
	uint64_t total = f->added + f->gone;
	uint64_t plus = f->added, minus = f->gone;
	const char *name = f->name;
	size_t len = f->name_len;

	if (!name)
		return;
	strbuf_putc(sb, ' ');
	if (f->has_prefix) {
		size_t skip = name[0] == '"' ? 3 : 2;

		if (skip == 3)
			strbuf_putc(sb, '"');
		name += skip;
		len -= skip;
	}
	strbuf_add_escaped(sb, name, len);
	if (f->is_binary) {
		strbuf_puts(sb, " | binary\n");
		return;
	}
	if (total > BAR_MAX) {
		plus = plus * BAR_MAX / total + (plus && plus * BAR_MAX < total);
		minus = minus * BAR_MAX / total + (minus && minus * BAR_MAX < total);
	}
	strbuf_printf(sb, " | %llu%s", (unsigned long long)total, total ? " " : "");
	while (plus--)
		strbuf_putc(sb, '+');
	while (minus--)
		strbuf_putc(sb, '-');
	strbuf_putc(sb, '\n');
}

int patch_stat(const struct patch_source *source, struct strbuf *sb, struct cordon_error *err)
{
	struct file_stat f = { 0 };
	uint64_t files = 0, added = 0, gone = 0;
	struct patch_cursor reader = { 0 };
	int r = load(source, &reader, err);

	if (r < 0)
		return r;
	while (next_line(&reader)) {
		if (reader.kind == LINE_HEAD && starts_with(&reader, "diff --git ")) {
			add_stat(sb, &f);
			f = (struct file_stat){ 0 };
			files++;
		}
		if (reader.kind == LINE_HEAD)
			take_name(&reader, &f);
		if (reader.kind == LINE_HEAD && starts_with(&reader, "Binary files "))
			f.is_binary = 1;
		f.added += reader.kind == LINE_ADDED;
		f.gone += reader.kind == LINE_GONE;
		added += reader.kind == LINE_ADDED;
		gone += reader.kind == LINE_GONE;
	}
	add_stat(sb, &f);
	strbuf_printf(sb, " %llu file%s, %llu lines added, %llu taken away\n",
		      (unsigned long long)files, files == 1 ? "" : "s", (unsigned long long)added,
		      (unsigned long long)gone);
	return r;
}

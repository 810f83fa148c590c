/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes as unified diffs in git's form. For people: everything but the bytes of binary files. For
 * `git apply`: those as well, but nothing that git cannot represent.
 *
 * Names are quoted, so no control byte of one gets into the output. Content goes out as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/textdiff.h"
#include "workspace/export/export.h"
#include "workspace/export/extents.h"

#define TEXT_MAX ((uint64_t)16 << 20)	/* beyond, a file is treated as binary */
#define BINARY_MAX ((uint64_t)64 << 20) /* the largest file in a patch for git */
#define BINARY_LOOK 8000		/* where git looks for a NUL */
#define CONTEXT 3

#define NO_ID "0000000000000000000000000000000000000000"

/* One side of a change. */
struct version {
	unsigned mode; /* type and permissions as git writes them, 0 = it is not there */
	char *data;    /* content or target; NULL if it was not read */
	size_t len;    /* of data */
	uint64_t size; /* as announced */
	bool is_binary;
};

static unsigned mode_of(const struct export *x, int type, unsigned permissions)
{
	static const unsigned types[CORDON_FILE_MAX] = {
		[CORDON_FILE_REGULAR] = S_IFREG, [CORDON_FILE_DIRECTORY] = S_IFDIR,
		[CORDON_FILE_SYMLINK] = S_IFLNK, [CORDON_FILE_FIFO] = S_IFIFO,
		[CORDON_FILE_SOCKET] = S_IFSOCK, [CORDON_FILE_DEVICE] = S_IFCHR,
	};

	if (type == CORDON_FILE_SYMLINK)
		return S_IFLNK;
	if (x->for_git)
		return S_IFREG | (permissions & 0100 ? 0755u : 0644u);
	return types[type] | (permissions & 07777);
}

/* Reading */

static bool looks_binary(const char *data, size_t len)
{
	return memchr(data, 0, len < BINARY_LOOK ? len : BINARY_LOOK) != NULL;
}

/* At most @max bytes of @fd; -EFBIG if there are more. */
static int read_version(int fd, uint64_t max, struct version *v)
{
	struct strbuf sb = STRBUF_INIT;
	int r;

	sb.max = max;
	r = read_strbuf(fd, &sb);
	if (r < 0) {
		strbuf_done(&sb);
		return r;
	}
	v->data = sb.data;
	v->size = v->len = sb.len;
	return 0;
}

static int too_large(struct export *x, const char *path, uint64_t size)
{
	int r = cordon_err(x->err, CORDON_E_PATH, EFBIG,
			   "'%s' has %" PRIu64 " bytes, more than a patch can hold", path, size);

	cordon_err_hint(x->err, "export a tar, or leave the file out");
	return r;
}

#define COVER_FAILED 1

/* Counts the workspace's file; the base's are counted by their size. COVER_FAILED: error is set. */
static int cover(struct export *x, int fd, const struct stat *st, bool is_new)
{
	struct extents map;
	int r;

	if (!is_new)
		return 0;
	r = extents_read(fd, (uint64_t)st->st_size, &map);
	if (r < 0)
		return r;
	/* Lines and letters take a little more than the bytes they stand for. */
	r = export_cover(x, st, 2 * map.bytes, (uint64_t)st->st_size);
	extents_done(&map);
	return r < 0 ? COVER_FAILED : 0;
}

static int load_file(struct export *x, struct walker *w, uint32_t node, const char *path,
		     struct version *v)
{
	const struct ws_node *n = &x->changes.v[node];
	uint64_t max = x->for_git ? BINARY_MAX : TEXT_MAX;
	struct stat st;
	int fd;
	int r = walker_go_to_file(w, node);

	if (r < 0)
		return export_failed(x, path, -r);
	fd = cursor_open_file(&w->c, n->name, &st);
	if (fd < 0)
		return export_failed(x, path, -fd);
	v->size = (uint64_t)st.st_size;
	r = v->size > max ? -EFBIG : cover(x, fd, &st, w == &x->content);
	if (r == 0)
		r = read_version(fd, max, v);
	close(fd);
	if (r == COVER_FAILED)
		return -x->err->code;
	if (r == -EFBIG && x->for_git)
		return too_large(x, path, v->size);
	if (r < 0 && r != -EFBIG)
		return export_failed(x, path, -r);
	v->is_binary = !v->data || v->len > TEXT_MAX || looks_binary(v->data, v->len);
	return 0;
}

/* @is_old: the base's version. */
static int load(struct export *x, uint32_t node, bool is_old, struct version *v)
{
	const struct ws_node *n = &x->changes.v[node];
	const char *target = is_old ? n->old_target : n->target;
	int type = is_old ? n->old_type : n->type;
	int r = 0;

	v->mode = mode_of(x, type, is_old ? n->old_mode : n->mode);
	if (type == CORDON_FILE_SYMLINK) {
		v->data = strdup(target ? target : "");
		if (!v->data)
			return cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory");
		v->size = v->len = strlen(v->data);
	} else if (type == CORDON_FILE_REGULAR) {
		r = load_file(x, is_old ? &x->base : &x->content, node, x->path.data, v);
	}
	return r;
}

/* Writing */

static void put_name(struct export *x, const char *before, const char *prefix, const char *path,
		     const char *after)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, before);
	git_quote(&sb, prefix, path);
	strbuf_puts(&sb, after);
	if (sb.failed)
		x->sink.error = x->sink.error ? x->sink.error : -ENOMEM;
	else
		sink_add(&x->sink, sb.data, sb.len);
	strbuf_done(&sb);
}

static void put_head(struct export *x, const char *old_path, const char *new_path)
{
	put_name(x, "diff --git ", "a/", old_path, " ");
	put_name(x, "", "b/", new_path, "\n");
}

/* A name with blanks is followed by a tab there, as patch(1) wants it. */
static void put_side(struct export *x, const char *mark, const char *prefix,
		     const struct version *v)
{
	const char *path = x->path.data;

	if (!v->mode)
		sink_printf(&x->sink, "%s/dev/null\n", mark);
	else
		put_name(x, mark, prefix, path, strchr(path, ' ') ? "\t\n" : "\n");
}

static void put_index(struct export *x, const struct version *from, const struct version *to)
{
	char old_id[GIT_ID_SIZE] = NO_ID, new_id[GIT_ID_SIZE] = NO_ID;

	if (!x->for_git)
		return;
	if (from->mode)
		git_blob_id(from->data, from->len, old_id);
	if (to->mode)
		git_blob_id(to->data, to->len, new_id);
	sink_printf(&x->sink, "index %s..%s", old_id, new_id);
	if (from->mode == to->mode)
		sink_printf(&x->sink, " %06o", to->mode);
	sink_puts(&x->sink, "\n");
}

static void put_binary_name(struct export *x, const char *prefix, const struct version *v)
{
	if (!v->mode) {
		sink_puts(&x->sink, "/dev/null");
		return;
	}
	put_name(x, "", prefix, x->path.data, "");
	sink_printf(&x->sink, " (%" PRIu64 " bytes)", v->size);
}

static void put_binary(struct export *x, const struct version *from, const struct version *to)
{
	if (x->for_git) {
		sink_puts(&x->sink, "GIT binary patch\n");
		git_literal(&x->sink, to->data, to->len);
		git_literal(&x->sink, from->data, from->len);
		return;
	}
	sink_puts(&x->sink, "Binary files ");
	put_binary_name(x, "a/", from);
	sink_puts(&x->sink, " and ");
	put_binary_name(x, "b/", to);
	sink_puts(&x->sink, " differ\n");
}

static int put_content(struct export *x, const struct version *from, const struct version *to)
{
	struct strbuf sb = STRBUF_INIT;
	struct textdiff d = { 0 };
	int r = -E2BIG;

	if (!from->is_binary && !to->is_binary)
		r = textdiff_make(from->data ? from->data : "", from->len, to->data ? to->data : "",
				  to->len, 0, &d);
	if (r == -E2BIG) {
		put_binary(x, from, to);
		return 0;
	}
	if (r == 0 && d.n) {
		put_side(x, "--- ", "a/", from);
		put_side(x, "+++ ", "b/", to);
		textdiff_unified(&d, CONTEXT, &sb);
		sink_add(&x->sink, sb.data, sb.len);
	}
	textdiff_done(&d);
	r = r < 0 || sb.failed ? cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory") : 0;
	strbuf_done(&sb);
	return r;
}

/* FIFOs, sockets, devices and directories have none. */
static bool has_content(int type)
{
	return type == CORDON_FILE_REGULAR || type == CORDON_FILE_SYMLINK;
}

static void put_modes(struct export *x, const struct version *from, const struct version *to)
{
	if (!from->mode)
		sink_printf(&x->sink, "new file mode %06o\n", to->mode);
	else if (!to->mode)
		sink_printf(&x->sink, "deleted file mode %06o\n", from->mode);
	else if (from->mode != to->mode)
		sink_printf(&x->sink, "old mode %06o\nnew mode %06o\n", from->mode, to->mode);
}

/* A file was added, deleted or modified. */
static int put_file(struct export *x, uint32_t node, bool has_old, bool has_new)
{
	const struct ws_node *n = &x->changes.v[node];
	struct version from = { 0 }, to = { 0 };
	int r = 0;

	if (has_old)
		r = load(x, node, true, &from);
	if (r == 0 && has_new)
		r = load(x, node, false, &to);
	if (r == 0) {
		put_head(x, x->path.data, x->path.data);
		put_modes(x, &from, &to);
		if (has_content(has_new ? n->type : n->old_type)) {
			put_index(x, &from, &to);
			r = put_content(x, &from, &to);
		} else {
			sink_printf(&x->sink, "This is a %s\n",
				    cordon_file_type_name(has_new ? n->type : n->old_type));
		}
	}
	free(from.data);
	free(to.data);
	return r;
}

/* Nothing but a name or permissions. */
static int put_mode(struct export *x, uint32_t node)
{
	const struct ws_node *n = &x->changes.v[node];
	struct version from = { .mode = mode_of(x, n->old_type, n->old_mode) };
	struct version to = { .mode = mode_of(x, n->type, n->mode) };
	bool is_renamed = n->kind == CORDON_CHANGE_RENAMED;

	if (!is_renamed && from.mode == to.mode && x->for_git)
		return 0;
	put_head(x, is_renamed ? x->from.data : x->path.data, x->path.data);
	put_modes(x, &from, &to);
	if (is_renamed) {
		sink_puts(&x->sink, "similarity index 100%\n");
		put_name(x, "rename from ", "", x->from.data, "\n");
		put_name(x, "rename to ", "", x->path.data, "\n");
	}
	return 0;
}

/* What a patch for git cannot contain. */
static bool is_beyond_git(struct export *x, const struct ws_node *n)
{
	int type = n->type ? n->type : n->old_type;

	if (!has_content(type) && !(n->kind == CORDON_CHANGE_TYPE && has_content(n->old_type)))
		return true;
	return git_refuses(x->path.data, type == CORDON_FILE_SYMLINK) ||
	       (n->kind == CORDON_CHANGE_RENAMED && git_refuses(x->from.data, false));
}

static int put_node(struct export *x, uint32_t node)
{
	const struct ws_node *n = &x->changes.v[node];
	int r = 0;

	if (!ws_node_is_listed(&x->changes, node))
		return 0;
	if (x->for_git && is_beyond_git(x, n)) {
		x->left_out += n->type != CORDON_FILE_DIRECTORY;
		return 0;
	}
	switch ((enum cordon_change_kind)n->kind) {
	case CORDON_CHANGE_ADDED:
		return put_file(x, node, false, true);
	case CORDON_CHANGE_DELETED:
		return put_file(x, node, true, false);
	case CORDON_CHANGE_MODIFIED:
	case CORDON_CHANGE_SYMLINK:
		return put_file(x, node, true, true);
	case CORDON_CHANGE_MODE:
	case CORDON_CHANGE_RENAMED:
		return put_mode(x, node);
	case CORDON_CHANGE_TYPE:
		/* Two steps, as git has it. A directory's content has nodes of its own. */
		if (has_content(n->old_type) || !x->for_git)
			r = put_file(x, node, true, false);
		if (r == 0 && (has_content(n->type) || !x->for_git))
			r = put_file(x, node, false, true);
		return r;
	case CORDON_CHANGE_MAX:
		break;
	}
	return 0;
}

int patch_export(struct export *x)
{
	return export_walk(x, put_node);
}

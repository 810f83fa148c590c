/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/export/export.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"

#define OLD_MAX ((uint64_t)1 << 30) /* no more of the base's version is written */

/* The way out */

int sink_flush(struct sink *sink)
{
	if (!sink->error && sink->n)
		sink->error = write_full(sink->fd, sink->buf, sink->n);
	sink->n = 0;
	return sink->error;
}

void sink_add(struct sink *sink, const void *data, size_t len)
{
	const char *p = data;

	sink->total += len;
	if (len >= sizeof(sink->buf)) {
		if (sink_flush(sink) == 0)
			sink->error = write_full(sink->fd, p, len);
		return;
	}
	if (len > sizeof(sink->buf) - sink->n)
		(void)sink_flush(sink);
	if (len)
		memcpy(sink->buf + sink->n, p, len);
	sink->n += len;
}

void sink_puts(struct sink *sink, const char *s)
{
	sink_add(sink, s, strlen(s));
}

void sink_printf(struct sink *sink, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(line))
		sink->error = sink->error ? sink->error : -EOVERFLOW;
	else
		sink_add(sink, line, (size_t)n);
}

/* The walk */

int export_failed(struct export *x, const char *path, int sys_errno)
{
	int r = cordon_err(x->err, CORDON_E_PATH, sys_errno, "cannot read '%s'", path);

	if (sys_errno == ENOENT || sys_errno == ESTALE || sys_errno == EINVAL)
		cordon_err_hint(x->err, "it was changed at this moment; try again");
	return r;
}

static int check_size(struct export *x, uint64_t out)
{
	int r;

	if (x->sink.total + out <= x->covered + EXPORT_MORE_MAX)
		return 0;
	r = cordon_err(x->err, CORDON_E_PATH, EFBIG,
		       "'%s': many names for one file, or very long ones, would make the export "
		       "much larger than the workspace",
		       x->path.data ? x->path.data : "");
	cordon_err_hint(x->err, "name the paths to export");
	return r;
}

int export_cover(struct export *x, const struct stat *st, uint64_t data, uint64_t out)
{
	x->covered += data / (st->st_nlink > 0 ? st->st_nlink : 1);
	return check_size(x, out);
}

/* Whether @path is @named or below it. */
static bool is_within(const char *named, const char *path)
{
	size_t len;

	while (named[0] == '.' && named[1] == '/') {
		for (named += 2; *named == '/'; named++)
			;
	}
	if (!strcmp(named, "."))
		return true;
	len = strlen(named);
	while (len && named[len - 1] == '/')
		len--;
	return strncmp(named, path, len) == 0 && (!path[len] || path[len] == '/' || !len);
}

static bool wants(const struct export *x, const char *path)
{
	if (!x->paths || !x->paths[0])
		return true;
	for (const char *const *p = x->paths; *p; p++) {
		if (is_within(*p, path))
			return true;
	}
	return false;
}

int export_walk(struct export *x, int (*fn)(struct export *x, uint32_t node))
{
	int r = 0;

	for (size_t i = 0; i < x->changes.n && r == 0; i++) {
		const struct ws_node *node = &x->changes.v[i];
		bool is_wanted;

		if (!node->kind)
			continue;
		ws_node_path(&x->changes, (uint32_t)i, &x->path);
		is_wanted = wants(x, x->path.data);
		if (node->kind == CORDON_CHANGE_RENAMED) {
			ws_node_path(&x->changes, node->from, &x->from);
			is_wanted = is_wanted || wants(x, x->from.data);
		}
		if (x->path.failed || x->from.failed)
			return cordon_err(x->err, CORDON_E_NOMEM, 0, "out of memory");
		if (is_wanted) {
			/* The base's version may be part of it. */
			x->covered += EXPORT_ENTRY_BYTES +
				      2 * (node->old_size < OLD_MAX ? node->old_size : OLD_MAX);
			r = fn(x, (uint32_t)i);
		}
		if (r == 0)
			r = check_size(x, 0);
		/* The output is closed. */
		if (r == 0 && x->sink.error)
			break;
	}
	if (r == 0 && sink_flush(&x->sink) < 0)
		r = cordon_err(x->err, CORDON_E_SYSTEM, -x->sink.error, "cannot write");
	return r < 0 ? r : x->left_out;
}

static int start(struct export *x)
{
	int r = ws_open_base(x->ws, x->err);

	if (r < 0)
		return r;
	r = ws_collect(x->ws, &x->changes, x->err);
	if (r < 0)
		return r;
	x->content_fd = ws_open_content(x->ws);
	if (x->content_fd < 0)
		r = x->content_fd;
	if (r == 0)
		r = walker_start(&x->content, &x->changes, x->content_fd, true);
	if (r == 0)
		r = walker_start(&x->base, &x->changes, x->ws->base_fd, false);
	if (r < 0)
		return cordon_err(x->err, CORDON_E_SYSTEM, -r, "cannot open the workspace '%s'",
				  x->ws->meta.id);
	return 0;
}

struct export *export_begin(struct cordon_workspace *ws, const char *const *paths, int fd,
			    struct cordon_error *err)
{
	struct export *x = calloc(1, sizeof(*x));

	if (!x) {
		cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
		return NULL;
	}
	x->ws = ws;
	x->paths = paths;
	x->err = err;
	x->content_fd = -1;
	x->content = x->base = (struct walker)WALKER_INIT;
	x->path = x->from = (struct strbuf)STRBUF_INIT;
	x->sink.fd = fd;
	if (start(x) < 0) {
		export_end(x);
		return NULL;
	}
	return x;
}

void export_end(struct export *x)
{
	if (!x)
		return;
	walker_done(&x->content);
	walker_done(&x->base);
	if (x->content_fd >= 0)
		close(x->content_fd);
	ws_changes_done(&x->changes);
	strbuf_done(&x->path);
	strbuf_done(&x->from);
	free(x);
}

int cordon_workspace_export(struct cordon_workspace *ws, int format, const char *const *paths,
			    int fd, struct cordon_error *err)
{
	struct cordon_error local = CORDON_ERROR_INIT;
	struct export *x;
	int r;

	err = err ? err : &local;
	if (format != CORDON_EXPORT_TAR && format != CORDON_EXPORT_PATCH)
		return cordon_err(err, CORDON_E_USAGE, 0, "unknown export format %d", format);
	x = export_begin(ws, paths, fd, err);
	if (!x)
		return -err->code;
	x->for_git = format == CORDON_EXPORT_PATCH;
	r = format == CORDON_EXPORT_TAR ? tar_export(x) : patch_export(x);
	export_end(x);
	return r;
}

int cordon_workspace_patch(struct cordon_workspace *ws, const char *const *paths, int fd,
			   struct cordon_error *err)
{
	struct cordon_error local = CORDON_ERROR_INIT;
	struct export *x = export_begin(ws, paths, fd, err ? err : &local);
	int r;

	if (!x)
		return err ? -err->code : -local.code;
	r = patch_export(x);
	export_end(x);
	return r;
}

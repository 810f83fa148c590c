/* SPDX-License-Identifier: Apache-2.0 */
/* Follows a path as the kernel does, and records the symbolic links on the way. */
#include "discover/discover_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct walker {
	struct discover_ctx *ctx;
	const char *hint;
	size_t len;	  /* of cur; 0 is the root */
	const char *todo; /* in rest */
	/* Not zeroed: written before it is read, and zeroing 12 KiB takes a microsecond. */
	char cur[PATH_MAX];
	char rest[PATH_MAX];
	char text[PATH_MAX];
};

/* No prefix of a real path is a link. */
static bool is_real_prefix(const char *path, size_t len, const char *hint)
{
	return hint && strncmp(path, hint, len) == 0 && (hint[len] == '/' || hint[len] == '\0');
}

/*
 * Directories that are no links on any system; if one were, its programs would be taken for the
 * system's and get no grant. This saves two system calls for /bin/true and the like.
 */
static bool is_plain_dir(const char *path)
{
	return strcmp(path, "/usr") == 0 || strcmp(path, "/usr/bin") == 0;
}

/* Is what was walked, together with the rest, the real path? */
static bool has_arrived(const struct walker *w)
{
	return w->hint && w->len <= strlen(w->hint) && memcmp(w->cur, w->hint, w->len) == 0 &&
	       strcmp(w->todo[0] == '/' ? w->todo : "", w->hint + w->len) == 0;
}

static int note_hop(struct walker *w, struct discover_resolved *res)
{
	struct discover_hop *hop;

	if (res->n_hops == DISCOVER_HOPS_MAX)
		return -ELOOP;
	hop = &res->hops[res->n_hops];
	hop->path = arena_strndup(w->ctx->arena, w->cur, w->len);
	if (!hop->path)
		return -ENOMEM;
	hop->is_file = w->todo[strspn(w->todo, "/")] == '\0';
	res->n_hops++;
	return grants_link(w->ctx, hop->path, w->text);
}

/* cur is a link with the given text, which is to be walked before the rest. */
static int take_link(struct walker *w, size_t parent_len, size_t text_len,
		     struct discover_resolved *res)
{
	size_t todo_len = strlen(w->todo);
	int rc;

	rc = note_hop(w, res);
	if (rc < 0)
		return rc;
	if (text_len + 1 + todo_len >= PATH_MAX)
		return -ENAMETOOLONG;
	memmove(w->rest + text_len + 1, w->todo, todo_len + 1);
	memcpy(w->rest + 1, w->text, text_len);
	w->rest[0] = '/'; /* one slash too many does no harm */
	w->todo = w->rest;
	if (w->text[0] == '/') {
		w->len = 0;
		while (w->todo[1] == '/')
			w->todo++;
	} else {
		w->len = parent_len;
	}
	w->cur[w->len] = '\0';
	return 0;
}

static int step(struct walker *w, struct discover_resolved *res)
{
	const char *name = w->todo + strspn(w->todo, "/");
	size_t n = strcspn(name, "/"), parent_len = w->len;
	int text_len;

	w->todo = name + n;
	if (n == 0 || (n == 1 && name[0] == '.'))
		return 0;
	if (n == 2 && name[0] == '.' && name[1] == '.') {
		while (w->len > 0 && w->cur[--w->len] != '/')
			;
		w->cur[w->len] = '\0';
		return 0;
	}
	if (w->len + 1 + n >= PATH_MAX)
		return -ENAMETOOLONG;
	w->cur[w->len] = '/';
	memcpy(w->cur + w->len + 1, name, n);
	w->len += 1 + n;
	w->cur[w->len] = '\0';
	/* Links below /proc mean something else for each process. */
	if (strcmp(w->cur, "/proc") == 0) {
		res->magic = true;
		return w->hint ? 0 : -ENOENT;
	}
	if (is_plain_dir(w->cur) || is_real_prefix(w->cur, w->len, w->hint))
		return 0;
	text_len = disk_readlink(w->cur, w->text, sizeof(w->text));
	if (text_len == -EINVAL) /* not a link */
		return 0;
	if (text_len < 0)
		return text_len;
	return take_link(w, parent_len, (size_t)text_len, res);
}

static int walk(struct discover_ctx *ctx, const char *path, const char *hint,
		struct discover_resolved *res)
{
	__attribute__((uninitialized)) struct walker w;
	size_t len = strlen(path);
	int rc;

	if (len >= sizeof(w.rest))
		return -ENAMETOOLONG;
	w.ctx = ctx;
	w.hint = hint;
	w.len = 0;
	w.cur[0] = '\0';
	memcpy(w.rest, path, len + 1);
	w.todo = w.rest;
	while (*w.todo) {
		if (has_arrived(&w))
			break;
		rc = step(&w, res);
		if (rc < 0)
			return rc;
		if (res->magic)
			break;
	}
	if (res->magic || *w.todo)
		res->real = arena_strdup(ctx->arena, hint);
	else
		res->real = w.len ? arena_strndup(ctx->arena, w.cur, w.len) : "/";
	return res->real ? 0 : -ENOMEM;
}

int links_resolve(struct discover_ctx *ctx, const char *path, const char *hint,
		  struct discover_resolved *ret)
{
	ret->real = NULL;
	ret->magic = false;
	ret->n_hops = 0;
	if (hint && strcmp(path, hint) == 0) {
		ret->real = arena_strdup(ctx->arena, hint);
		return ret->real ? 0 : -ENOMEM;
	}
	return walk(ctx, path, hint, ret);
}

int links_resolve_dir(struct discover_ctx *ctx, const char *path, const char **ret_real)
{
	__attribute__((uninitialized)) struct discover_resolved res;
	CLEANUP(disk_close) int fd = disk_open(path, O_PATH | O_DIRECTORY);
	char real[PATH_MAX];
	int rc;

	if (fd < 0)
		return fd;
	rc = disk_fd_path(fd, real, sizeof(real));
	rc = links_resolve(ctx, path, rc < 0 ? NULL : real, &res);
	if (rc < 0)
		return rc;
	*ret_real = res.real;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* At a commit: whether the base is still what the run saw. record.h has the table. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "workspace/commit/commit.h"

/* What is checked, as it is at this moment. */
struct checked {
	const struct ws_node *node;
	const char *name;
	int base_dir_fd, upper_dir_fd;
	bool has_base;
	struct stat base;
};

/* Opens one regular file of a directory. */
static int open_in(int dir_fd, const char *name, bool may_open)
{
	struct cursor c = { .fd = dir_fd, .may_open = may_open };
	struct stat st;

	return cursor_open_file(&c, name, &st);
}

static bool is_same_file(const struct checked *j)
{
	int up_fd, lo_fd;
	bool ret;

	if ((uint64_t)j->base.st_size != j->node->size)
		return false;
	up_fd = open_in(j->upper_dir_fd, j->name, true);
	if (up_fd < 0)
		return false;
	lo_fd = open_in(j->base_dir_fd, j->name, false);
	ret = lo_fd >= 0 && ws_same_content(up_fd, lo_fd) == 1 &&
	      ws_same_attributes(up_fd, lo_fd) == 1;
	if (lo_fd >= 0)
		close(lo_fd);
	close(up_fd);
	return ret;
}

/* The base has what the workspace has. */
static bool is_done(const struct checked *j)
{
	const struct ws_node *n = j->node;
	char text[PATH_MAX + 1];

	if (n->type == CORDON_FILE_NONE || !j->has_base)
		return n->type == CORDON_FILE_NONE && !j->has_base;
	if (n->type != ws_file_type(j->base.st_mode))
		return false;
	if (n->type == CORDON_FILE_SYMLINK)
		return n->target &&
		       ws_read_link(j->base_dir_fd, j->name, text, sizeof(text)) >= 0 &&
		       strcmp(text, n->target) == 0;
	if ((j->base.st_mode & 07777) != n->mode)
		return false;
	if (n->type == CORDON_FILE_REGULAR)
		return is_same_file(j);
	/* A directory may exist and still have other attributes. */
	return n->kind != CORDON_CHANGE_MODE;
}

static const char *became(int type)
{
	switch (type) {
	case CORDON_FILE_REGULAR:
		return "became a file";
	case CORDON_FILE_DIRECTORY:
		return "became a directory";
	case CORDON_FILE_SYMLINK:
		return "became a link";
	default:
		return "became something else";
	}
}

/* The very same file, untouched. Device numbers may differ after a reboot and do not count. */
static bool has_same_identity(const struct ws_record *r, const struct stat *st)
{
	return r->ino == st->st_ino && r->size == (uint64_t)st->st_size &&
	       ws_is_same_time(&r->mtime, &st->st_mtim) && ws_is_same_time(&r->ctime, &st->st_ctim);
}

static bool has_same_hash(const struct ws_record *r, const struct checked *j)
{
	struct ws_hash hash;
	bool ok;
	int fd;

	if (!r->has_hash)
		return false;
	if (r->type == CORDON_FILE_SYMLINK)
		return ws_hash_link(j->base_dir_fd, j->name, &hash) == 0 &&
		       memcmp(hash.v, r->hash.v, sizeof(hash.v)) == 0;
	if (r->size != (uint64_t)j->base.st_size)
		return false;
	fd = open_in(j->base_dir_fd, j->name, false);
	if (fd < 0)
		return false;
	ok = ws_hash_file(fd, &hash) == 0 && memcmp(hash.v, r->hash.v, sizeof(hash.v)) == 0;
	close(fd);
	return ok;
}

static int check_recorded(const struct ws_record *r, const struct checked *j, const char **why)
{
	int type = j->has_base ? ws_file_type(j->base.st_mode) : CORDON_FILE_NONE;

	if (r->type == CORDON_FILE_NONE && type == CORDON_FILE_NONE) {
		*why = "was deleted";
		return r->is_uncertain ? WS_CHANGED : WS_AS_IT_WAS;
	}
	if (r->type == CORDON_FILE_NONE || type == CORDON_FILE_NONE) {
		*why = type == CORDON_FILE_NONE ? "was deleted" : "appeared";
		return WS_CHANGED;
	}
	if (r->type != type) {
		*why = became(type);
		return WS_CHANGED;
	}
	*why = "was changed";
	if (r->is_uncertain ||
	    (type != CORDON_FILE_SYMLINK && r->mode != (j->base.st_mode & 07777)))
		return WS_CHANGED;
	/* The content of a directory is checked by itself, if it is still the same directory. */
	if (type == CORDON_FILE_DIRECTORY)
		return r->ino == j->base.st_ino ? WS_AS_IT_WAS : WS_CHANGED;
	if (has_same_identity(r, &j->base) || has_same_hash(r, j))
		return WS_AS_IT_WAS;
	return WS_CHANGED;
}

/* Without a record. @seen: what is older was not changed since the run saw it. */
static int check_by_time(const struct checked *j, const struct timespec *seen, const char **why)
{
	const struct stat *st = &j->base;
	bool is_new = j->node->old_type == CORDON_FILE_NONE ||
		      j->node->kind == CORDON_CHANGE_RENAMED;

	*why = !j->has_base ? "was deleted" : is_new ? "appeared" : "was changed";
	if (is_new || !j->has_base)
		return is_new && !j->has_base ? WS_AS_IT_WAS : WS_CHANGED;
	if (ws_is_before(&st->st_ctim, seen))
		return WS_AS_IT_WAS;
	/* Only its entries changed; those are checked by themselves. */
	if (S_ISDIR(st->st_mode) && ws_is_same_time(&st->st_mtim, &st->st_ctim) &&
	    j->node->old_type == CORDON_FILE_DIRECTORY)
		return WS_AS_IT_WAS;
	return WS_CHANGED;
}

int ws_check_base(struct cordon_workspace *ws, const struct ws_records *records, const char *path,
		  const struct ws_node *node, int base_dir_fd, int upper_dir_fd, const char *name,
		  const char **why)
{
	struct checked j = {
		.node = node,
		.name = name,
		.base_dir_fd = base_dir_fd,
		.upper_dir_fd = upper_dir_fd,
	};
	struct timespec seen = ws->meta.created;
	const struct ws_record *r;
	bool is_above;

	*why = NULL;
	if (base_dir_fd >= 0) {
		j.has_base = fstatat(base_dir_fd, name, &j.base, AT_SYMLINK_NOFOLLOW) == 0;
		if (!j.has_base && errno != ENOENT && errno != ENOTDIR)
			return -errno;
	}
	if (is_done(&j))
		return WS_DONE;
	r = ws_records_find(records, path, &is_above);
	if (r && !is_above)
		return check_recorded(r, &j, why);
	if (r && r->type == CORDON_FILE_NONE) {
		*why = "appeared";
		return j.has_base ? WS_CHANGED : WS_AS_IT_WAS;
	}
	if (r)
		seen = r->seen;
	else if (!ws_is_overlay(ws))
		seen = ws_copy_begun(ws);
	return check_by_time(&j, &seen, why);
}

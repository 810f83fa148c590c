/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one name is: added, modified, deleted ... or nothing.
 *
 * With an overlay the guest made everything in the upper directory, and its whiteouts say what was
 * deleted. A copy holds everything, so times decide: a ctime cannot be set, so a file whose ctime
 * is older than the copy was not touched and is no change, whatever the base looks like by now. One
 * exception: renaming a directory gives it (and its parent) a new ctime, but not its content. Below
 * such a directory everything is compared.
 *
 * A name that only the base has was deleted, unless its ctime says that the host may have created
 * it later. In doubt it is not reported as deleted.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workspace/changes/collect.h"
#include "workspace/record/record.h"

static bool knows_times(const struct ws_collect *c)
{
	return c->created.tv_sec != 0 || c->created.tv_nsec != 0;
}

/* The workspace's file is as it was copied. */
static bool is_untouched(const struct ws_collect *c, const struct stat *up)
{
	return c->is_copy && knows_times(c) && ws_is_before(&up->st_ctim, &c->created);
}

/* The base's file may be younger than the copy. */
static bool is_hosts(const struct ws_collect *c, const struct stat *lo)
{
	/* Known even of a copy's copy, which does not know what was touched in it. */
	return c->is_copy && (c->begun.tv_sec != 0 || c->begun.tv_nsec != 0) &&
	       !ws_is_before(&lo->st_ctim, &c->begun);
}

static bool differs_in_mode(const struct ws_entry *e)
{
	return (e->up.st_mode & 07777) != (e->lo.st_mode & 07777);
}

/* Regular files of the same size. 0 = no difference. */
static int compare_files(struct ws_collect *c, const struct ws_entry *e, uint8_t *ret_kind)
{
	int up_fd, lo_fd, r;
	struct stat st;

	up_fd = cursor_open_file(&c->up, e->name, &st);
	if (up_fd == -ENOENT || up_fd == -EINVAL || up_fd == -ELOOP)
		return 0; /* it is being changed at this moment */
	if (up_fd < 0)
		return up_fd;
	lo_fd = cursor_open_file(&c->lo, e->name, &st);
	if (lo_fd < 0) {
		/* The guest could not read it either, so its file is a new one. */
		close(up_fd);
		*ret_kind = CORDON_CHANGE_MODIFIED;
		return lo_fd == -ENOMEM || lo_fd == -EMFILE || lo_fd == -ENFILE ? lo_fd : 0;
	}
	r = ws_same_content(up_fd, lo_fd);
	if (r == 0)
		*ret_kind = CORDON_CHANGE_MODIFIED;
	else if (r > 0 && differs_in_mode(e))
		*ret_kind = CORDON_CHANGE_MODE;
	else if (r > 0 && ws_same_attributes(up_fd, lo_fd) == 0)
		*ret_kind = CORDON_CHANGE_MODE;
	close(up_fd);
	close(lo_fd);
	return r < 0 ? r : 0;
}

static int compare_links(struct ws_collect *c, const struct ws_entry *e, uint8_t *ret_kind)
{
	size_t half = WS_BUF_SIZE / 2;
	char *up = c->buf, *lo = c->buf + half;

	if (ws_read_link(c->up.fd, e->name, up, half) < 0)
		return 0;
	if (ws_read_link(c->lo.fd, e->name, lo, half) < 0 || strcmp(up, lo) != 0)
		*ret_kind = CORDON_CHANGE_SYMLINK;
	return 0;
}

/* A copy contains only files, directories and links, so another type was not deleted, unless its
 * whole directory was. */
static bool was_left_out(const struct ws_collect *c, const struct ws_frame *f,
			 const struct stat *lo)
{
	return c->is_copy && f->in_up && !S_ISREG(lo->st_mode) && !S_ISDIR(lo->st_mode) &&
	       !S_ISLNK(lo->st_mode);
}

/* A record exists, so the copy had it: what is younger in the base is the host's new version, or
 * one that we committed. */
static bool was_seen(const struct ws_collect *c, const struct ws_frame *f, const char *name)
{
	const struct ws_record *r;
	uint32_t at;

	if (!f->is_recorded)
		return false;
	at = ws_records_child(c->records, f->record, name, strlen(name));
	r = at == WS_NO_RECORD ? NULL : &c->records->v[at];
	return r && r->is_live && r->type != CORDON_FILE_NONE;
}

static void decide_deleted(const struct ws_collect *c, const struct ws_frame *f,
			   const struct ws_entry *e, struct ws_step *ret)
{
	if (was_left_out(c, f, &e->lo))
		return;
	/* The host put it there after the copy was made. */
	if (is_hosts(c, &e->lo) && !was_seen(c, f, e->name))
		return;
	ret->kind = CORDON_CHANGE_DELETED;
	ret->down_lo = S_ISDIR(e->lo.st_mode);
}

static void decide_added(const struct ws_collect *c, const struct ws_frame *f,
			 const struct ws_entry *e, struct ws_step *ret)
{
	ret->down_up = S_ISDIR(e->up.st_mode);
	if (!f->is_fresh && !f->is_suspect && is_untouched(c, &e->up)) {
		/* The host deleted it. What the guest did below it counts all the same. */
		ret->promote = CORDON_CHANGE_ADDED;
		return;
	}
	ret->kind = CORDON_CHANGE_ADDED;
	ret->is_fresh = true;
}

static void decide_type(const struct ws_collect *c, const struct ws_frame *f,
			const struct ws_entry *e, struct ws_step *ret)
{
	ret->down_up = S_ISDIR(e->up.st_mode);
	if (is_untouched(c, &e->up) && (!f->is_suspect || is_hosts(c, &e->lo))) {
		ret->promote = CORDON_CHANGE_TYPE;
		return;
	}
	ret->kind = CORDON_CHANGE_TYPE;
	ret->down_lo = S_ISDIR(e->lo.st_mode);
	ret->is_fresh = true;
}

static int decide_both(struct ws_collect *c, const struct ws_frame *f, const struct ws_entry *e,
		       struct ws_step *ret)
{
	if (S_ISDIR(e->up.st_mode)) {
		ret->down_up = ret->down_lo = true;
		ret->is_touched = c->is_copy && !is_untouched(c, &e->up);
		ret->is_suspect = f->is_suspect || (f->is_touched && ret->is_touched);
		return 0;
	}
	if (is_untouched(c, &e->up) && (!f->is_suspect || is_hosts(c, &e->lo)))
		return 0;
	if (S_ISLNK(e->up.st_mode))
		return compare_links(c, e, &ret->kind);
	if (S_ISREG(e->up.st_mode)) {
		if (e->up.st_size == e->lo.st_size)
			return compare_files(c, e, &ret->kind);
		ret->kind = CORDON_CHANGE_MODIFIED;
		return 0;
	}
	if (differs_in_mode(e))
		ret->kind = CORDON_CHANGE_MODE;
	return 0;
}

int ws_decide(struct ws_collect *c, const struct ws_frame *f, const struct ws_entry *e,
	      struct ws_step *ret)
{
	*ret = (struct ws_step){ .is_fresh = f->is_fresh, .is_suspect = f->is_suspect };
	if (!e->has_up) {
		if (e->has_lo && e->is_gone)
			decide_deleted(c, f, e, ret);
		return 0;
	}
	if (!e->has_lo)
		decide_added(c, f, e, ret);
	else if ((e->up.st_mode & S_IFMT) != (e->lo.st_mode & S_IFMT))
		decide_type(c, f, e, ret);
	else
		return decide_both(c, f, e, ret);
	return 0;
}

int ws_decide_directory(struct ws_collect *c, const struct ws_frame *f, const struct ws_entry *e,
			bool *ret_differs)
{
	int r;

	*ret_differs = false;
	if (is_untouched(c, &e->up) && (!f->is_suspect || is_hosts(c, &e->lo)))
		return 0;
	*ret_differs = differs_in_mode(e);
	if (*ret_differs)
		return 0;
	r = ws_same_attributes(c->up.fd, c->lo.fd);
	*ret_differs = r == 0;
	return r < 0 ? r : 0;
}

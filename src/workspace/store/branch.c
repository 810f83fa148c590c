/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branches of a workspace: copies that go on by themselves.
 *
 * A run may have the workspace while it is copied (cordon_run_branch()). Its lock keeps other runs
 * and commits away from it; that the run itself is at rest is its supervisor's word. If that word
 * is wrong, because a guest lied, the copy is of no single moment, and bounded all the same. The
 * overlay may be mounted: what a guest wrote through it is the content of the files in the upper
 * directory from then on, on the disk or not. They are only read here; directories that the guest
 * has closed are opened for the visit, which the overlay, that keeps modes itself, does not show.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "workspace/store/store.h"
#include "workspace/tree/tree.h"

/* STATE of STATE/workspaces/ID. */
static int state_dir_of(const struct cordon_workspace *ws, char *ret, size_t size)
{
	const char *end = strrchr(ws->path, '/');
	size_t len;

	while (end && end > ws->path && *--end != '/')
		;
	len = end ? (size_t)(end - ws->path) : 0;
	if (len == 0 || len >= size)
		return -ENAMETOOLONG;
	memcpy(ret, ws->path, len);
	ret[len] = '\0';
	return 0;
}

/* A limit is one of what was changed. A copy of the base has all the rest, too. */
static int add_base(const struct cordon_workspace *ws, struct tree_room *room)
{
	struct tree_usage usage = { 0 };
	bool is_partial;
	int fd, r;

	if (ws_is_overlay(ws))
		return 0;
	fd = ws_open_content(ws);
	if (fd < 0)
		return fd;
	r = tree_usage(fd, &usage, &is_partial);
	close(fd);
	if (r == 0 && room->bytes < UINT64_MAX - usage.bytes)
		room->bytes += usage.bytes;
	if (r == 0 && room->entries < UINT64_MAX - usage.inodes)
		room->entries += usage.inodes;
	return r;
}

int ws_branch(struct cordon_workspace *ws, uint64_t max_bytes, uint64_t max_files,
	      struct cordon_workspace **ret, struct cordon_error *err)
{
	char state_dir[PATH_MAX];
	struct tree_room room = { max_bytes ? max_bytes : UINT64_MAX,
				  max_files ? max_files : UINT64_MAX };
	struct stat base = { .st_dev = ws->meta.base_dev, .st_ino = ws->meta.base_ino };
	struct ws_create how = {
		.state_dir = state_dir,
		.base = ws->meta.base,
		.locked_parent = ws,
		.is_lazy = true,
		.mechanism = ws_is_overlay(ws) ? CORDON_MECHANISM_OVERLAY : CORDON_MECHANISM_COPY,
		.room = &room,
	};
	int r = state_dir_of(ws, state_dir, sizeof(state_dir));

	*ret = NULL;
	if (r == 0)
		r = add_base(ws, &room);
	/* Its device may have another number after a reboot. */
	if (r == 0 && ws->base_fd >= 0 && fstat(ws->base_fd, &base) < 0)
		r = -errno;
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "%s", ws->path);
	how.base_dev = base.st_dev;
	how.base_ino = base.st_ino;
	return ws_create(&how, ret, err);
}

int cordon_workspace_branch(struct cordon_workspace *ws, uint64_t max_bytes, uint64_t max_files,
			    struct cordon_workspace **ret, struct cordon_error *err)
{
	bool was_locked = ws->is_locked;
	int r = ws_lock(ws, err);

	*ret = NULL;
	if (r < 0)
		return r;
	r = ws_open_base(ws, err);
	if (r == 0)
		r = ws_branch(ws, max_bytes, max_files, ret, err);
	if (!was_locked)
		ws_unlock(ws);
	return r;
}

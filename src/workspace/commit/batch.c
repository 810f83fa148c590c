/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/commit/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sys/calls.h"

bool batch_is_full(const struct batch *batch)
{
	return batch->n == BATCH_FILES || batch->n_dirs == BATCH_DIRS ||
	       batch->bytes >= BATCH_BYTES;
}

int batch_reserve(struct commit *c, struct batch *batch, uint32_t node)
{
	uint32_t dir = c->changes.v[node].parent;
	int fd;

	if (batch->n_dirs > 0 && batch->dir_nodes[batch->n_dirs - 1] == dir)
		return 0;
	fd = fcntl(c->base.c.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	batch->dirs[batch->n_dirs] = fd;
	batch->dir_nodes[batch->n_dirs++] = dir;
	return 0;
}

void batch_add(struct batch *batch, uint32_t node, uint64_t bytes)
{
	batch->nodes[batch->n] = node;
	batch->dir_of[batch->n++] = (uint8_t)(batch->n_dirs - 1);
	batch->bytes += bytes < BATCH_BYTES ? bytes : BATCH_BYTES;
}

static int install(struct commit *c, const struct batch *batch, size_t k)
{
	uint32_t i = batch->nodes[k];
	int dir_fd = batch->dirs[batch->dir_of[k]];
	const char *name = c->changes.v[i].name;
	char temp[COMMIT_TEMP_SIZE];
	int r;

	commit_temp_name(c, c->items[i].number, temp);
	if (c->items[i].state != ITEM_CHOSEN) {
		/* It has become part of a conflict. */
		r = sys_unlinkat(dir_fd, temp, 0);
		return r < 0 ? commit_fail(c, i, r, "cannot remove the copy of") : 0;
	}
	r = c->items[i].old ? install_over(dir_fd, temp, name, c->items[i].old)
			    : install_new(dir_fd, temp, name);
	if (r < 0) {
		/* Must not be removed: the temporary name may hold the old file. */
		c->items[i].state = ITEM_FAILED;
		return commit_fail(c, i, r, "cannot replace");
	}
	if (r == INSTALL_CHANGED)
		commit_late_conflict(c, i);
	else
		c->items[i].state = ITEM_APPLIED;
	return 0;
}

static void forget(struct batch *batch)
{
	for (size_t k = 0; k < batch->n_dirs; k++)
		close(batch->dirs[k]);
	batch->n = batch->n_dirs = 0;
	batch->bytes = 0;
}

int batch_flush(struct commit *c, struct batch *batch)
{
	int r = 0;

	if (batch->n > 0 && !c->is_small) {
		r = sys_syncfs(batch->dirs[0]);
		if (r < 0)
			return commit_fail(c, batch->nodes[0], r,
					   "cannot write to the disk, beginning with");
	}
	for (size_t k = 0; k < batch->n && r == 0; k++)
		r = install(c, batch, k);
	for (size_t k = 0; k < batch->n_dirs && r == 0; k++) {
		r = commit_sync_dir(c, batch->dirs[k]);
		if (r < 0)
			r = commit_fail(c, batch->dir_nodes[k], r, "cannot write to the disk");
	}
	if (r == 0)
		forget(batch);
	return r;
}

void batch_drop(struct commit *c, struct batch *batch)
{
	char temp[COMMIT_TEMP_SIZE];

	for (size_t k = 0; k < batch->n; k++) {
		uint32_t i = batch->nodes[k];

		if (c->items[i].state != ITEM_CHOSEN)
			continue;
		commit_temp_name(c, c->items[i].number, temp);
		unlinkat(batch->dirs[batch->dir_of[k]], temp, 0);
	}
	forget(batch);
}

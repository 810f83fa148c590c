/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/view.h"

#include <string.h>

#include "base/path.h"
#include "plan/plan_read.h"
#include "uapi/landlock.h"

static enum view step_view(const struct plan_op *op, const char *dst, const char *path)
{
	switch (op->type) {
	case PLAN_OP_DIR:
	case PLAN_OP_PRIVATE:
		return strcmp(dst, path) == 0 ? VIEW_UNKNOWN : VIEW_HIDDEN;
	case PLAN_OP_BIND:
		return op->flags & PLAN_RDONLY ? VIEW_READ_ONLY : VIEW_WRITABLE;
	case PLAN_OP_OVERLAY:
		return VIEW_WRITABLE;
	case PLAN_OP_MASK:
		return VIEW_DENIED;
	default:
		return VIEW_UNKNOWN;
	}
}

/* Level namespaces: the innermost step decides, and of two at one path the later. */
static enum view mounted_view(const struct plan_header *h, const char *path)
{
	enum view best = VIEW_HIDDEN;
	size_t best_len = 0;

	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];
		const char *dst = plan_string(h, op->dst);

		if (op->type == PLAN_OP_RULE || op->type == PLAN_OP_UPPER ||
		    strlen(dst) < best_len || !path_is_within(dst, path))
			continue;
		best = step_view(op, dst, path);
		best_len = strlen(dst);
	}
	return best;
}

/* Level landlock: the rules of a path and of what it lies in add up. */
static enum view ruled_view(const struct plan_header *h, const char *path, bool is_dir)
{
	uint64_t rights = 0;

	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];

		if (op->type == PLAN_OP_RULE &&
		    path_is_within(plan_string(h, op->dst ? op->dst : op->src), path))
			rights |= op->access;
	}
	if (rights & (is_dir ? LL_FS_MAKE_REG : LL_FS_WRITE_FILE))
		return VIEW_WRITABLE;
	return rights & (is_dir ? LL_FS_READ_DIR : LL_FS_READ_FILE) ? VIEW_READ_ONLY : VIEW_HIDDEN;
}

enum view view_of(const struct plan_header *h, const char *path, bool is_dir)
{
	return h->level == PLAN_LEVEL_NAMESPACES ? mounted_view(h, path)
						 : ruled_view(h, path, is_dir);
}

bool view_can_execute(const struct plan_header *h, const char *path)
{
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];
		const char *dst = plan_string(h, op->dst ? op->dst : op->src);

		if (op->access & LL_FS_EXECUTE && path_is_within(dst, path))
			return true;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/view.h"

#include <limits.h>
#include <stdio.h>
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
		/* Only its name is held: what it is stays what it was. */
		if (op->type == PLAN_OP_PIN && !(op->flags & PLAN_RDONLY))
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

/* Puts what the command has in place of a link in the view into @ret: "/var/tmp/x", "/tmp/x". */
static const char *without_link(const struct plan_header *h, const char *path, char ret[PATH_MAX])
{
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];
		const char *dst = plan_string(h, op->dst), *text = plan_string(h, op->src);

		if (op->type == PLAN_OP_SYMLINK && path_is_within(dst, path) &&
		    strcmp(dst, path) != 0 && text[0] == '/' &&
		    snprintf(ret, PATH_MAX, "%s%s", text, path + strlen(dst)) < PATH_MAX)
			return ret;
	}
	return path;
}

/* What is mounted around @path, NULL = only the command's root; *ret_made: a step of the plan makes
 * this very path. */
static const struct plan_op *mount_around(const struct plan_header *h, const char *path,
					  bool *ret_made)
{
	const struct plan_op *best = NULL;
	size_t best_len = 0;

	*ret_made = false;
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];
		const char *dst = plan_string(h, op->dst);

		if (op->type == PLAN_OP_RULE || op->type == PLAN_OP_UPPER ||
		    op->type == PLAN_OP_PIN || strlen(dst) < best_len || !path_is_within(dst, path))
			continue;
		*ret_made |= strcmp(dst, path) == 0;
		if (op->type == PLAN_OP_DIR || op->type == PLAN_OP_FILE ||
		    op->type == PLAN_OP_SYMLINK)
			continue;
		best = op;
		best_len = strlen(dst);
	}
	return best;
}

enum own view_own(const struct plan_header *h, const char *path)
{
	char linked[PATH_MAX], dir[PATH_MAX];
	const struct plan_op *op;
	size_t len;
	bool is_made;

	if (h->level != PLAN_LEVEL_NAMESPACES)
		return OWN_NONE;
	path = without_link(h, path, linked);
	op = mount_around(h, path, &is_made);
	if (op && op->type != PLAN_OP_PRIVATE)
		return is_made && (op->type == PLAN_OP_PROC || op->type == PLAN_OP_DEVPTS)
			       ? OWN_SHOWN
			       : OWN_NONE;
	if (is_made || !op)
		return !is_made ? OWN_NONE : op ? OWN_WRITABLE : OWN_SHOWN;
	len = path_dir_len(path);
	memcpy(dir, path, len);
	dir[len] = '\0';
	(void)mount_around(h, dir, &is_made);
	return is_made ? OWN_FREE : OWN_NONE;
}

const char *view_private(const struct plan_header *h, const char *path)
{
	char linked[PATH_MAX];
	const struct plan_op *op;
	bool is_made;

	if (h->level != PLAN_LEVEL_NAMESPACES)
		return NULL;
	op = mount_around(h, without_link(h, path, linked), &is_made);
	return op && op->type == PLAN_OP_PRIVATE ? plan_string(h, op->dst) : NULL;
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

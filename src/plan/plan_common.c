/* SPDX-License-Identifier: Apache-2.0 */
/* Has a parked init already carried out the common steps of another plan? */
#include <string.h>

#include "plan/plan.h"
#include "plan/plan_read.h"

static bool same_string(const struct plan_header *a, uint32_t a_off, const struct plan_header *b,
			uint32_t b_off)
{
	return strcmp(plan_string(a, a_off), plan_string(b, b_off)) == 0;
}

static bool same_step(const struct plan_header *a, const struct plan_op *a_op,
		      const struct plan_header *b, const struct plan_op *b_op)
{
	struct plan_op x = *a_op, y = *b_op;

	if (!same_string(a, x.dst, b, y.dst))
		return false;
	if (x.type == PLAN_OP_FILE) {
		if (x.data_len != y.data_len ||
		    memcmp(plan_string(a, x.src), plan_string(b, y.src), x.data_len) != 0)
			return false;
	} else if (!same_string(a, x.src, b, y.src)) {
		return false;
	}
	x.dst = x.src = y.dst = y.src = 0;
	return memcmp(&x, &y, sizeof(x)) == 0;
}

/* What init does by the header before it has the rest of its plan (stage_userns(), stage_common()).
 * The parent-death signal belongs to the thread that made it. */
#define COMMON_FLAGS (PLAN_MAP_SELF | PLAN_SETIDS | PLAN_DROP_GROUPS | PLAN_LOOPBACK_UP)

bool plan_has_common(const struct plan *plan, const struct plan *parked)
{
	const struct plan_header *a = plan->block, *b = parked->block;

	if (a->level != b->level || a->n_common_ops != b->n_common_ops ||
	    ((a->flags ^ b->flags) & COMMON_FLAGS) || a->inner_uid != b->inner_uid ||
	    a->inner_gid != b->inner_gid || a->outer_uid != b->outer_uid ||
	    a->outer_gid != b->outer_gid || a->handled_fs != b->handled_fs ||
	    a->handled_net != b->handled_net || a->scoped != b->scoped ||
	    a->tmpfs_bytes != b->tmpfs_bytes || a->tmpfs_inodes != b->tmpfs_inodes ||
	    !same_string(a, a->hostname, b, b->hostname))
		return false;
	for (uint32_t i = 0; i < a->n_common_ops; i++)
		if (!same_step(a, &plan_ops(a)[i], b, &plan_ops(b)[i]))
			return false;
	return true;
}

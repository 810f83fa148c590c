/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that keeps /tmp and home between runs (cordon_run_options.private_dir). */
#ifndef LAUNCH_PRIVATE_H
#define LAUNCH_PRIVATE_H

#include "format/control.h"
#include "plan/plan.h"

struct cordon_run;

struct run_private {
	int dir_fd; /* -1 = there is none */
	struct plan_private plan;
	uint64_t usage_bytes, usage_inodes; /* by the last run's account, or CONTROL_UNKNOWN */
	/* The part of it that has a name, if there is one that could not be seen; else 0. */
	uint64_t seen_bytes, seen_inodes;
};

#define RUN_PRIVATE_INIT                                                                           \
	{                                                                                          \
		.dir_fd = -1, .plan = {.tmp = { .fd = -1 }, .home = { .fd = -1 } }                 \
	}

/* Opens what the options name, if they do; made if it is missing. */
int private_begin(struct cordon_run *run, const struct cordon_policy *policy, int level,
		  struct cordon_error *err);
/* For a plan that is only shown: nothing is made. Sets @input's private_dir, which lives in @ret.
 */
int private_pretend(struct plan_input *input, struct arena *arena, struct run_private *ret,
		    struct cordon_error *err);
/* The plan's view of it; NULL = there is none. */
const struct plan_private *private_plan(const struct run_private *p);
/* Adds what it held before the run, for init's count of limits.disk. */
void private_usage(const struct cordon_run *run, struct control_limits *ret);
/* The tree is gone: what is held now is written down. */
void private_end(struct cordon_run *run);
void private_close(struct run_private *p);

#endif

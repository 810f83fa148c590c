/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace of a run: made or continued before it, settled after it. */
#ifndef LAUNCH_WORKSPACE_H
#define LAUNCH_WORKSPACE_H

#include <stdbool.h>

#include "format/control.h"
#include "plan/plan.h"

struct cordon_run;
struct cordon_workspace;

struct run_workspace {
	struct cordon_workspace *ws; /* locked by us; NULL = none, or over */
	struct plan_workspace plan;
	int dir_fd;	 /* of plan.dir; -1 = the workspace's dir_fd is used */
	bool no_overlay; /* the kernel refused one: use a copy */
	char *changes;	 /* owns info.changes */
	struct cordon_run_workspace info;
};

#define RUN_WORKSPACE_INIT { .dir_fd = -1 }

/* Finds or makes what @policy and the options ask for, fit for @level. */
int workspace_begin(struct cordon_run *run, const struct cordon_policy *policy, int level,
		    struct cordon_error *err);
/* For a dry run: describes a new one over the policy's directory without creating it. The caller
 * closes ret->dir_fd. */
int workspace_pretend(const struct cordon_policy *policy, const struct cordon_run_options *options,
		      int level, struct arena *arena, struct plan_workspace *ret,
		      struct cordon_error *err);
/* The plan's view of it; NULL = there is none. */
const struct plan_workspace *workspace_plan(const struct cordon_run *run);
/* Init's lock; -1 = there is none. */
int workspace_lend_lock(const struct cordon_run *run);
/* Its usage before the run, for init's count of limits.disk. */
void workspace_usage(const struct cordon_run *run, struct control_limits *ret);
/* Takes mount points that init made for denied names out of @ws: the run's own, or a copy of it. */
void workspace_uncover(const struct cordon_run *run, const struct cordon_workspace *ws);
/* The tree is gone: records its changes, for the result. Removes a new workspace if the run never
 * began, or if it has neither changes nor a name. */
void workspace_end(struct cordon_run *run, bool has_run);

#endif

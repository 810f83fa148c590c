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
	int dir_fd;	 /* what plan.dir names; -1 = it is the workspace's own descriptor */
	bool no_overlay; /* the kernel refused one: a copy has to do */
	char *changes;	 /* owns info.changes */
	struct cordon_run_workspace info;
};

#define RUN_WORKSPACE_INIT { .dir_fd = -1 }

/* Finds or makes what @policy and the options ask for, fit for @level. */
int workspace_begin(struct cordon_run *run, const struct cordon_policy *policy, int level,
		    struct cordon_error *err);
/* For a plan that is only shown: a new one over the policy's directory, which nobody makes. The
 * caller closes ret->dir_fd. */
int workspace_pretend(const struct cordon_policy *policy, const struct cordon_run_options *options,
		      int level, struct arena *arena, struct plan_workspace *ret,
		      struct cordon_error *err);
/* The plan's view of it; NULL = there is none. */
const struct plan_workspace *workspace_plan(const struct cordon_run *run);
/* Init's lock; -1 = there is none. */
int workspace_lock_fd(const struct cordon_run *run);
/* What it held before the run, for init's count of limits.disk. */
void workspace_held(const struct cordon_run *run, struct control_limits *ret);
/* The tree is gone: what it changed is written down, for the result. One that was made for a run
 * that never began is removed, and so is one without changes and name. */
void workspace_end(struct cordon_run *run, bool has_run);

#endif

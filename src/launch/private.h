/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that keeps /tmp and home between runs (cordon_run_options.private_dir). */
#ifndef LAUNCH_PRIVATE_H
#define LAUNCH_PRIVATE_H

#include "format/control.h"
#include "plan/plan.h"

struct cordon_run;

#define PRIVATE_USAGE_FILE "held" /* in the directory: what it holds, as far as is known */

struct run_private {
	int dir_fd; /* -1 = there is none */
	struct plan_private plan;
	uint64_t usage_bytes, usage_inodes; /* by the last run's account, or CONTROL_UNKNOWN */
	/* The part that was seen, if some of it could not be; else 0. */
	uint64_t seen_bytes, seen_inodes;
	uint64_t locked_bytes, locked_inodes; /* the other part, as it is now */
};

#define RUN_PRIVATE_INIT                                                                           \
	{                                                                                          \
		.dir_fd = -1, .plan = {.tmp = { .fd = -1 }, .home = { .fd = -1 } }                 \
	}

/* Opens the directory that the options name, if any; creates it if it is missing. */
int private_begin(struct cordon_run *run, const struct cordon_policy *policy, int level,
		  struct cordon_error *err);
/* For a dry run: nothing is created. Sets @input's private_dir, which lives in @ret. */
int private_pretend(struct plan_input *input, struct arena *arena, struct run_private *ret,
		    struct cordon_error *err);
/* The plan's view of it; NULL = there is none. */
const struct plan_private *private_plan(const struct run_private *p);
/* Adds its usage before the run, for init's count of limits.disk. */
void private_usage(const struct cordon_run *run, struct control_limits *ret);
/* The tree is gone: records the usage. */
void private_end(struct cordon_run *run);
void private_close(struct run_private *p);

/* Opens one that exists and that nobody else can change. */
int private_open_dir(const char *path, int *ret_fd, struct cordon_error *err);

/* The directory with the run's program (cordon_run_options.code_dir). @path NULL = none. Opening it
 * again closes the one before. */
int code_dir_open(const char *path, struct arena *arena, struct plan_private_dir *ret,
		  struct cordon_error *err);
void code_dir_close(struct plan_private_dir *dir);

#endif

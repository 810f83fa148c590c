/* SPDX-License-Identifier: Apache-2.0 */
/* What `cordon run` has to do with workspaces. */
#ifndef CMD_CORDON_WORKSPACE_RUN_H
#define CMD_CORDON_WORKSPACE_RUN_H

#include <cordon/run.h>

#include "options.h"

struct signals;

/* While a directory is copied: says so on a terminal, and stops if a signal comes. */
void workspace_watch_copy(const struct parsed *args, const struct signals *signals,
			  struct cordon_run_options *options);

/* --name, --from, --on-exit and --diff: do they make sense together? Sets the run's options. */
int workspace_options(const struct parsed *args, const struct cordon_policy *policy,
		      struct cordon_run_options *options, struct cordon_error *err);

/* The run is over: shows, commits, discards or keeps what it changed, as the options say. @info is
 * the result's, changed to say what became of it. @status is the exit status so far; returns the
 * one to end with. */
int workspace_conclude(const struct parsed *args, const struct cordon_result *result,
		       struct cordon_run_workspace *info, int status);

#endif

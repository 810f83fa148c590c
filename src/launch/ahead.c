/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that are started ahead, for a user to come.
 *
 * Such a run has what the thread that started it had: ids, limits, filters, a Landlock domain. If
 * the process has given something up since, or another thread asks, the run could do what a new one
 * could not. So it is compared before it is handed out, as a parked init is (mould.h). Whatever is
 * different, or cannot be read, means: start another one.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/caller.h"
#include "launch/launch.h"
#include "launch/mould.h"

static bool is_as_now(const struct cordon_run *run)
{
	struct caller_state *now;
	bool is_same;

	if (caller_state_read(run->launcher->n_filters, &now) < 0)
		return false;
	is_same = caller_state_equals(now, run->caller);
	free(now);
	return is_same;
}

void ahead_begin(struct cordon_run *run)
{
	if (run->options.ahead && caller_state_read(run->launcher->n_filters, &run->caller) < 0)
		run->caller = NULL;
}

void ahead_forget(struct cordon_run *run)
{
	free(run->caller);
	run->caller = NULL;
}

/* Another thread may have changed the umask or a limit while init was made. */
void ahead_made(struct cordon_run *run)
{
	if (run->caller && !is_as_now(run))
		ahead_forget(run);
}

/* At level landlock nobody but root may look into init, so that our domain cannot be told. */
int cordon_run_is_as_new(const struct cordon_run *run)
{
	return run->caller && run->spawned.level == PLAN_LEVEL_NAMESPACES && !run->over &&
	       !run->ending && !run->reported && !run->init_gone &&
	       run->launcher->pid == getpid() && init_is_waiting(&run->spawned) &&
	       mould_is_open(&run->spawned) && is_as_now(run);
}

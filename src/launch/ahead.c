/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that are started ahead, for a user to come.
 *
 * Such a run has what the thread that started it had: ids, limits, filters, a Landlock domain. If
 * the process has given something up since, or another thread asks, the run could do what a new one
 * could not. So it is compared before it is handed out, as a parked init is (mould.h). Whatever is
 * different, or cannot be read, means: start another one.
 *
 * A run that is held besides has a command that waits, for which no time counts.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
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

static int begin(struct cordon_run *run, const void *data, size_t len, int64_t wall_ms)
{
	struct plan_limits *l = &run->plan->limits;
	struct control_order order = { .type = CONTROL_BEGIN };
	struct relay *const input[] = { &run->in };
	int r;

	if (wall_ms != 0)
		l->wall_ms = wall_ms > 0 ? (uint64_t)wall_ms : 0;
	run->started_ns = clock_ns();
	if (l->wall_ms)
		order.limits.deadline_ns = run->started_ns + l->wall_ms * 1000000u;
	r = spawn_send(run->spawned.ctl_fd, &order, NULL, 0);
	if (r >= 0 && l->wall_ms)
		r = run_set_clock(run, l->wall_ms + l->grace_ms + BACKSTOP_MS);
	if (r < 0)
		return r;
	run->in.is_held = 0;
	run->in.data = len ? data : NULL;
	run->in.data_len = len;
	return relay_pump_all(input, 1, run->epoll_fd);
}

int cordon_run_begin(struct cordon_run *run, const void *data, size_t len, int64_t wall_ms,
		     struct cordon_error *err)
{
	int r = 0;
	bool may;

	pthread_mutex_lock(&run->lock);
	may = run->in.is_held && !run->over && !run->ending && !run->reported && !run->init_gone;
	if (may)
		r = begin(run, data, len, wall_ms);
	pthread_mutex_unlock(&run->lock);
	if (!may)
		return cordon_err(err, CORDON_E_STATE, 0, "this run is not held, or over");
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot begin the run") : 0;
}

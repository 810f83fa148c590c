/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inits made ahead. The costly part of a start (namespaces, the common steps of the plan) does not
 * depend on the run, so it can be done before. A parked init serves one run.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"
#include "launch/pool.h"

void parked_done(struct cordon_launcher *l, struct parked *parked)
{
	spawned_done(l, &parked->spawned);
	plan_free(TAKE_PTR(parked->plan));
	pool_forget(parked->pool, TAKE_PTR(parked->mould));
}

int park(struct cordon_launcher *l, struct parked *parked, struct cordon_error *err)
{
	struct plan_header *header = parked->plan->block;
	int r = spawn_init(l, SPAWN_NAMESPACES, NULL, &parked->spawned, err);

	/* The parent-death signal is for the end of the thread that made init, and not of the one
	 * that made the plan. */
	header->flags &= ~PLAN_PDEATHSIG;
	if (syscall(SYS_gettid) == l->pid)
		header->flags |= PLAN_PDEATHSIG;
	if (r == 0)
		r = spawn_deliver_common(l, &parked->spawned, parked->plan, err);
	if (r < 0) {
		spawned_done(l, &parked->spawned);
		return r;
	}
	parked->made_ns = clock_ns();
	return 0;
}

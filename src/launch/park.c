/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inits made ahead. The costly part of a start (namespaces, the common steps of the plan) does not
 * depend on the run, so it can be done before. A parked init serves one run.
 */
#include "base/err.h"
#include "launch/launch.h"
#include "launch/mould.h"
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

	/* It comes with the end of the thread that made init, which need not be the one that uses
	 * it. The supervisor's pidfd and the socket's end have to suffice. */
	header->flags &= ~PLAN_PDEATHSIG;
	/* Before init changes any of it: another thread may have had another umask for a moment. */
	if (r == 0 && parked->mould && !mould_fits(parked->mould, &parked->spawned))
		r = cordon_err(err, CORDON_E_STATE, 0, "this process has changed meanwhile");
	if (r == 0)
		r = spawn_deliver_common(l, &parked->spawned, parked->plan, err);
	if (r < 0) {
		spawned_done(l, &parked->spawned);
		return r;
	}
	parked->made_ns = clock_ns();
	return 0;
}

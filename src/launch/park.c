/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inits made ahead. The costly part of a start (namespaces, the common steps of the plan) does not
 * depend on the run, so it can be done before. A parked init serves one run.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"

void parked_done(struct cordon_launcher *l, struct parked *parked)
{
	spawned_done(l, &parked->spawned);
	plan_free(parked->plan);
	parked->plan = NULL;
}

int park(struct cordon_launcher *l, const struct cordon_policy *policy,
	 const struct cordon_run_options *options, struct parked *ret, struct cordon_error *err)
{
	struct plan_input input = { .policy = policy,
				    .options = options,
				    .level = PLAN_LEVEL_NAMESPACES,
				    .machine = &l->machine,
				    .is_main_thread = syscall(SYS_gettid) == l->pid };
	struct parked parked = { SPAWNED_INIT, NULL };
	int r = spawn_init(l, SPAWN_NAMESPACES, NULL, &parked.spawned, err);

	if (r == 0)
		r = plan_build(&input, &parked.plan, err);
	if (r == 0)
		r = spawn_deliver_common(l, &parked.spawned, parked.plan, err);
	if (r < 0) {
		parked_done(l, &parked);
		return r;
	}
	*ret = parked;
	return 0;
}

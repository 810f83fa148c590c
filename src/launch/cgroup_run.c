/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs get a control group, and with what limits. */
#include "launch/launch.h"

const struct cgroup_home *run_cgroup_home(struct cordon_launcher *l, const struct plan_input *input)
{
	const struct cgroup_home *home;

	home = plan_wants_cgroup(input, true) ? launcher_cgroups(l) : NULL;
	return home && plan_wants_cgroup(input, home->has_cpu) ? home : NULL;
}

void run_make_cgroup(struct cordon_run *run, const struct cordon_policy *policy, int level,
		     struct cgroup *ret)
{
	struct cordon_launcher *l = run->launcher;
	const struct plan_input input = {
		.policy = policy, .options = &run->options, .level = level, .machine = &l->machine
	};
	struct cgroup_limits limits = { .init_tasks = 1 };
	struct plan_limits asked;
	const struct cgroup_home *home = run_cgroup_home(l, &input);

	if (!home)
		return;
	plan_tree_limits(&input, &asked);
	limits.memory_bytes = asked.memory_bytes;
	limits.procs = asked.procs;
	if (level == PLAN_LEVEL_LANDLOCK) {
		limits.init_tasks = 2; /* the broker's thread */
		/* Without a pid namespace the others would outlive an init that is killed. */
		limits.kills_group = true;
	}
	/* A failure concerns this run only; init watches its limits instead. */
	(void)cgroup_make(home, &limits, ret);
}

void run_move_parked(struct cordon_run *run, const struct cordon_policy *policy)
{
	struct spawned *s = &run->parked.spawned;

	run_make_cgroup(run, policy, PLAN_LEVEL_NAMESPACES, &s->cgroup);
	if (s->cgroup.dir_fd >= 0 && cgroup_enter(&s->cgroup, s->pid) < 0) {
		cgroup_remove(&run->launcher->cgroups, &s->cgroup);
		cgroup_forget(&s->cgroup);
	}
}

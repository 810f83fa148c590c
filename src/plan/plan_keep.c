/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What outlives the planning.
 *
 * Most of what planning needs memory for (files that were read, paths that were tried, steps before
 * they are in the block) is of no use afterwards, and a run may last for hours. So it is done in an
 * arena of its own, and the few things that the supervisor needs are copied to the plan's.
 *
 * Whoever adds a field to struct plan that points to something has to add it here.
 */
#include <string.h>

#include "plan/plan_internal.h"

/* A copy of @n elements in the plan's arena; false = memory is out. */
static bool keep(struct plan *plan, void *array, size_t n, size_t size)
{
	void *from, *to;

	/* By memcpy: the pointer's own type is not known here. */
	memcpy(&from, array, sizeof(from));
	if (!from || n == 0)
		return true;
	to = arena_alloc(&plan->arena, n * size);
	if (!to)
		return false;
	memcpy(to, from, n * size);
	memcpy(array, &to, sizeof(to));
	return true;
}

static bool keep_string(struct plan *plan, const char **s)
{
	return keep(plan, s, *s ? strlen(*s) + 1 : 0, 1);
}

static bool keep_strings(struct plan *plan, const char ***list, size_t n)
{
	if (!keep(plan, list, n, sizeof(**list)))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!keep_string(plan, &(*list)[i]))
			return false;
	return true;
}

/* With the NULL at its end. */
static bool keep_list(struct plan *plan, const char ***list)
{
	size_t n = 0;

	while ((*list)[n])
		n++;
	return keep_strings(plan, list, n + 1);
}

static bool keep_names(struct plan *plan, struct plan_reserved **names, size_t n)
{
	if (!keep(plan, names, n, sizeof(**names)))
		return false;
	for (size_t i = 0; i < n; i++) {
		struct plan_reserved *name = &(*names)[i];

		if (!keep_string(plan, &name->name) || !keep_string(plan, &name->path) ||
		    !keep_string(plan, &name->text))
			return false;
	}
	return true;
}

static bool keep_repos(struct plan *plan)
{
	if (!keep(plan, &plan->repos, plan->n_repos, sizeof(*plan->repos)))
		return false;
	for (size_t i = 0; i < plan->n_repos; i++) {
		struct git_repo *repo = &plan->repos[i];

		if (!keep_string(plan, &repo->git_dir) || !keep_string(plan, &repo->work_dir) ||
		    !keep_string(plan, &repo->below) || !keep_string(plan, &repo->home))
			return false;
	}
	return true;
}

static bool keep_enforced(struct plan *plan)
{
	if (!keep(plan, &plan->enforced, plan->n_enforced, sizeof(*plan->enforced)))
		return false;
	for (size_t i = 0; i < plan->n_enforced; i++)
		if (!keep_string(plan, &plan->enforced[i].limit) ||
		    !keep_string(plan, &plan->enforced[i].by))
			return false;
	return true;
}

bool plan_keep(struct plan *plan)
{
	const char ***lists[] = { &plan->notes, &plan->late_notes, &plan->layers, &plan->missing };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!keep_list(plan, lists[i]))
			return false;
	return keep(plan, &plan->mount_fds, plan->n_mount_fds, sizeof(*plan->mount_fds)) &&
	       keep(plan, &plan->publish, plan->n_publish, sizeof(*plan->publish)) &&
	       keep(plan, &plan->meter, 1, sizeof(*plan->meter)) &&
	       keep_string(plan, &plan->meter_library) &&
	       keep(plan, &plan->gateway, plan->gateway ? plan->gateway->size : 0, 1) &&
	       keep_names(plan, &plan->reserved, plan->n_reserved) &&
	       keep_names(plan, &plan->absent, plan->n_absent) && keep_repos(plan) &&
	       keep_strings(plan, &plan->covered, plan->n_covered) && keep_enforced(plan) &&
	       keep_string(plan, &plan->cwd) && keep_string(plan, &plan->home) &&
	       keep_string(plan, &plan->caller_path);
}

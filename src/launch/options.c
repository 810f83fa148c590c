/* SPDX-License-Identifier: Apache-2.0 */
/* Options that outlive the call they were given to. */
#include "launch/launch.h"

static int copy_strings(struct arena *arena, const char *const *from, const char *const **ret)
{
	size_t n = 0;
	const char **copy;

	while (from && from[n])
		n++;
	copy = arena_alloc(arena, (n + 1) * sizeof(*copy));
	if (!copy)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!(copy[i] = arena_strdup(arena, from[i])))
			return -1;
	*ret = copy;
	return 0;
}

static int copy_string(struct arena *arena, const char **s)
{
	if (*s)
		*s = arena_strdup(arena, *s);
	return *s ? 0 : -1;
}

int run_options_keep(struct arena *arena, struct cordon_run_options *o)
{
	if ((o->argv && copy_strings(arena, o->argv, &o->argv) < 0) ||
	    (o->envp && copy_strings(arena, o->envp, &o->envp) < 0) ||
	    (o->cwd && copy_string(arena, &o->cwd) < 0) ||
	    (o->home && copy_string(arena, &o->home) < 0) ||
	    (o->search_path && copy_string(arena, &o->search_path) < 0) ||
	    (o->state_dir && copy_string(arena, &o->state_dir) < 0) ||
	    (o->private_dir && copy_string(arena, &o->private_dir) < 0) ||
	    (o->code_dir && copy_string(arena, &o->code_dir) < 0) ||
	    (o->workspace_name && copy_string(arena, &o->workspace_name) < 0) ||
	    (o->workspace_from && copy_string(arena, &o->workspace_from) < 0))
		return -1;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of runs that are not started: nothing on the machine is changed for them. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"

#define TRIAL_MS 10000

/* Serving files needs no command, but a plan needs a name. */
static const char *const files_argv[] = { "files", NULL };

int pretend_run(struct cordon_launcher *l, const struct plan_input *given,
		const struct cordon_run_options *options, struct plan **ret,
		struct cordon_error *err)
{
	struct plan_input input = *given;
	struct cordon_run_options copy = CORDON_RUN_OPTIONS_INIT;
	struct plan_workspace ws = { .dir_fd = -1 };
	struct run_private private_dir = RUN_PRIVATE_INIT;
	struct plan_private_dir code = { .fd = -1 };
	const struct cgroup_home *cgroups;
	struct arena arena = ARENA_INIT;
	int r = 0;

	if (!options || options->size < sizeof(size_t) || options->size > sizeof(copy))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	memcpy(&copy, options, options->size);
	if (copy.files)
		copy.argv = files_argv;
	input.machine = &l->machine;
	input.options = &copy;
	input.is_main_thread = syscall(SYS_gettid) == l->pid;
	if (input.level == PLAN_LEVEL_LANDLOCK) {
		input.tmpdir = "/tmp/cordon-XXXXXX";
		input.may_be_nobody = probe_can_drop_root();
	}
	cgroups = run_cgroup_home(l, &input);
	if (cgroups) {
		input.has_cgroup = true;
		input.has_cgroup_cpu = cgroups->has_cpu;
	}
	if (input.policy->workspace)
		r = workspace_pretend(input.policy, &copy, input.level, &arena, &ws, err);
	if (r == 0 && input.policy->workspace)
		input.workspace = &ws;
	if (r == 0 && copy.private_dir)
		r = private_pretend(&input, &arena, &private_dir, err);
	if (r == 0)
		r = code_dir_open(copy.code_dir, &arena, &code, err);
	input.code = code.fd >= 0 ? &code : NULL;
	if (r == 0)
		r = plan_build(&input, ret, err);
	if (ws.dir_fd >= 0)
		close(ws.dir_fd);
	private_close(&private_dir);
	code_dir_close(&code);
	arena_done(&arena);
	return r;
}

/* A run that serves no files to nobody: nothing of the machine's is executed. */
static void try_namespaces(struct cordon_launcher *l)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;

	options.files = 1;
	options.cwd = "/";
	if (cordon_policy_new(&policy, &err) == 0 &&
	    cordon_run_start(l, policy, &options, &run, &err) == 0)
		(void)cordon_run_wait(run, TRIAL_MS, &err);
	cordon_run_free(run);
	cordon_policy_free(policy);
}

int pretend_level(struct cordon_launcher *l, const struct cordon_policy *policy)
{
	if (policy->isolation <= CORDON_LEVEL_AUTO && !l->no_namespaces)
		try_namespaces(l);
	return policy->isolation == CORDON_LEVEL_LANDLOCK ||
			       (policy->isolation <= CORDON_LEVEL_AUTO && l->no_namespaces)
		       ? PLAN_LEVEL_LANDLOCK
		       : PLAN_LEVEL_NAMESPACES;
}

int cordon_plan_to_json(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			const struct cordon_run_options *options, char **ret,
			struct cordon_error *err)
{
	struct plan_input input = { .policy = policy };
	struct plan *plan = NULL;
	int r;

	input.level = pretend_level(launcher, policy);
	r = pretend_run(launcher, &input, options, &plan, err);
	if (r < 0)
		return r;
	r = plan_to_json(plan, 1, ret, err);
	plan_free(plan);
	return r;
}

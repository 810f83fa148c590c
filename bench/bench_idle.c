/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps sandboxes idle so that bench/run.py can weigh them.
 *
 *	bench_idle COUNT
 *
 * Prints a line when it is ready and again when all sandboxes run; goes on at each line of input
 * and ends, with all of them, at the end of its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common.h"

int main(int argc, char **argv)
{
	const char *const sleeper[] = { "/bin/sleep", "600", NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_launcher *launcher = new_launcher();
	struct cordon_policy *policy = default_policy();
	int count = argc > 1 ? atoi(argv[1]) : 0;
	struct cordon_run **runs;
	char line[16];
	char *warm[] = { argv[0], NULL };
	char true_path[] = "/bin/true";

	if (count < 1 || !(runs = calloc((size_t)count, sizeof(struct cordon_run *))))
		die("usage: bench_idle COUNT");
	warm[0] = true_path;
	/* What is needed once is not counted. */
	cordon_run_free(library_run(launcher, policy, warm, NULL));
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	options.argv = sleeper;
	options.envp = (const char *const *)environ;
	options.home = getenv("HOME");
	for (int i = 0; i < count; i++)
		if (cordon_run_start(launcher, policy, &options, &runs[i], &err) < 0)
			die("cannot start a run: %s", err.msg);
	puts("running");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	for (int i = 0; i < count; i++)
		cordon_run_free(runs[i]);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return 0;
}

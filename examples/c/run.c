/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a line of Python in a sandbox and prints the result.
 *
 *	cc run.c $(pkg-config --cflags --libs cordon) -o run
 *	./run 'print(6 * 7)'
 */
#include <stdio.h>
#include <stdlib.h>

#include <cordon/cordon.h>

static int report(const struct cordon_result *result)
{
	printf("kind:   %s\n", cordon_kind_name(result->kind));
	printf("status: %d\n", result->status);
	printf("level:  %s\n", cordon_level_name(result->level));
	printf("took:   %.1f ms\n", result->duration_ms);
	printf("stdout: ");
	fwrite(result->out.data, 1, result->out.len, stdout);
	printf("stderr: ");
	fwrite(result->err.data, 1, result->err.len, stdout);
	printf("\n");
	if (result->error.code)
		fprintf(stderr, "run: %s (%s)\n", result->error.msg, result->error.hint);
	return result->status;
}

int main(int argc, char **argv)
{
	const char *code = argc > 1 ? argv[1] : "print('hello from inside')";
	const char *const command[] = { "python3", "-c", code, NULL };
	const char *const environment[] = { "PATH=/usr/bin:/bin", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;
	int status = EXIT_FAILURE;

	options.argv = command;
	options.envp = environment;
	options.out.mode = CORDON_STREAM_CAPTURE;
	options.err.mode = CORDON_STREAM_CAPTURE;

	if (cordon_launcher_new(&launcher, &err) < 0 || cordon_policy_new(&policy, &err) < 0 ||
	    cordon_policy_set(policy, "limits.wall", "10s", &err) < 0 ||
	    cordon_policy_set(policy, "limits.output", "64K", &err) < 0 ||
	    cordon_run_start(launcher, policy, &options, &run, &err) < 0 ||
	    cordon_run_wait(run, -1, &err) < 0)
		fprintf(stderr, "run: %s%s%s\n", err.msg, err.hint[0] ? "; " : "", err.hint);
	else
		status = report(cordon_run_result(run));

	cordon_run_free(run);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return status;
}

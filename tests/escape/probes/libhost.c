/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host of the library, to be killed: libhost LEVEL DIR PROGRAM ARG...
 *
 * Two threads, none of them the first one (so no parent-death signal helps), each run PROGRAM with
 * DIR as a write grant over and over, for some seconds at most.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cordon/cordon.h>

#define SECONDS 10

static struct cordon_launcher *launcher;
static char **args;

static struct cordon_policy *make_policy(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;

	if (cordon_policy_new(&policy, &err) < 0 ||
	    cordon_policy_set(policy, "isolation", args[0], &err) < 0 ||
	    cordon_policy_set(policy, "fs.write", args[1], &err) < 0 ||
	    cordon_policy_set(policy, "fs.read", args[2], &err) < 0) {
		fprintf(stderr, "libhost: %s\n", err.msg);
		exit(2);
	}
	return policy;
}

static void *work(void *arg)
{
	struct cordon_policy *policy = make_policy();
	time_t until = time(NULL) + SECONDS;

	while (time(NULL) < until) {
		struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
		struct cordon_error err = CORDON_ERROR_INIT;
		struct cordon_run *run = NULL;

		options.argv = (const char *const *)args + 2;
		options.cwd = args[1];
		options.out.mode = CORDON_STREAM_CAPTURE;
		if (cordon_run_start(launcher, policy, &options, &run, &err) < 0 ||
		    cordon_run_wait(run, -1, &err) < 0) {
			fprintf(stderr, "libhost: %s\n", err.msg);
			exit(2);
		}
		cordon_run_free(run);
	}
	cordon_policy_free(policy);
	return arg;
}

int main(int argc, char **argv)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	pthread_t threads[2];

	args = argv + 1;
	if (argc < 4 || cordon_launcher_new(&launcher, &err) < 0)
		return 2;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, work, NULL) != 0)
			return 2;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	cordon_launcher_free(launcher);
	return 0;
}

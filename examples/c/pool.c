/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command many times, each time in a new sandbox that was made ahead.
 *
 *	cc pool.c $(pkg-config --cflags --libs cordon) -o pool
 *	./pool 20 /bin/echo hello
 */
#include <stdio.h>
#include <stdlib.h>

#include <cordon/cordon.h>

/* The pool makes the next sandbox when the run is freed, after its result was used. */
static int run_once(struct cordon_pool *pool, const struct cordon_run_options *options,
		    struct cordon_error *err)
{
	struct cordon_run *run = NULL;
	int status = -1;

	if (cordon_pool_start(pool, NULL, options, &run, err) == 0 &&
	    cordon_run_wait(run, -1, err) >= 0)
		status = cordon_run_result(run)->status;
	cordon_run_free(run);
	return status;
}

int main(int argc, char **argv)
{
	static const char *const hello[] = { "/bin/echo", "hello", NULL };
	long count = argc > 1 ? strtol(argv[1], NULL, 10) : 10;
	struct cordon_pool_options pool_options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	struct cordon_pool *pool = NULL;
	struct cordon_pool_stats stats;
	int status = EXIT_FAILURE;

	options.argv = argc > 2 ? (const char *const *)argv + 2 : hello;
	options.out.mode = CORDON_STREAM_CAPTURE;
	pool_options.parked = 2;
	if (cordon_launcher_new(&launcher, &err) == 0 && cordon_policy_new(&policy, &err) == 0 &&
	    cordon_pool_new(launcher, policy, &options, &pool_options, &pool, &err) == 0) {
		status = 0;
		for (long i = 0; i < count && status == 0; i++)
			status = run_once(pool, &options, &err);
		cordon_pool_stats(pool, &stats);
		printf("%llu runs from the pool, %llu without\n", (unsigned long long)stats.warm,
		       (unsigned long long)stats.cold);
	}
	if (err.code)
		fprintf(stderr, "pool: %s%s%s\n", err.msg, err.hint[0] ? "; " : "", err.hint);
	cordon_pool_free(pool);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return status < 0 ? EXIT_FAILURE : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancelling from another thread, at any moment: all who wait for the run are woken, and the
 * account says so. Also a run that changes hands, and one that two threads end at once.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "tap.h"

#define WAIT_MS 20000
#define ROUNDS 60
#define LATEST_US 8000

static struct cordon_launcher *launcher;
static const char *const levels[] = { "namespaces", "landlock" };

struct canceller {
	struct cordon_run *run;
	unsigned delay_us;
	int signal; /* 0 = cancel outright */
	int rc;
};

static struct cordon_run *start(const struct cordon_policy *policy)
{
	static const char *const argv[] = { "/bin/sh", "-c", "(setsid sleep 30 &); sleep 30",
					    NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run = NULL;

	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	options.out.mode = CORDON_STREAM_CAPTURE;
	if (cordon_run_start(launcher, policy, &options, &run, &err) < 0)
		printf("# %s\n", err.msg);
	return run;
}

static struct cordon_policy *policy_at(const char *level)
{
	struct cordon_policy *policy = NULL;

	CHECK_INT(cordon_policy_new(&policy, NULL), 0);
	CHECK_INT(cordon_policy_set(policy, "isolation", level, NULL), 0);
	return policy;
}

static void *cancel_later(void *arg)
{
	struct canceller *c = arg;

	usleep(c->delay_us);
	c->rc = c->signal ? cordon_run_end(c->run, c->signal, NULL)
			  : cordon_run_cancel(c->run, NULL);
	return NULL;
}

/* The owner is in cordon_run_wait() when two others end the run, one of them asking first. */
static void one_cancelled(struct cordon_run *run, unsigned delay_us)
{
	struct canceller cancellers[] = { { run, delay_us, 0, -1 },
					  { run, delay_us / 2, SIGTERM, -1 } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		REQUIRE(pthread_create(&threads[i], NULL, cancel_later, &cancellers[i]) == 0);
	CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		CHECK_INT(cancellers[i].rc, 0);
	}
	CHECK_INT(cordon_run_result(run)->kind, CORDON_KIND_CANCELLED);
}

static void test_cancel_from_another_thread(void)
{
	CHECK_INT(cordon_launcher_new(&launcher, NULL), 0);
	for (int level = 0; level < 2; level++) {
		struct cordon_policy *policy = policy_at(levels[level]);

		for (unsigned i = 0; i < ROUNDS; i++) {
			struct cordon_run *run = start(policy);

			REQUIRE(run != NULL);
			one_cancelled(run, i * LATEST_US / ROUNDS);
			cordon_run_free(run);
		}
		cordon_policy_free(policy);
	}
}

static void *cancel_and_free(void *arg)
{
	struct cordon_run *run = arg;
	int ok = cordon_run_cancel(run, NULL) == 0 && cordon_run_wait(run, WAIT_MS, NULL) == 1 &&
		 cordon_run_result(run)->kind == CORDON_KIND_CANCELLED;

	cordon_run_free(run);
	return ok ? arg : NULL;
}

/* Started in one thread, ended and freed in another: a run belongs to no thread. */
static void test_handed_over(void)
{
	for (int level = 0; level < 2; level++) {
		struct cordon_policy *policy = policy_at(levels[level]);

		for (unsigned i = 0; i < ROUNDS; i++) {
			struct cordon_run *run = start(policy);
			pthread_t thread;
			void *ok = NULL;

			REQUIRE(run != NULL);
			usleep(i * LATEST_US / ROUNDS);
			REQUIRE(pthread_create(&thread, NULL, cancel_and_free, run) == 0);
			pthread_join(thread, &ok);
			CHECK(ok != NULL);
		}
		cordon_policy_free(policy);
	}
}

static void test_nothing_left(void)
{
	cordon_launcher_free(launcher);
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
}

TAP_MAIN(test_cancel_from_another_thread, test_handed_over, test_nothing_left)

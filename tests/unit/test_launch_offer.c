/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked inits that go to another process (launch/offer.c). Here both ends are this one.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "tap.h"

#define WAIT_MS 20000

static struct cordon_launcher *launcher;
static struct cordon_policy *policy;

static void set_options(struct cordon_run_options *o, const char *const *argv)
{
	*o = (struct cordon_run_options)CORDON_RUN_OPTIONS_INIT;
	o->argv = argv;
	o->cwd = "/";
	o->home = "/nonexistent";
	o->out.mode = CORDON_STREAM_CAPTURE;
}

static struct cordon_pool *new_pool(unsigned parked)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options base;
	struct cordon_pool *pool = NULL;

	set_options(&base, argv);
	options.parked = parked;
	options.refill = CORDON_REFILL_BY_HAND;
	if (cordon_pool_new(launcher, policy, &base, &options, &pool, &err) < 0)
		printf("# %s\n", err.msg);
	return pool;
}

static struct cordon_pool_stats stats_of(struct cordon_pool *pool)
{
	struct cordon_pool_stats stats;

	cordon_pool_stats(pool, &stats);
	return stats;
}

struct offer {
	struct cordon_pool *pool;
	int fd, result;
};

static void *answer(void *arg)
{
	struct offer *o = arg;
	struct pollfd p = { .fd = o->fd, .events = POLLIN };

	if (poll(&p, 1, WAIT_MS) == 1)
		o->result = cordon_pool_offer(o->pool, o->fd, NULL);
	close(o->fd);
	return NULL;
}

/* A run that asks @pool with @proof: its exit code; *ret_given: what the pool's side said. */
static int run_offered(struct cordon_pool *pool, int proof, int *ret_given, bool *ret_warm)
{
	static const char *const argv[] = { "/bin/sh", "-c", "exit 7", NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct offer offer = { pool, -1, -100 };
	struct cordon_run_options options;
	struct cordon_run *run = NULL;
	int fds[2], code = -1;
	pthread_t thread;

	set_options(&options, argv);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	offer.fd = fds[1];
	CHECK_INT(pthread_create(&thread, NULL, answer, &offer), 0);
	if (cordon_run_start_offered(launcher, policy, &options, fds[0], proof, &run, &err) < 0)
		printf("# %s\n", err.msg);
	close(fds[0]);
	pthread_join(thread, NULL);
	if (run) {
		const char *why = cordon_run_why_cold(run);

		CHECK_INT(cordon_run_wait(run, WAIT_MS, &err), 1);
		code = cordon_run_result(run)->exit_code;
		*ret_warm = !why;
		if (why)
			printf("# cold: %s\n", why);
	}
	cordon_run_free(run);
	*ret_given = offer.result;
	return code;
}

static void test_begin(void)
{
	REQUIRE(cordon_launcher_new(&launcher, NULL) == 0);
	REQUIRE(cordon_policy_new(&policy, NULL) == 0);
}

static void test_offered(void)
{
	struct cordon_pool *pool = new_pool(2);
	int proof, given = 0, fds[2];
	bool is_warm = false;

	REQUIRE(pool != NULL);
	/* Of filters only the number can be compared: then nothing is given. */
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0 || stats_of(pool).parked == 0) {
		printf("# nothing can be offered here\n");
		cordon_pool_free(pool);
		return;
	}
	CHECK_INT(cordon_pool_fd(pool), -1);
	CHECK_INT(cordon_pool_offer(pool, -1, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_pool_share(NULL, NULL), -CORDON_E_USAGE);
	proof = cordon_pool_share(pool, NULL);
	CHECK_INT(proof >= 0, 1);
	CHECK_INT(cordon_pool_share(pool, NULL), proof);
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(given, 1);
	CHECK_INT(is_warm, 1);
	CHECK_INT(stats_of(pool).parked, 1);
	/* Not the proof: nothing is even asked, and the run is cold. */
	CHECK_INT(run_offered(pool, 0, &given, &is_warm), 7);
	CHECK_INT(is_warm, 0);
	CHECK_INT(given <= 0, 1);
	CHECK_INT(stats_of(pool).parked, 1);
	/* What is no request. */
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	CHECK_INT(cordon_pool_offer(pool, fds[1], NULL), 0);
	CHECK_INT((int)send(fds[0], "x", 1, 0), 1);
	CHECK_INT(cordon_pool_offer(pool, fds[1], NULL), 0);
	close(fds[0]);
	CHECK_INT(cordon_pool_offer(pool, fds[1], NULL), 0);
	close(fds[1]);
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(is_warm, 1);
	/* None is left. */
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(is_warm, 0);
	CHECK_INT(cordon_pool_refill(pool, NULL), 2);
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(is_warm, 1);
	cordon_pool_free(pool);
}

static void test_end(void)
{
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
}

TAP_MAIN(test_begin, test_offered, test_end)

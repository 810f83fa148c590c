/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and ends as a host program meets them: what the result says, and from which thread. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "launch/launch.h"
#include "tap.h"

#define WAIT_MS 20000

static struct cordon_launcher *launcher;

struct settings {
	const char *key, *value;
};

static struct cordon_run *start(const char *script, const struct settings *settings,
				const struct cordon_run_options *given)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct cordon_run_options options = *given;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;

	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	options.out.mode = CORDON_STREAM_CAPTURE;
	CHECK_INT(cordon_policy_new(&policy, &err), 0);
	for (; settings && settings->key; settings++)
		CHECK_INT(cordon_policy_set(policy, settings->key, settings->value, &err), 0);
	if (cordon_run_start(launcher, policy, &options, &run, &err) < 0)
		printf("# %s\n", err.msg);
	cordon_policy_free(policy);
	return run;
}

static const struct cordon_result *end_of(struct cordon_run *run)
{
	CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
	return cordon_run_result(run);
}

static const char *held_by(const struct cordon_result *res, const char *limit)
{
	for (size_t i = 0; i < res->n_limits; i++)
		if (strcmp(res->limits[i].limit, limit) == 0)
			return res->limits[i].by;
	return NULL;
}

/* A caller who says nothing has a limit of memory and one of time; one who says none has none. */
static void test_defaults(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const struct cordon_result *res;
	struct cordon_run *run;

	CHECK_INT(cordon_launcher_new(&launcher, NULL), 0);
	run = start("x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo $?", NULL, &options);
	res = end_of(run);
	CHECK_INT(res->kind, CORDON_KIND_MEMORY);
	CHECK_INT(res->status, 137);
	CHECK(res->max_memory_bytes > (uint64_t)200 << 20);
	CHECK(held_by(res, "memory") != NULL);
	CHECK(held_by(res, "wall") != NULL);
	cordon_run_free(run);

	options.default_wall_ms = options.default_memory_bytes = -1;
	run = start("true", NULL, &options);
	res = end_of(run);
	CHECK_INT(res->kind, CORDON_KIND_EXITED);
	CHECK(held_by(res, "memory") == NULL);
	CHECK(held_by(res, "wall") == NULL);
	CHECK_STR(held_by(res, "procs"), "rlimit");
	cordon_run_free(run);
}

static void test_grace(void)
{
	static const struct settings none[] = { { "limits.grace", "0" }, { NULL, NULL } };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const char *flushes = "trap 'echo flushed; exit 5' TERM; while :; do sleep 0.01; done";
	const struct cordon_result *res;
	struct cordon_run *run;

	options.default_wall_ms = 300;
	run = start(flushes, NULL, &options);
	res = end_of(run);
	CHECK_INT(res->kind, CORDON_KIND_TIMEOUT);
	CHECK_INT(res->status, 124);
	CHECK_INT(res->exit_code, 5);
	CHECK(res->out.len == 8 && memcmp(res->out.data, "flushed\n", 8) == 0);
	cordon_run_free(run);

	run = start(flushes, none, &options);
	res = end_of(run);
	CHECK_INT(res->kind, CORDON_KIND_TIMEOUT);
	CHECK_INT(res->signal, SIGKILL);
	CHECK_INT((int)res->out.len, 0);
	cordon_run_free(run);
}

static void wait_for_output(struct cordon_run *run, int fd, char *ret)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN },
			      { .fd = cordon_run_fd(run), .events = POLLIN } };

	for (;;) {
		CHECK(poll(p, 2, WAIT_MS) > 0);
		CHECK(cordon_run_process(run, NULL) >= 0);
		if (p[0].revents) {
			CHECK_INT((int)read(fd, ret, 1), 1);
			return;
		}
	}
}

/* Asked to end: what it does about it is its own, for as long as the grace lasts. */
static void test_end(void)
{
	static const struct settings brief[] = { { "limits.grace", "200ms" }, { NULL, NULL } };
	static const char *const scripts[] = {
		"trap 'exit 6' INT; echo; while :; do sleep 0.01; done",
		"trap '' INT TERM; echo; while :; do sleep 0.01; done",
	};
	for (int i = 0; i < 2; i++) {
		struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
		const char *argv[] = { "/bin/sh", "-c", scripts[i], NULL };
		struct cordon_policy *policy = NULL;
		const struct cordon_result *res;
		struct cordon_run *run = NULL;
		int fds[2];
		char byte;

		CHECK_INT(pipe(fds), 0);
		options.argv = argv;
		options.cwd = "/";
		options.out = (struct cordon_stream){ .mode = CORDON_STREAM_FD, .fd = fds[1] };
		CHECK_INT(cordon_policy_new(&policy, NULL), 0);
		CHECK_INT(cordon_policy_set(policy, brief[0].key, brief[0].value, NULL), 0);
		CHECK_INT(cordon_run_start(launcher, policy, &options, &run, NULL), 0);
		wait_for_output(run, fds[0], &byte);
		CHECK_INT(cordon_run_end(run, SIGINT, NULL), 0);
		res = end_of(run);
		CHECK_INT(res->kind, CORDON_KIND_CANCELLED);
		CHECK_INT(i == 0 ? res->exit_code : res->signal, i == 0 ? 6 : SIGKILL);
		CHECK_INT(cordon_run_end(run, 0, NULL), -CORDON_E_USAGE);
		CHECK_INT(cordon_run_end(run, SIGINT, NULL), 0);
		cordon_run_free(run);
		cordon_policy_free(policy);
		close(fds[0]);
		close(fds[1]);
	}
}

static void *cancel_soon(void *arg)
{
	usleep(50000);
	CHECK_INT(cordon_run_cancel(arg, NULL), 0);
	CHECK_INT(cordon_run_cancel(arg, NULL), 0);
	return NULL;
}

static void test_cancel_from_another_thread(void)
{
	for (int i = 0; i < 10; i++) {
		struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
		struct cordon_run *run = start("sleep 30", NULL, &options);
		const struct cordon_result *res;
		pthread_t thread;

		REQUIRE(run != NULL);
		CHECK_INT(pthread_create(&thread, NULL, cancel_soon, run), 0);
		CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
		res = cordon_run_result(run);
		CHECK_INT(res->kind, CORDON_KIND_CANCELLED);
		CHECK_INT(pthread_join(thread, NULL), 0);
		cordon_run_free(run);
	}
}

/* The command's result is complete while what it left goes on, until the run is freed. */
static void test_orphans(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const struct cordon_result *res;
	struct cordon_run *run;
	int fds[2];
	char byte;

	run = start("(sleep 30; echo late) & echo done; exit 3", NULL, &options);
	res = end_of(run);
	CHECK_INT(res->exit_code, 3);
	CHECK(res->duration_ms < 10000);
	cordon_run_free(run);

	CHECK_INT(pipe(fds), 0);
	options.orphans = CORDON_ORPHANS_KEEP;
	options.err = (struct cordon_stream){ .mode = CORDON_STREAM_FD, .fd = fds[1] };
	run = start("(while :; do echo >&2; sleep 0.05; done) & echo done; exit 3", NULL, &options);
	res = end_of(run);
	CHECK_INT(res->kind, CORDON_KIND_EXITED);
	CHECK_INT(res->exit_code, 3);
	CHECK(res->out.len == 5 && memcmp(res->out.data, "done\n", 5) == 0);
	for (int i = 0; i < 5; i++)
		wait_for_output(run, fds[0], &byte);
	CHECK_INT(cordon_run_cancel(run, NULL), 0);
	cordon_run_free(run);
	close(fds[1]);
	/* No writer is left. */
	for (int n = 1; n > 0;)
		n = (int)read(fds[0], &byte, 1);
	close(fds[0]);
}

/* The limits hold for the orphans, too. */
static void test_orphans_are_limited(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct timespec begin, now;
	struct cordon_run *run;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	options.orphans = CORDON_ORPHANS_KEEP;
	options.default_wall_ms = 400;
	run = start("(sleep 30; sleep 30) & exit 0", NULL, &options);
	CHECK_INT(end_of(run)->kind, CORDON_KIND_EXITED);
	CHECK(!run->over && !cordon_run_is_over(run));
	do {
		struct pollfd p = { .fd = cordon_run_fd(run), .events = POLLIN };

		CHECK_INT(cordon_run_process(run, NULL), 1);
		if (run->over)
			break;
		poll(&p, 1, 1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < 10);
	CHECK(run->over && cordon_run_is_over(run));
	cordon_run_free(run);
}

static void test_close(void)
{
	cordon_launcher_free(launcher);
}

TAP_MAIN(test_defaults, test_grace, test_end, test_cancel_from_another_thread, test_orphans,
	 test_orphans_are_limited, test_close)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library as a host program uses it: streams, ends, many at once, from threads. Whatever
 * happens, the host has afterwards what it had before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "format/placeholder.h"
#include "launch/launch.h"
#include "launch/locks.h"
#include "tap.h"

#define WAIT_MS 20000
#define THREADS 4
#define RUNS_EACH 25
#define AT_ONCE 40

static struct cordon_launcher *launcher;
static struct cordon_policy *policy;
static int fds_at_start;

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void test_open(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	fds_at_start = count_fds();
	CHECK_INT(cordon_launcher_new(&launcher, &err), 0);
	CHECK_INT(cordon_policy_new(&policy, &err), 0);
}

static struct cordon_run *start_shell(const char *script, const struct cordon_run_options *given)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct cordon_run_options options = *given;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run = NULL;

	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	if (cordon_run_start(launcher, policy, &options, &run, &err) < 0)
		printf("# %s\n", err.msg);
	return run;
}

static const struct cordon_result *end_of(struct cordon_run *run)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	CHECK_INT(cordon_run_wait(run, WAIT_MS, &err), 1);
	return cordon_run_result(run);
}

static void test_capture_and_data(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const struct cordon_result *res;
	struct cordon_run *run;

	options.in.mode = CORDON_STREAM_DATA;
	options.in.data = "some input";
	options.in.data_len = 10;
	options.out.mode = options.err.mode = CORDON_STREAM_CAPTURE;
	run = start_shell("cat; echo problem >&2; exit 7", &options);
	res = end_of(run);
	CHECK_INT(res->kind, CORDON_KIND_EXITED);
	CHECK_INT(res->exit_code, 7);
	CHECK(res->out.len == 10 && memcmp(res->out.data, "some input", 10) == 0);
	CHECK(res->err.len == 8 && memcmp(res->err.data, "problem\n", 8) == 0);
	cordon_run_free(run);
}

static void test_join_keeps_the_order(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const struct cordon_result *res;
	struct cordon_run *run;

	options.out.mode = CORDON_STREAM_CAPTURE;
	options.err.mode = CORDON_STREAM_JOIN;
	run = start_shell("echo 1; echo 2 >&2; echo 3", &options);
	res = end_of(run);
	CHECK(res->out.len == 6 && memcmp(res->out.data, "1\n2\n3\n", 6) == 0);
	cordon_run_free(run);
}

static void test_terminal(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct cordon_result *res;
	struct cordon_run *run;

	options.in.mode = CORDON_STREAM_DATA;
	options.in.data = "typed\n\004";
	options.in.data_len = 7;
	options.out.mode = CORDON_STREAM_CAPTURE;
	options.terminal = 1;
	options.rows = 40;
	options.cols = 120;
	run = start_shell("stty -echo size; echo err >&2; exec cat", &options);
	res = end_of(run);
	CHECK_INT(res->exit_code, 0);
	CHECK(memmem(res->out.data, res->out.len, "40 120\r\n", 8) != NULL); /* after the echo */
	CHECK(res->out.len >= 12 &&
	      memcmp(res->out.data + res->out.len - 12, "err\r\ntyped\r\n", 12) == 0);
	CHECK_INT(cordon_run_resize(run, 1, 1, &err), 0); /* it is over, and nothing happens */
	cordon_run_free(run);

	/* Resized before there is a terminal, and long after. */
	options.in.mode = CORDON_STREAM_NULL;
	run = start_shell(
		"trap 'stty size; case $(stty size) in 42*) exit 7; esac' WINCH; stty size; "
		"while :; do sleep 0.02; done",
		&options);
	CHECK_INT(cordon_run_resize(run, 0, 5, &err), -CORDON_E_USAGE);
	CHECK_INT(cordon_run_resize(run, 41, 121, &err), 0);
	CHECK_INT(cordon_run_wait(run, 300, &err), 0);
	CHECK_INT(cordon_run_resize(run, 42, 122, &err), 0);
	res = end_of(run);
	CHECK_INT(res->exit_code, 7);
	CHECK(res->out.len >= 8 && memcmp(res->out.data + res->out.len - 8, "42 122\r\n", 8) == 0);
	cordon_run_free(run);

	/* Standard error apart. */
	options.err.mode = CORDON_STREAM_CAPTURE;
	run = start_shell("test -t 0 && test -t 1 && test ! -t 2 && echo out && echo err >&2",
			  &options);
	res = end_of(run);
	CHECK_INT(res->exit_code, 0);
	CHECK(res->out.len == 5 && memcmp(res->out.data, "out\r\n", 5) == 0);
	CHECK(res->err.len == 4 && memcmp(res->err.data, "err\n", 4) == 0);
	cordon_run_free(run);

	options.terminal = 0;
	run = start_shell("true", &options);
	CHECK_INT(cordon_run_resize(run, 1, 1, &err), -CORDON_E_USAGE);
	cordon_run_free(run);
}

static void test_stopped(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run;

	options.out.mode = CORDON_STREAM_CAPTURE;
	options.terminal = 1;
	run = start_shell("kill -TSTP $$; kill -TSTP $$; exit 5", &options);
	for (int i = 0; i < 2; i++) {
		int r = 0;

		for (int k = 0; k < 400 && r == 0 && !cordon_run_is_stopped(run); k++)
			r = cordon_run_wait(run, 50, &err);
		CHECK(cordon_run_is_stopped(run));
		CHECK_INT(cordon_run_signal(run, SIGCONT, &err), 0);
		CHECK(!cordon_run_is_stopped(run));
	}
	CHECK_INT(end_of(run)->exit_code, 5);
	CHECK(!cordon_run_is_stopped(run));
	cordon_run_free(run);
}

static void test_ends(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run;

	run = start_shell("kill -USR1 $$", &options);
	CHECK_INT(end_of(run)->kind, CORDON_KIND_SIGNALED);
	CHECK_INT(cordon_run_result(run)->signal, SIGUSR1);
	cordon_run_free(run);

	options.default_wall_ms = 100;
	run = start_shell("sleep 30", &options);
	CHECK_INT(end_of(run)->kind, CORDON_KIND_TIMEOUT);
	cordon_run_free(run);

	options.default_wall_ms = 0;
	run = start_shell("sleep 30", &options);
	CHECK_INT(cordon_run_wait(run, 50, &err), 0);
	CHECK(cordon_run_result(run) == NULL);
	CHECK_INT(cordon_run_cancel(run, &err), 0);
	CHECK_INT(end_of(run)->kind, CORDON_KIND_CANCELLED);
	cordon_run_free(run);

	run = start_shell("trap 'exit 9' TERM; echo; while :; do sleep 0.02; done", &options);
	usleep(200000);
	CHECK_INT(cordon_run_signal(run, SIGTERM, &err), 0);
	CHECK_INT(end_of(run)->exit_code, 9);
	cordon_run_free(run);

	/* Freed in mid-run. */
	run = start_shell("sleep 30", &options);
	cordon_run_free(run);
}

static void test_wrong_use(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const char *argv[] = { "/nonexistent/program", NULL };
	struct cordon_run *run = NULL;

	CHECK_INT(cordon_run_start(launcher, policy, &options, &run, &err), -CORDON_E_USAGE);
	options.argv = argv;
	CHECK_INT(cordon_run_start(launcher, policy, &options, &run, &err), -CORDON_E_NOT_FOUND);
	options.size = 1;
	CHECK_INT(cordon_run_start(launcher, policy, &options, &run, NULL), -CORDON_E_USAGE);
	options.size = sizeof(options);
	options.in.mode = CORDON_STREAM_CAPTURE;
	argv[0] = "/bin/true";
	CHECK_INT(cordon_run_start(launcher, policy, &options, &run, &err), -CORDON_E_USAGE);
	CHECK(run == NULL);
}

/* One poll loop over many runs, as an event loop would have it. */
static void test_many_at_once(void)
{
	struct cordon_run *runs[AT_ONCE];
	struct pollfd fds[AT_ONCE];
	int left = AT_ONCE;

	for (int i = 0; i < AT_ONCE; i++) {
		struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;

		options.out.mode = CORDON_STREAM_CAPTURE;
		runs[i] = start_shell("echo hello", &options);
		fds[i] = (struct pollfd){ .fd = cordon_run_fd(runs[i]), .events = POLLIN };
	}
	while (left > 0 && poll(fds, AT_ONCE, WAIT_MS) > 0)
		for (int i = 0; i < AT_ONCE; i++) {
			if (fds[i].fd < 0 || cordon_run_process(runs[i], NULL) == 0)
				continue;
			CHECK_INT(cordon_run_result(runs[i])->exit_code, 0);
			CHECK_INT((int)cordon_run_result(runs[i])->out.len, 6);
			cordon_run_free(runs[i]);
			fds[i].fd = -1;
			left--;
		}
	CHECK_INT(left, 0);
}

static void *thread_main(void *arg)
{
	int *good = arg;

	for (int i = 0; i < RUNS_EACH; i++) {
		struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
		struct cordon_run *run;

		options.out.mode = CORDON_STREAM_CAPTURE;
		run = start_shell("exit 5", &options);
		if (run && cordon_run_wait(run, WAIT_MS, NULL) == 1 &&
		    cordon_run_result(run)->exit_code == 5)
			++*good;
		cordon_run_free(run);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	int good[THREADS] = { 0 };

	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, thread_main, &good[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK_INT(good[i], RUNS_EACH);
	}
}

static void *start_and_leave(void *arg)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_run **ret = arg;

	*ret = start_shell("sleep 0.3; exit 4", &options);
	return NULL;
}

/* The parent-death signal belongs to a thread; the run to the whole process. */
static void test_thread_ends_before_its_run(void)
{
	struct cordon_run *run = NULL;
	pthread_t thread;

	CHECK_INT(pthread_create(&thread, NULL, start_and_leave, &run), 0);
	pthread_join(thread, NULL);
	REQUIRE(run != NULL);
	CHECK_INT(end_of(run)->exit_code, 4);
	cordon_run_free(run);
}

/* With a write grant there is more to plan, which init need not wait for. */
static void test_common_steps_ahead(void)
{
	char dir[] = "/tmp/cordon-ahead-XXXXXX", command[64];
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const char *argv[] = { "/bin/sh", "-c", command, NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *writer = NULL;
	struct cordon_run *run = NULL;

	REQUIRE(mkdtemp(dir) != NULL);
	snprintf(command, sizeof(command), "echo x > %s/f", dir);
	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	CHECK_INT(cordon_policy_new(&writer, &err), 0);
	CHECK_INT(cordon_policy_set(writer, "fs.write", dir, &err), 0);
	CHECK_INT(cordon_run_start(launcher, writer, &options, &run, &err), 0);
	CHECK(run->is_parked);
	CHECK_INT(end_of(run)->exit_code, 0);
	cordon_run_free(run);
	cordon_policy_free(writer);
	snprintf(command, sizeof(command), "%s/f", dir);
	CHECK_INT(unlink(command), 0);
	/* The placeholders are gone, too. */
	CHECK_INT(rmdir(dir), 0);
}

/* Another run has made `.hg` before this one's plan, and marked it after. */
static void test_directory_marked_after_the_plan(void)
{
	const struct timespec mark[2] = {
		{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
		{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
	};
	char dir[] = "/tmp/cordon-marked-XXXXXX", hg[64];
	const char *argv[] = { "/bin/true", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct plan_input input = { .options = &options, .is_main_thread = 1 };
	struct reserved reserved = { .janitor = SPAWNED_INIT };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *writer = NULL;
	struct plan *plan = NULL;
	struct locks *locks = NULL;
	bool is_inside = false;

	REQUIRE(mkdtemp(dir) != NULL);
	snprintf(hg, sizeof(hg), "%s/.hg", dir);
	CHECK_INT(mkdir(hg, 0755), 0);
	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	CHECK_INT(cordon_policy_new(&writer, &err), 0);
	CHECK_INT(cordon_policy_set(writer, "fs.write", dir, &err), 0);
	input.policy = writer;
	input.level = PLAN_LEVEL_NAMESPACES;
	input.machine = &launcher->machine;
	REQUIRE(plan_build(&input, &plan, &err) == 0);
	for (size_t i = 0; i < plan->n_reserved; i++)
		is_inside |= strncmp(plan->reserved[i].path, hg, strlen(hg)) == 0;
	CHECK(is_inside);
	CHECK_INT(utimensat(AT_FDCWD, hg, mark, 0), 0);
	REQUIRE(locks_open(NULL, &mark[0], &locks, &err) == 0);
	CHECK_INT(reserve_names(launcher, locks, plan, launcher->self_fd, true, &reserved, &err),
		  -CORDON_E_STATE);
	reserve_release(launcher, &reserved);
	locks_close(locks);
	plan_free(plan);
	cordon_policy_free(writer);
	CHECK_INT(rmdir(hg), 0);
	CHECK_INT(rmdir(dir), 0);
}

/* A host that collects every child it can, as shells and supervisors do, takes ours too. */
static void test_host_that_waits_for_any_child(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run;
	int done = 0;

	for (int i = 0; i < 20; i++) {
		run = start_shell("exit 2", &options);
		for (done = 0; done == 0; done = cordon_run_process(run, &err))
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		CHECK_INT(cordon_run_result(run)->exit_code, 2);
		cordon_run_free(run);
	}
	signal(SIGCHLD, SIG_IGN);
	run = start_shell("exit 2", &options);
	CHECK_INT(end_of(run)->exit_code, 2);
	cordon_run_free(run);
	signal(SIGCHLD, SIG_DFL);
}

/* A host that writes to a closed pipe through us must not be ended by SIGPIPE. */
static void test_no_sigpipe(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_run *run;
	int fds[2];

	CHECK_INT(pipe(fds), 0);
	close(fds[0]);
	options.out.mode = CORDON_STREAM_FD;
	options.out.fd = fds[1];
	run = start_shell("yes", &options);
	CHECK_INT(end_of(run)->status, 128 + SIGPIPE);
	cordon_run_free(run);
	close(fds[1]);
}

static void test_nothing_left(void)
{
	struct cordon_launcher *second = NULL;
	int before = count_fds();

	CHECK_INT(cordon_launcher_new(&second, NULL), 0);
	cordon_launcher_free(second);
	CHECK_INT(count_fds(), before);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	CHECK_INT(count_fds(), fds_at_start);
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
}

TAP_MAIN(test_open, test_capture_and_data, test_join_keeps_the_order, test_terminal, test_stopped,
	 test_ends, test_wrong_use, test_many_at_once, test_threads,
	 test_thread_ends_before_its_run, test_common_steps_ahead,
	 test_directory_marked_after_the_plan, test_host_that_waits_for_any_child, test_no_sigpipe,
	 test_nothing_left)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run that was started ahead is handed out only to a thread whose own run would be the same.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "tap.h"

#define WAIT_MS 20000
#define IS_MISSING 77

static struct cordon_launcher *launcher;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct cordon_run *start(const char *level, int ahead)
{
	static const char *const argv[] = { "/bin/sh", "-c", "echo >&3; exec sleep 25", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;

	if (cordon_policy_new(&policy, NULL) < 0 ||
	    cordon_policy_set(policy, "isolation", level, NULL) < 0)
		return NULL;
	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	options.ahead = ahead;
	options.channel = 1;
	if (cordon_run_start(launcher, policy, &options, &run, &err) < 0)
		printf("# %s\n", err.msg);
	cordon_policy_free(policy);
	return run;
}

/* Until its command has begun. */
static bool has_begun(struct cordon_run *run)
{
	struct pollfd p = { cordon_run_channel(run), POLLIN, 0 };
	const uint64_t end = now_ms() + WAIT_MS;

	do {
		cordon_run_wait(run, 5, NULL);
		if (poll(&p, 1, 0) == 1)
			return true;
	} while (now_ms() < end && !cordon_run_is_over(run));
	return false;
}

static void *ask(void *run)
{
	return cordon_run_is_as_new(run) ? run : NULL;
}

/* Any thread may ask, as long as nothing has changed; the answer is no once it has ended. */
static void test_nothing_has_changed(void)
{
	struct cordon_run *run, *plain, *lower;
	pthread_t thread;
	void *got;

	CHECK_INT(cordon_launcher_new(&launcher, NULL), 0);
	run = start("namespaces", 1);
	plain = start("namespaces", 0);
	lower = start("landlock", 1);
	REQUIRE(run != NULL && plain != NULL && lower != NULL);
	REQUIRE(has_begun(run) && has_begun(plain) && has_begun(lower));
	CHECK_INT(cordon_run_is_as_new(run), 1);
	CHECK_INT(cordon_run_is_as_new(plain), 0); /* nothing was written down */
	CHECK_INT(cordon_run_is_as_new(lower), 0); /* it cannot be told */
	REQUIRE(pthread_create(&thread, NULL, ask, run) == 0);
	REQUIRE(pthread_join(thread, &got) == 0);
	CHECK(got == run);
	CHECK_INT(cordon_run_cancel(run, NULL), 0);
	CHECK_INT(cordon_run_is_as_new(run), 0);
	REQUIRE(cordon_run_wait(run, WAIT_MS, NULL) == 1);
	CHECK_INT(cordon_run_is_as_new(run), 0);
	cordon_run_free(run);
	cordon_run_free(plain);
	cordon_run_free(lower);
}

static int other_umask(void)
{
	umask(0123);
	return 0;
}

static int fewer_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1;
	limit.rlim_cur--;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : 1;
}

static int new_privileges_end(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : 1;
}

static int add_filter(void)
{
	static const struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_fprog prog = { 1, (struct sock_filter *)(uintptr_t)allow };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0 ? 0 : 1;
}

static int leave_network(void)
{
	/* An ordinary user needs a user namespace for it, which is another difference. */
	return unshare(CLONE_NEWNET) == 0 ? 0 : IS_MISSING;
}

static int enter_landlock(void)
{
	const uint64_t executing = 1; /* no rule allows it, but nothing outside is executed */
	long fd = syscall(SYS_landlock_create_ruleset, &executing, sizeof(executing), 0);

	if (fd < 0)
		return IS_MISSING;
	return syscall(SYS_landlock_restrict_self, fd, 0) == 0 ? 0 : 1;
}

/* 0: @change makes the answer no. @before is there when the run is started already. */
static int in_child(int (*before)(void), int (*change)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct cordon_run *run;
		int r;

		if ((before && before() != 0) || cordon_launcher_new(&launcher, NULL) < 0)
			_exit(2);
		run = start("namespaces", 1);
		if (!run || !has_begun(run) || cordon_run_is_as_new(run) != 1)
			_exit(3);
		r = change();
		if (r != 0)
			_exit(r == IS_MISSING ? 0 : 4);
		r = cordon_run_is_as_new(run);
		cordon_run_free(run);
		_exit(r == 0 ? 0 : 5);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 1000 + status;
	return WEXITSTATUS(status);
}

static void test_changes(void)
{
	CHECK_INT(in_child(NULL, other_umask), 0);
	CHECK_INT(in_child(NULL, fewer_files), 0);
	CHECK_INT(in_child(NULL, new_privileges_end), 0);
	/* All that changes is the filter, or the domain. */
	CHECK_INT(in_child(new_privileges_end, add_filter), 0);
	CHECK_INT(in_child(new_privileges_end, enter_landlock), 0);
	/* The gateway of a run has the network of before. */
	CHECK_INT(in_child(NULL, leave_network), 0);
}

/* Of a thread with a filter that only it has. */
static void *start_filtered(void *unused)
{
	(void)unused;
	return add_filter() == 0 ? start("namespaces", 1) : NULL;
}

/* 0: a thread with another filter, and as many, does not get it. The launcher has one, or none. */
static int ask_filtered(bool is_filtered)
{
	void *run = NULL;
	pthread_t thread;

	if (new_privileges_end() != 0 || (is_filtered && add_filter() != 0) ||
	    cordon_launcher_new(&launcher, NULL) < 0 ||
	    pthread_create(&thread, NULL, start_filtered, NULL) != 0 ||
	    pthread_join(thread, &run) != 0 || !run || !has_begun(run) || add_filter() != 0)
		return 2;
	return cordon_run_is_as_new(run) ? 5 : 0;
}

static void test_other_filters(void)
{
	for (int i = 0; i < 2; i++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0)
			_exit(ask_filtered(i > 0));
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

/* A command that waits for a line on the channel, and then copies its input. */
static struct cordon_run *start_held(int in_mode)
{
	static const char *const argv[] = { "/bin/sh", "-c", "echo >&3; read go <&3; cat", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;

	if (cordon_policy_new(&policy, NULL) < 0 ||
	    cordon_policy_set(policy, "limits.wall", "200ms", NULL) < 0)
		return NULL;
	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	options.channel = options.ahead = options.held = 1;
	options.in.mode = in_mode;
	options.in.data = "";
	options.out.mode = CORDON_STREAM_CAPTURE;
	(void)cordon_run_start(launcher, policy, &options, &run, NULL);
	cordon_policy_free(policy);
	return run;
}

/* The time in which it was held does not count, and its input comes with its beginning. */
static void test_held(void)
{
	struct cordon_run *run;
	const struct cordon_result *result;

	CHECK(start_held(CORDON_STREAM_DATA) == NULL);
	run = start_held(CORDON_STREAM_NULL);
	REQUIRE(run != NULL && has_begun(run));
	CHECK_INT(cordon_run_wait(run, 300, NULL), 0);
	CHECK_INT(cordon_run_begin(run, "input", 5, 20000, NULL), 0);
	CHECK_INT(cordon_run_begin(run, "input", 5, 20000, NULL), -CORDON_E_STATE);
	CHECK_INT(write(cordon_run_channel(run), "\n", 1), 1);
	REQUIRE(cordon_run_wait(run, WAIT_MS, NULL) == 1);
	result = cordon_run_result(run);
	CHECK_INT(result->kind, CORDON_KIND_EXITED);
	CHECK(result->out.len == 5 && memcmp(result->out.data, "input", 5) == 0);
	CHECK(result->setup_ms <= 0);
	cordon_run_free(run);
}

/* It ends when its own time is over, that of its start or another one. */
static void test_held_too_long(void)
{
	static const int64_t wall_ms[] = { 0, 50 };

	for (int i = 0; i < 2; i++) {
		struct cordon_run *run = start_held(CORDON_STREAM_NULL);

		REQUIRE(run != NULL && has_begun(run));
		CHECK_INT(cordon_run_begin(run, NULL, 0, wall_ms[i], NULL), 0);
		REQUIRE(cordon_run_wait(run, WAIT_MS, NULL) == 1);
		CHECK_INT(cordon_run_result(run)->kind, CORDON_KIND_TIMEOUT);
		CHECK_INT(cordon_run_begin(run, NULL, 0, 0, NULL), -CORDON_E_STATE);
		cordon_run_free(run);
	}
}

/* The run belongs to the parent. */
static void test_after_fork(void)
{
	struct cordon_run *run = start("namespaces", 1);
	int status = 0;
	pid_t pid;

	REQUIRE(run != NULL && has_begun(run));
	pid = fork();
	if (pid == 0)
		_exit(cordon_run_is_as_new(run) == 0 ? 0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_INT(cordon_run_is_as_new(run), 1);
	cordon_run_free(run);
	cordon_launcher_free(launcher);
}

TAP_MAIN(test_nothing_has_changed, test_changes, test_other_filters, test_held, test_held_too_long,
	 test_after_fork)

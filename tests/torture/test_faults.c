/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call of the set-up fails once, on the supervisor's side and inside init, at both
 * levels. Whatever fails: the command must not have run, and the run must say why.
 *
 * The proof is a marker file that the command creates in a write grant. The loop ends with the
 * first run in which no call failed any more, and that one must have left the marker (the positive
 * control). In a workspace it is a change, and the directory itself never has it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "lib/tap.h"
#include "sys/calls.h"

#define CALLS_MAX 5000
#define WAIT_MS 20000

static char dir[] = "/tmp/cordon-torture-XXXXXX";
static char marker[sizeof(dir) + 16];

struct outcome {
	int start_error; /* 0 = it started */
	int kind, error_code;
	int fired; /* supervisor's side: the fault was used up */
	int has_run;
	int is_copy; /* there was no overlay to be had */
};

static int with_terminal, with_net, with_workspace, with_files, with_pool;
static char state[] = "/tmp/cordon-torture-XXXXXX";

/* The command has run: it left its marker, where it may. */
static int find_marker(const struct cordon_result *res)
{
	const struct cordon_run_workspace *info = res ? res->workspace : NULL;
	struct cordon_error err = CORDON_ERROR_INIT;
	int is_there = access(marker, F_OK) == 0;
	struct cordon_workspace *ws;

	if (!with_workspace)
		return is_there;
	CHECK_MSG(!is_there, "the directory itself was written to");
	if (!info || !info->is_kept)
		return 0;
	CHECK_INT(cordon_workspace_open(state, info->id, &ws, &err), 0);
	CHECK_MSG(cordon_workspace_discard(ws, &err) == 0, "%s", err.msg);
	return info->is_settled && info->summary.added == 1;
}

/* The marker as a request, where no command makes it. */
static const struct {
	struct cordon_files_request head;
	char path[6];
	char text[3];
} __attribute__((packed)) write_marker = {
	{ .magic = CORDON_FILES_MAGIC, .op = CORDON_FILES_WRITE, .path_len = 6, .data_len = 3 },
	{ 'm', 'a', 'r', 'k', 'e', 'r' },
	{ 'r', 'a', 'n' },
};

static void run_once(const char *level, long outside_nth, long init_nth, struct outcome *ret)
{
	const char *argv[] = { "/bin/sh", "-c", "echo ran > marker", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_pool_options one = CORDON_POOL_OPTIONS_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	struct cordon_pool *pool = NULL;
	struct cordon_run *run = NULL;

	one.parked = 1;
	one.refill = CORDON_REFILL_BY_HAND;
	unlink(marker);
	memset(ret, 0, sizeof(*ret));
	CHECK_INT(cordon_policy_new(&policy, &err), 0);
	CHECK_INT(cordon_policy_set(policy, "isolation", level, &err), 0);
	CHECK_INT(
		cordon_policy_set(policy, with_workspace ? "fs.workspace" : "fs.write", dir, &err),
		0);
	if (with_net)
		CHECK_INT(cordon_policy_set(policy, "net.allow", "example.com", &err), 0);
	options.argv = argv;
	options.cwd = dir;
	options.home = "/nonexistent";
	options.state_dir = state;
	options.out.mode = CORDON_STREAM_CAPTURE;
	options.err.mode = with_terminal ? CORDON_STREAM_JOIN : CORDON_STREAM_CAPTURE;
	options.terminal = with_terminal;
	options.files = with_files;
	if (with_files) {
		options.in.mode = CORDON_STREAM_DATA;
		options.in.data = &write_marker;
		options.in.data_len = sizeof(write_marker);
	}
	fault_arm(outside_nth, ENOMEM);
	fault_arm_init(init_nth, ENOMEM);
	ret->start_error = cordon_launcher_new(&launcher, &err);
	/* An init that cannot be parked is no error. */
	if (!ret->start_error && with_pool)
		ret->start_error = cordon_pool_new(launcher, policy, &options, &one, &pool, &err);
	if (!ret->start_error)
		ret->start_error = pool ? cordon_pool_start(pool, NULL, &options, &run, &err)
					: cordon_run_start(launcher, policy, &options, &run, &err);
	ret->fired = outside_nth > 0 && fault_arm(0, 0) == 0;
	fault_arm_init(0, 0);
	if (ret->start_error) {
		CHECK(err.msg[0] != 0);
	} else {
		CHECK_INT(cordon_run_wait(run, WAIT_MS, &err), 1);
		ret->kind = cordon_run_result(run)->kind;
		ret->error_code = cordon_run_result(run)->error.code;
	}
	ret->is_copy = run && cordon_run_result(run) && cordon_run_result(run)->workspace &&
		       cordon_run_result(run)->workspace->mechanism != CORDON_MECHANISM_OVERLAY;
	ret->has_run = find_marker(ret->start_error ? NULL : cordon_run_result(run));
	cordon_run_free(run);
	cordon_pool_free(pool);
	cordon_launcher_free(launcher);
	cordon_policy_free(policy);
}

static void fail_each_in_init(const char *level)
{
	int n_copies = 0;
	struct outcome o;

	for (long n = 1; n < CALLS_MAX; n++) {
		run_once(level, 0, n, &o);
		if (o.start_error)
			continue; /* init had gone before it was told everything */
		/* An overlay that is refused is no failure: a copy does. */
		if (o.kind == CORDON_KIND_EXITED && o.is_copy && strcmp(level, "landlock") != 0) {
			CHECK(o.has_run);
			n_copies++;
			continue;
		}
		if (o.kind == CORDON_KIND_EXITED) {
			CHECK(o.has_run);
			CHECK(n > 50);
			CHECK(!with_workspace || !strcmp(level, "landlock") || n_copies > 0);
			printf("# %s: %ld calls of init failed one by one\n", level, n - 1);
			return;
		}
		CHECK(o.kind == CORDON_KIND_SANDBOX_ERROR || o.kind == CORDON_KIND_SPAWN_FAILED);
		CHECK(o.error_code != 0);
		CHECK(!o.has_run);
	}
	CHECK(!"the loop must end");
}

static void fail_each_outside(const char *level)
{
	struct outcome o;

	for (long n = 1; n < CALLS_MAX; n++) {
		run_once(level, n, 0, &o);
		if (!o.fired) {
			CHECK_INT(o.start_error, 0);
			CHECK(o.has_run);
			CHECK(n > 10);
			printf("# %s: %ld calls of the supervisor failed one by one\n", level,
			       n - 1);
			return;
		}
		/* A call on the way out may fail without harm; then the run is a full one. */
		CHECK(o.start_error || o.kind == CORDON_KIND_EXITED ||
		      o.kind == CORDON_KIND_SANDBOX_ERROR);
		if (o.start_error || o.kind != CORDON_KIND_EXITED)
			CHECK(!o.has_run);
	}
	CHECK(!"the loop must end");
}

static void test_init_namespaces(void)
{
	fail_each_in_init("namespaces");
}

static void test_init_landlock(void)
{
	fail_each_in_init("landlock");
}

static void test_outside_namespaces(void)
{
	fail_each_outside("namespaces");
}

static void test_outside_landlock(void)
{
	fail_each_outside("landlock");
}

/* A parked init that fails, at whatever moment, is not used; the run is cold, or fails. */
static void test_pool(void)
{
	with_pool = 1;
	fail_each_in_init("namespaces");
	fail_each_outside("namespaces");
	with_workspace = 1;
	fail_each_outside("namespaces");
	with_workspace = with_pool = 0;
}

static void test_terminal(void)
{
	with_terminal = 1;
	fail_each_in_init("namespaces");
	fail_each_in_init("landlock");
	fail_each_outside("namespaces");
	fail_each_outside("landlock");
	with_terminal = 0;
}

static void test_files(void)
{
	with_files = 1;
	fail_each_in_init("namespaces");
	fail_each_in_init("landlock");
	fail_each_outside("namespaces");
	fail_each_outside("landlock");
	with_files = 0;
}

static void test_net(void)
{
	with_net = 1;
	fail_each_in_init("namespaces");
	fail_each_in_init("landlock");
	fail_each_outside("namespaces");
	fail_each_outside("landlock");
	with_net = 0;
}

static void test_workspace(void)
{
	with_workspace = 1;
	fail_each_in_init("namespaces");
	fail_each_in_init("landlock");
	fail_each_outside("namespaces");
	fail_each_outside("landlock");
	with_workspace = 0;
}

static void check_empty(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	int left = 0;

	while (d && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
			printf("# left behind: %s\n", entry->d_name);
			left++;
		}
	closedir(d);
	CHECK_INT(left, 0);
	CHECK_INT(rmdir(path), 0);
}

static void test_nothing_left(void)
{
	char store[sizeof(state) + 16];

	unlink(marker);
	check_empty(dir);
	snprintf(store, sizeof(store), "%s/workspaces", state);
	check_empty(store);
	check_empty(state);
}

static void test_setup(void)
{
	CHECK(mkdtemp(dir) != NULL);
	CHECK(mkdtemp(state) != NULL);
	snprintf(marker, sizeof(marker), "%s/marker", dir);
}

TAP_MAIN(test_setup, test_init_namespaces, test_init_landlock, test_outside_namespaces,
	 test_outside_landlock, test_pool, test_terminal, test_files, test_net, test_workspace,
	 test_nothing_left)

/* SPDX-License-Identifier: Apache-2.0 */
/* The file protocol with large trees and files, at its limits, and while the tree changes. */
#include "unit/test_files_lib.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#define DEPTH_LARGE 3000
#define DEPTH_HUGE 6000
#define ENTRIES_LARGE 30000
#define BYTES_LARGE ((size_t)100 << 20)

static void set(struct fx *f, const char *key, const char *value)
{
	CHECK_MSG(cordon_policy_set(f->policy, key, value, &f->err) == 0, "%s: %s", key,
		  f->err.msg);
}

/* A chain of directories deeper than a path can be long; @mode of each. */
static void make_chain(struct fx *f, const char *name, int depth, mode_t mode)
{
	int dir = open(f->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < depth; i++) {
		const char *own = i == 0 ? name : "d";
		int next;

		if (mkdirat(dir, own, 0755) < 0)
			break;
		next = openat(dir, own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	CHECK(dir >= 0);
	/* From the bottom up: those above stay open to the test. */
	CHECK_INT(fchmod(dir, mode), 0);
	close(dir);
}

static void test_deep(struct fx *f)
{
	const struct cordon_files_request all = { .depth = 0 };
	struct fx_record record;
	struct fx_answer a;
	size_t at = 0, longest = 0;
	struct stat st;

	make_chain(f, "chain", DEPTH_LARGE, 0);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, &all, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "chain", NULL, NULL, NULL);
	fx_run(f);
	a = fx_take(f);
	CHECK_INT(a.error, 0);
	CHECK_INT(fx_count(&a), DEPTH_LARGE);
	CHECK_INT(a.flags, CORDON_FILES_SKIPPED); /* the last one is closed */
	while (fx_record(&a, &at, &record))
		longest = record.head.name_len > longest ? record.head.name_len : longest;
	CHECK_INT(longest, strlen("chain") + 2 * (DEPTH_LARGE - 1));
	fx_expect(f, 0, "");
	fx_ended(f, 0);
	CHECK(lstat(fx_host(f, "chain"), &st) < 0 && errno == ENOENT);
}

/* So deep that all paths together are more than an answer holds. Most of it is removed at the top,
 * where the name that is used for that may be taken. */
static void test_too_deep(struct fx *f)
{
	const struct cordon_files_request all = { .depth = 0 }, one = { .depth = 1 };
	struct fx_answer a;
	struct stat st;

	make_chain(f, "chain", DEPTH_HUGE, 0);
	fx_file(f, "chain/.cordon-removed-0", "taken");
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, &all, NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "chain", NULL, &one, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "chain", NULL, NULL, NULL);
	fx_run(f);
	a = fx_take(f);
	CHECK_INT(a.error, E2BIG);
	CHECK(a.len <= CORDON_FILES_LIST_BYTES);
	a = fx_take(f);
	CHECK_INT(a.error, 0);
	CHECK_INT(fx_count(&a), 2);
	fx_expect(f, 0, "");
	fx_ended(f, 0);
	CHECK(lstat(fx_host(f, "chain"), &st) < 0 && errno == ENOENT);
}

static void test_many(struct fx *f)
{
	const struct cordon_files_request all = { .depth = 0 }, some = { .max = 10 };
	struct fx_answer a;
	struct stat st;
	char name[32];
	int dir;

	CHECK_INT(mkdir(fx_host(f, "many"), 0755), 0);
	dir = open(fx_host(f, "many"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Files, and directories with something in them. */
	for (int i = 0; i < ENTRIES_LARGE; i++) {
		snprintf(name, sizeof(name), "%d", i);
		if (i % 100 == 0) {
			char inner[48];

			snprintf(inner, sizeof(inner), "%s/x", name);
			if (mkdirat(dir, name, 0755) < 0 || mkdirat(dir, inner, 0755) < 0)
				abort();
		} else if (mknodat(dir, name, S_IFREG | 0644, 0) < 0) {
			abort();
		}
	}
	close(dir);
	fx_ask(f, CORDON_FILES_LIST, 0, "many", NULL, &all, NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "many", NULL, &some, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "many", NULL, NULL, NULL);
	fx_run(f);
	a = fx_take(f);
	CHECK_INT(a.error, 0);
	CHECK_INT(fx_count(&a), ENTRIES_LARGE + ENTRIES_LARGE / 100);
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 10);
	CHECK_INT(a.flags, CORDON_FILES_MORE);
	fx_expect(f, 0, "");
	fx_ended(f, 0);
	CHECK(lstat(fx_host(f, "many"), &st) < 0 && errno == ENOENT);
}

static void test_big(struct fx *f)
{
	const struct cordon_files_request big = { .data_len = BYTES_LARGE };
	uint8_t *data = malloc(BYTES_LARGE);
	struct fx_answer a;

	REQUIRE(data != NULL);
	for (size_t i = 0; i < BYTES_LARGE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 24);
	fx_ask(f, CORDON_FILES_WRITE, 0, "big", NULL, &big, data);
	fx_ask(f, CORDON_FILES_READ, 0, "big", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_WRITE, 0, "no/where", NULL, &big, data);
	fx_ask(f, CORDON_FILES_STAT, 0, "nobody", NULL, NULL, NULL);
	fx_run(f);
	fx_expect(f, 0, "");
	a = fx_take(f);
	CHECK_INT(a.error, 0);
	CHECK(a.len == BYTES_LARGE && memcmp(a.data, data, BYTES_LARGE) == 0);
	fx_expect(f, ENOENT, ""); /* and its data was taken */
	fx_expect(f, ENOENT, "");
	fx_ended(f, 0);
	free(data);
	/* 100 MB went through a process that holds a few hundred KiB. */
	CHECK_MSG(f->res->max_memory_bytes < (8 << 20), "%llu bytes",
		  (unsigned long long)f->res->max_memory_bytes);
}

/* Limits hold for the server as for a command. */
static void test_limits(struct fx *f)
{
	const struct cordon_files_request mebibyte = { .data_len = 1 << 20 };
	uint8_t *data = calloc(1, 1 << 20);

	REQUIRE(data != NULL);
	set(f, "limits.file_size", "512K");
	set(f, "limits.memory", "64M");
	set(f, "limits.cpu", "1");
	if (strcmp(f->level, "namespaces") == 0)
		set(f, "limits.disk", "64M");
	fx_ask(f, CORDON_FILES_WRITE, 0, "big", NULL, &mebibyte, data);
	fx_write(f, 0, "small", "text");
	fx_ask(f, CORDON_FILES_READ, 0, "small", NULL, NULL, NULL);
	/* private, in memory (level landlock: the run's private directory) */
	if (strcmp(f->level, "namespaces") == 0) {
		fx_write(f, 0, "/tmp/private", "private");
		fx_ask(f, CORDON_FILES_READ, 0, "/tmp/private", NULL, NULL, NULL);
	}
	fx_run(f);
	fx_expect(f, EFBIG, "");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "text");
	if (strcmp(f->level, "namespaces") == 0) {
		fx_expect(f, 0, "");
		fx_expect(f, 0, "private");
	}
	fx_ended(f, 0);
	free(data);
}

static struct cordon_run *start_open(struct fx *f, int in_fd, int64_t wall_ms)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_run *run = NULL;

	options.files = 1;
	options.cwd = f->dir;
	options.home = "/nonexistent";
	options.in.mode = CORDON_STREAM_FD;
	options.in.fd = in_fd;
	options.out.mode = CORDON_STREAM_CAPTURE;
	options.default_wall_ms = wall_ms;
	CHECK_MSG(cordon_run_start(f->launcher, f->policy, &options, &run, &f->err) == 0, "%s",
		  f->err.msg);
	return run;
}

/* Waiting for a request is like any other waiting of a command: it can be ended. */
static void test_ends(struct fx *f)
{
	const struct cordon_result *res;
	struct cordon_run *run;
	int pipes[2];

	CHECK_INT(pipe2(pipes, O_CLOEXEC), 0);
	run = start_open(f, pipes[0], 200);
	REQUIRE(run != NULL);
	CHECK_INT(cordon_run_wait(run, FILES_WAIT_MS, NULL), 1);
	CHECK_STR(cordon_kind_name(cordon_run_result(run)->kind), "timeout");
	cordon_run_free(run);

	run = start_open(f, pipes[0], -1);
	REQUIRE(run != NULL);
	CHECK_INT(cordon_run_cancel(run, &f->err), 0);
	CHECK_INT(cordon_run_wait(run, FILES_WAIT_MS, NULL), 1);
	CHECK_STR(cordon_kind_name(cordon_run_result(run)->kind), "cancelled");
	cordon_run_free(run);

	run = start_open(f, pipes[0], -1);
	REQUIRE(run != NULL);
	/* Once it answers it has a signal mask of its own. */
	fx_ask(f, CORDON_FILES_STAT, 0, "nobody", NULL, NULL, NULL);
	CHECK_INT(write(pipes[1], f->requests, f->n), f->n);
	f->n = 0;
	while (!cordon_run_result(run)) {
		CHECK(cordon_run_signal(run, SIGTERM, &f->err) == 0);
		if (cordon_run_wait(run, 20, NULL) != 0)
			break;
	}
	res = cordon_run_result(run);
	REQUIRE(res != NULL);
	CHECK_STR(cordon_kind_name(res->kind), "signaled");
	CHECK_INT(res->signal, SIGTERM);
	cordon_run_free(run);
	close(pipes[0]);
	close(pipes[1]);
}

static volatile atomic_int *swapping;

/* Moves a directory of the tree out and in again, and puts files in its way, until told to stop. */
static pid_t start_swapping(struct fx *f)
{
	char inside[PATH_MAX + 300], outside[PATH_MAX + 300], file[PATH_MAX + 300];
	pid_t pid;

	snprintf(inside, sizeof(inside), "%s", fx_host(f, "tree/a/b"));
	snprintf(outside, sizeof(outside), "%s", fx_host(f, "outside"));
	snprintf(file, sizeof(file), "%s", fx_host(f, "tree/a/file"));
	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	while (atomic_load(swapping)) {
		rename(inside, outside);
		mknod(file, S_IFREG | 0644, 0);
		rename(outside, inside);
	}
	_exit(0);
}

/* Whatever is moved meanwhile: it ends, with an answer, and nothing outside the tree is touched. */
static void test_changed(struct fx *f)
{
	struct timespec end, now;
	struct stat st;
	int status;
	pid_t pid;

	swapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(swapping != MAP_FAILED);
	atomic_store(swapping, 1);
	fx_file(f, "bystander", "stays");
	pid = start_swapping(f);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 1;
	do {
		char path[256] = "tree/a/b";

		mkdir(fx_host(f, "tree"), 0755);
		mkdir(fx_host(f, "tree/a"), 0755);
		for (int i = 0; i < 40; i++) {
			mkdir(fx_host(f, path), 0755);
			strcat(path, "/c");
		}
		fx_ask(f, CORDON_FILES_LIST, 0, "tree", NULL, NULL, NULL);
		fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "tree", NULL, NULL, NULL);
		fx_run(f);
		(void)fx_take(f);
		(void)fx_take(f);
		fx_ended(f, 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec ||
		 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	atomic_store(swapping, 0);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(lstat(fx_host(f, "bystander"), &st) == 0);
	/* Once there is peace, it goes. */
	fx_ask(f, CORDON_FILES_MKDIR, CORDON_FILES_EXIST_OK, "tree", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "tree", NULL, NULL, NULL);
	fx_run(f);
	fx_expect(f, 0, "");
	fx_expect(f, 0, "");
	munmap((void *)(uintptr_t)swapping, 4096);
}

static void (*const heavy[])(struct fx *) = { test_deep, test_too_deep, test_many };

/* These take their time: once at each level, as different callers. */
static void test_heavy_namespaces(void)
{
	(geteuid() == 0 ? fx_run_as_user : fx_run_all)("namespaces", heavy, 2);
}

static void test_heavy_landlock(void)
{
	fx_run_all("landlock", heavy, 2);
}

FX_TESTS(test_big, test_limits, test_ends, test_changed)
TAP_MAIN(test_namespaces, test_landlock, test_namespaces_as_user, test_landlock_as_user,
	 test_heavy_namespaces, test_heavy_landlock)

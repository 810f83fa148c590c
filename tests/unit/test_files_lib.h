/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a run for files: requests are gathered, sent at once, and the answers taken apart. */
#ifndef TESTS_UNIT_TEST_FILES_LIB_H
#define TESTS_UNIT_TEST_FILES_LIB_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "lib/tap.h"

#define FILES_WAIT_MS 300000
#define FILES_USER_ID 20001

struct fx_answer {
	const uint8_t *data; /* all chunks together */
	size_t len;
	int error;
	unsigned flags;
};

struct fx {
	char dir[PATH_MAX]; /* the caller's directory, real path: the write grant and cwd */
	const char *level;
	struct cordon_launcher *launcher;
	struct cordon_policy *policy;
	struct cordon_error err;
	uint8_t *requests;
	size_t n, cap;
	struct cordon_run *run;
	const struct cordon_result *res;
	uint8_t *at; /* in a copy of the answers */
	uint8_t *answers;
	size_t left;
};

static void fx_put(struct fx *f, const void *data, size_t len)
{
	if (f->n + len > f->cap) {
		f->cap = (f->n + len) * 2;
		f->requests = realloc(f->requests, f->cap);
		if (!f->requests)
			abort();
	}
	if (len)
		memcpy(f->requests + f->n, data, len);
	f->n += len;
}

/* Adds a request; what is not given here is in @extra, or 0. */
__attribute__((unused)) static void fx_ask(struct fx *f, int op, unsigned flags, const char *path,
					   const char *path2,
					   const struct cordon_files_request *extra,
					   const void *data)
{
	struct cordon_files_request request = { 0 };

	if (extra)
		request = *extra;
	request.magic = CORDON_FILES_MAGIC;
	request.op = (uint16_t)op;
	request.flags = (uint16_t)flags;
	request.path_len = (uint32_t)strlen(path);
	request.path2_len = path2 ? (uint32_t)strlen(path2) : 0;
	fx_put(f, &request, sizeof(request));
	fx_put(f, path, request.path_len);
	fx_put(f, path2, request.path2_len);
	fx_put(f, data, (size_t)request.data_len);
}

__attribute__((unused)) static void fx_write(struct fx *f, unsigned flags, const char *path,
					     const char *text)
{
	const struct cordon_files_request extra = { .data_len = strlen(text) };

	fx_ask(f, CORDON_FILES_WRITE, flags, path, NULL, &extra, text);
}

/* Sends what was asked and waits for the end. */
static void fx_run(struct fx *f)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;

	free(f->answers);
	cordon_run_free(f->run);
	f->answers = f->at = NULL;
	f->left = 0;
	f->run = NULL;
	f->res = NULL;
	options.files = 1;
	options.cwd = f->dir;
	options.home = "/nonexistent";
	options.in.mode = CORDON_STREAM_DATA;
	options.in.data = f->requests;
	options.in.data_len = f->n;
	options.out.mode = options.err.mode = CORDON_STREAM_CAPTURE;
	options.default_wall_ms = FILES_WAIT_MS;
	if (cordon_run_start(f->launcher, f->policy, &options, &f->run, &f->err) < 0) {
		tap_fail(__FILE__, __LINE__, "%s", f->err.msg);
		return;
	}
	CHECK_INT(cordon_run_wait(f->run, FILES_WAIT_MS, NULL), 1);
	f->res = cordon_run_result(f->run);
	f->n = 0;
	CHECK_STR(cordon_level_name(f->res->level), f->level);
	CHECK_MSG(f->res->kind != CORDON_KIND_SANDBOX_ERROR, "%s", f->res->error.msg);
	CHECK(!f->res->out.truncated);
	CHECK_INT((int)f->res->err.len, 0);
	f->answers = malloc(f->res->out.len + 1);
	if (!f->answers)
		abort();
	if (f->res->out.len)
		memcpy(f->answers, f->res->out.data, f->res->out.len);
	f->at = f->answers;
	f->left = f->res->out.len;
}

/* The run ended as it should, and there is nothing left to take. */
__attribute__((unused)) static void fx_ended(const struct fx *f, int status)
{
	if (!f->res)
		return;
	CHECK_STR(cordon_kind_name(f->res->kind), "exited");
	CHECK_INT(f->res->exit_code, status);
	CHECK_INT((int)f->left, 0);
}

/* The next answer; its chunks are moved together. */
static struct fx_answer fx_take(struct fx *f)
{
	struct fx_answer a = { .data = f->at, .error = -1 };
	uint8_t *to = f->at;

	for (;;) {
		struct cordon_files_end end;
		uint32_t len;

		if (f->left < sizeof(len)) {
			tap_fail(__FILE__, __LINE__, "no answer");
			return a;
		}
		memcpy(&len, f->at, sizeof(len));
		f->at += sizeof(len);
		f->left -= sizeof(len);
		if (len == 0) {
			if (f->left < sizeof(end)) {
				tap_fail(__FILE__, __LINE__, "half an answer");
				return a;
			}
			memcpy(&end, f->at, sizeof(end));
			f->at += sizeof(end);
			f->left -= sizeof(end);
			a.error = end.error;
			a.flags = end.flags;
			return a;
		}
		if (len > CORDON_FILES_CHUNK_MAX || len > f->left) {
			tap_fail(__FILE__, __LINE__, "a chunk of %u bytes", len);
			f->left = 0;
			return a;
		}
		memmove(to, f->at, len);
		to += len;
		a.len += len;
		f->at += len;
		f->left -= len;
	}
}

/* The next answer has this error and this text; NULL = any. */
__attribute__((unused)) static void fx_expect_at(const char *file, int line, struct fx *f,
						 int error, const char *text)
{
	struct fx_answer a = fx_take(f);

	if (a.error != error)
		tap_fail(file, line, "error %d (%s), expected %d (%s)", a.error, strerror(a.error),
			 error, strerror(error));
	if (text && (a.len != strlen(text) || memcmp(a.data, text, a.len) != 0))
		tap_fail(file, line, "answer '%.*s', expected '%s'", (int)a.len,
			 (const char *)a.data, text);
}
#define fx_expect(f, error, text) fx_expect_at(__FILE__, __LINE__, f, error, text)

struct fx_record {
	struct cordon_files_record head;
	const char *name, *target;
};

/* The record at *@at of an answer; 0 at its end. */
__attribute__((unused)) static int fx_record(const struct fx_answer *a, size_t *at,
					     struct fx_record *ret)
{
	if (a->len - *at < sizeof(ret->head))
		return 0;
	memcpy(&ret->head, a->data + *at, sizeof(ret->head));
	*at += sizeof(ret->head);
	if ((uint64_t)ret->head.name_len + ret->head.target_len > a->len - *at) {
		tap_fail(__FILE__, __LINE__, "half a record");
		return 0;
	}
	ret->name = (const char *)a->data + *at;
	ret->target = ret->name + ret->head.name_len;
	*at += (size_t)ret->head.name_len + ret->head.target_len;
	return 1;
}

/* The record of @name in an answer. */
__attribute__((unused)) static int fx_find(const struct fx_answer *a, const char *name,
					   struct fx_record *ret)
{
	for (size_t at = 0; fx_record(a, &at, ret);) {
		if (ret->head.name_len == strlen(name) &&
		    memcmp(ret->name, name, strlen(name)) == 0)
			return 1;
	}
	return 0;
}

__attribute__((unused)) static size_t fx_count(const struct fx_answer *a)
{
	struct fx_record record;
	size_t at = 0, n = 0;

	while (fx_record(a, &at, &record))
		n++;
	CHECK(at == a->len);
	return n;
}

__attribute__((unused)) static const char *fx_host(const struct fx *f, const char *name)
{
	static char paths[8][PATH_MAX + 256];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", f->dir, name);
	return path;
}

__attribute__((unused)) static void fx_file(const struct fx *f, const char *name, const char *text)
{
	FILE *file = fopen(fx_host(f, name), "w");

	CHECK_MSG(file != NULL, "cannot make %s", name);
	if (!file)
		return;
	fputs(text, file);
	fclose(file);
}

static void fx_init(struct fx *f, const char *level)
{
	char template[] = "/tmp/cordon-files-XXXXXX";

	memset(f, 0, sizeof(*f));
	f->level = level;
	if (!mkdtemp(template) || !realpath(template, f->dir))
		abort();
	CHECK_INT(cordon_launcher_new(&f->launcher, &f->err), 0);
	CHECK_INT(cordon_policy_new(&f->policy, &f->err), 0);
	CHECK_INT(cordon_policy_set(f->policy, "isolation", level, &f->err), 0);
	CHECK_INT(cordon_policy_set(f->policy, "fs.write", f->dir, &f->err), 0);
	/* What holds protected names would be listed. */
	CHECK_INT(cordon_policy_set(f->policy, "fs.protect", "off", &f->err), 0);
	CHECK_INT(cordon_policy_set(f->policy, "limits.output", "512M", &f->err), 0);
}

static void fx_done(struct fx *f)
{
	char command[2 * PATH_MAX + 64];

	free(f->answers);
	free(f->requests);
	cordon_run_free(f->run);
	cordon_policy_free(f->policy);
	cordon_launcher_free(f->launcher);
	snprintf(command, sizeof(command), "chmod -R u+rwx '%s'; rm -rf '%s'", f->dir, f->dir);
	CHECK_INT(system(command), 0);
}

/* Runs each of @n functions in a directory of its own. */
static void fx_run_all(const char *level, void (*const *functions)(struct fx *), size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fx f;
		unsigned before = tap_failures;

		fx_init(&f, level);
		functions[i](&f);
		fx_done(&f);
		if (tap_failures != before)
			printf("# in function %zu at level %s\n", i, level);
	}
}

/* The same in a child that is an ordinary user, unless we are one already. */
__attribute__((unused)) static void fx_run_as_user(const char *level,
						   void (*const *functions)(struct fx *), size_t n)
{
	int status = 0;
	pid_t pid;

	if (geteuid() != 0)
		return;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tap_failures = 0;
		if (setresgid(FILES_USER_ID, FILES_USER_ID, FILES_USER_ID) < 0 ||
		    setresuid(FILES_USER_ID, FILES_USER_ID, FILES_USER_ID) < 0)
			_exit(99);
		fx_run_all(level, functions, n);
		fflush(stdout);
		_exit(tap_failures ? 1 : 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK_MSG(status == 0, "as a user: status %d", status);
}

/* Points out of functions that take a struct fx: both levels, and both callers where root runs it.
 */
#define FX_TESTS(...)                                                                              \
	static void (*const fx_functions[])(struct fx *) = { __VA_ARGS__ };                        \
	static const size_t fx_n = sizeof(fx_functions) / sizeof(fx_functions[0]);                 \
	static void test_namespaces(void)                                                          \
	{                                                                                          \
		fx_run_all("namespaces", fx_functions, fx_n);                                      \
	}                                                                                          \
	static void test_landlock(void)                                                            \
	{                                                                                          \
		fx_run_all("landlock", fx_functions, fx_n);                                        \
	}                                                                                          \
	static void test_namespaces_as_user(void)                                                  \
	{                                                                                          \
		fx_run_as_user("namespaces", fx_functions, fx_n);                                  \
	}                                                                                          \
	static void test_landlock_as_user(void)                                                    \
	{                                                                                          \
		fx_run_as_user("landlock", fx_functions, fx_n);                                    \
	}

#endif

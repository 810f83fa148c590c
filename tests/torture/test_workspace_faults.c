/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits that are interrupted, and commits during which others are at work.
 *
 * Every system call with which a commit changes something fails once, and the process is killed
 * once instead of making it. After each of these every file of the base is the old or the new one,
 * complete; repeating the commit finishes it; nothing of ours is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/workspace.h>

#include "lib/tap.h"
#include "lib/workspace_rig.h"
#include "sys/calls.h"

#define CALLS_MAX 3000

static struct workspace_rig rig;
static struct rig_told told;
static struct cordon_commit_result result;
static struct cordon_error err;

/* What a name may be: old or new text, NULL = nothing. */
struct expected {
	const char *path, *old, *new;
	int in_small; /* also part of the small commit, in which each file is made durable alone */
};

/* What a branch contains: the name of a commit. */
#define REF(n) "012345678901234567890123456789012345678" #n "\n"

static const struct expected files[] = {
	{ "mod", "old\n", "new\n", 1 },
	{ "mod2", "old 2\n", "new 2\n" },
	{ "gone", "old\n", NULL, 1 },
	{ "dir/mod", "old\n", "new\n" },
	{ "dir/gone/x", "old\n", NULL, 1 },
	{ "added", NULL, "new\n", 1 },
	{ "new/dir/file", NULL, "new\n", 1 },
	{ "name-1", "a text that is long enough to be known again\n", NULL },
	{ "name-2", NULL, "a text that is long enough to be known again\n" },
	{ "opaque/hidden", "old\n", NULL },
	{ "opaque/kept", "old\n", "new\n" },
	{ ".git/objects/11/22", NULL, "object\n" },
	{ ".git/refs/heads/main", REF(1), REF(2) },
	{ ".git/HEAD", "ref: refs/heads/1\n", "ref: refs/heads/2\n" },
};

static int is_small;

/* Is it part of this commit? */
static int is_in(const struct expected *e)
{
	return !is_small || e->in_small;
}

static void make(void)
{
	int n_more = is_small ? 0 : 5;
	char name[64];

	rig_start(&rig);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (files[i].old)
			rig_file(rig.base, files[i].path, files[i].old);
	}
	rig_file(rig.base, "to-file/x", "old\n");
	rig_file(rig.base, "to-dir", "old\n");
	rig_link(rig.base, "link", "mod");
	REQUIRE(rig_begin(&rig, CORDON_MECHANISM_OVERLAY) == 0);
	if (!is_small)
		rig_opaque(rig.content, "opaque");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (!is_in(&files[i]))
			continue;
		if (files[i].new)
			rig_file(rig.content, files[i].path, files[i].new);
		else if (strncmp(files[i].path, "opaque", 6) != 0 &&
			 strcmp(files[i].path, "dir/gone/x"))
			rig_whiteout(rig.content, files[i].path);
	}
	rig_whiteout(rig.content, "dir/gone");
	rig_file(rig.content, "to-file", "new\n");
	rig_file(rig.content, "to-dir/x", "new\n");
	if (!is_small)
		rig_link(rig.content, "link", "mod2");
	for (int i = 0; i < n_more; i++) {
		snprintf(name, sizeof(name), "more/%d", i);
		rig_file(rig.content, name, "new\n");
	}
	REQUIRE(rig_end(&rig) == 0);
}

static void check_old_or_new(long nth)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const struct expected *e = &files[i];
		const char *text = rig_read(rig.base, e->path);

		CHECK_MSG(!strcmp(text, e->old ? e->old : "") ||
				  !strcmp(text, e->new ? e->new : ""),
			  "%ld: %s is '%s'", nth, e->path, text);
	}
	if (is_small)
		return;
	/* A renamed file is never gone under both names. */
	CHECK_MSG(rig_exists(rig.base, "name-1") || rig_exists(rig.base, "name-2"), "%ld", nth);
	/* Nothing refers to an object that is not there. */
	CHECK_MSG(strcmp(rig_read(rig.base, ".git/refs/heads/main"), REF(2)) != 0 ||
			  rig_exists(rig.base, ".git/objects/11/22"),
		  "%ld", nth);
	CHECK_MSG(strcmp(rig_read(rig.base, ".git/HEAD"), "ref: refs/heads/2\n") != 0 ||
			  !strcmp(rig_read(rig.base, ".git/refs/heads/main"), REF(2)),
		  "%ld", nth);
}

static void check_finished(long nth)
{
	char *list, *state;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		CHECK_MSG(!is_in(&files[i]) || !strcmp(rig_read(rig.base, files[i].path),
						       files[i].new ? files[i].new : ""),
			  "%ld: %s is not finished", nth, files[i].path);
	CHECK_STR(rig_read(rig.base, "to-file"), "new\n");
	CHECK_STR(rig_read(rig.base, "to-dir/x"), "new\n");
	list = rig_list(rig.base);
	CHECK_MSG(!strstr(list, ".cordon-commit-"), "%ld left:\n%s", nth, list);
	CHECK_MSG(is_small || strstr(list, "link -> mod2\n"), "%ld: link", nth);
	CHECK_MSG(is_small || !strstr(list, "opaque/hidden"), "%ld", nth);
	CHECK_MSG(!strstr(list, "dir/gone"), "%ld", nth);
	CHECK_MSG(strstr(list, "new/ 755\nnew/dir/ 755\n"), "%ld: modes\n%s", nth, list);
	state = rig_list(rig.state);
	CHECK_MSG(!strstr(state, "/journal"), "%ld: journal", nth);
	free(state);
	state = rig_list(rig.content);
	CHECK_MSG(!*state, "%ld: in upper:\n%s", nth, state);
	CHECK_INT(rig_changes(&rig), 0);
	CHECK(rig_canary_is_whole(&rig));
	free(list);
	free(state);
}

static void repeat(long nth)
{
	int r;

	err = (struct cordon_error)CORDON_ERROR_INIT;
	r = rig_commit(&rig, NULL, &result, &told, &err);
	CHECK_MSG(r == 0, "%ld repeated: %d %s", nth, r, err.msg);
	CHECK_MSG(result.conflicts == 0 && result.failed == 0, "%ld repeated: %s%s", nth, told.text,
		  told.why);
}

static void fail_each(int error, int small)
{
	long nth;
	int r;

	is_small = small;
	/* Nothing waits for a disk there; hundreds of commits do elsewhere. */
	rig_where("/dev/shm");
	for (nth = 1; nth < CALLS_MAX; nth++) {
		long left;

		make();
		fault_arm(nth, error);
		err = (struct cordon_error)CORDON_ERROR_INIT;
		r = rig_commit(&rig, NULL, &result, &told, &err);
		left = fault_arm(0, 0);
		check_old_or_new(nth);
		if (left > 0) {
			CHECK_MSG(r == 0, "without a fault: %s", err.msg);
			check_finished(nth);
			rig_done(&rig);
			break;
		}
		/* Said, or not worth it (a lease, a copy of something): then all is well. */
		CHECK_MSG(r < 0 || result.is_empty, "%ld: no error, but: %s%s", nth, told.text,
			  told.why);
		CHECK_MSG(r == 0 || err.msg[0], "%ld: nothing said", nth);
		repeat(nth);
		check_finished(nth);
		rig_done(&rig);
		if (tap_failures > 5)
			break;
	}
	printf("# %ld calls\n", nth - 1);
	is_small = 0;
	rig_where(NULL);
	CHECK(nth > 30 && nth < CALLS_MAX);
}

static void test_each_call_fails(void)
{
	fail_each(EIO, 1);
}

/* Many files: other ways to make them durable. */
static void test_each_call_fails_in_a_large_commit(void)
{
	fail_each(ENOSPC, 0);
}

static int killed_at(long nth)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int r;

		fault_arm(nth, FAULT_KILL);
		r = rig_commit(&rig, NULL, &result, NULL, &err);
		_exit(r == 0 ? 0 : 1);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFSIGNALED(status))
		return 1;
	return WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void kill_each(int small)
{
	long nth;

	is_small = small;
	rig_where("/dev/shm");
	for (nth = 1; nth < CALLS_MAX; nth++) {
		int r;

		make();
		r = killed_at(nth);
		CHECK_MSG(r >= 0, "%ld: unexpected end", nth);
		check_old_or_new(nth);
		if (r <= 0) {
			check_finished(nth);
			rig_done(&rig);
			break;
		}
		/* Killed again while it goes on, somewhere else. */
		if (nth % 3 == 0) {
			killed_at(nth / 2 + 1);
			check_old_or_new(nth);
		}
		repeat(nth);
		check_finished(nth);
		rig_done(&rig);
		if (tap_failures > 5)
			break;
	}
	printf("# %ld calls\n", nth - 1);
	is_small = 0;
	rig_where(NULL);
	CHECK(nth > 30 && nth < CALLS_MAX);
}

static void test_killed_at_each_call(void)
{
	kill_each(1);
}

static void test_killed_at_each_call_of_a_large_commit(void)
{
	kill_each(0);
}

/* The commit is not continued: each file stays as it is, complete, and nothing of ours is left. */
static void test_killed_and_discarded(void)
{
	long nth;
	int is_over = 0;

	is_small = 1;
	rig_where("/dev/shm");
	for (nth = 1; nth < CALLS_MAX && !is_over; nth++) {
		struct cordon_workspace *ws;
		char *list;

		make();
		is_over = killed_at(nth) <= 0;
		err = (struct cordon_error)CORDON_ERROR_INIT;
		CHECK_INT(cordon_workspace_open(rig.state, rig.base, &ws, &err), 0);
		CHECK_MSG(cordon_workspace_discard(ws, &err) == 0, "%ld: %s", nth, err.msg);
		check_old_or_new(nth);
		list = rig_list(rig.base);
		CHECK_MSG(!strstr(list, ".cordon-commit-"), "%ld left:\n%s", nth, list);
		free(list);
		rig_done(&rig);
		if (tap_failures > 5)
			break;
	}
	is_small = 0;
	rig_where(NULL);
	CHECK(nth > 30 && nth < CALLS_MAX);
}

/* A commit of some paths was interrupted: it is that one that goes on. */
static void test_resumed_with_other_paths(void)
{
	const char *paths[] = { "mod", "mod2", NULL }, *others[] = { "added", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	make();
	options.paths = paths;
	fault_arm(9, EIO); /* after the journal */
	CHECK(rig_commit(&rig, &options, &result, &told, &err) < 0);
	CHECK_INT(fault_arm(0, 0), 0);
	options.paths = others;
	CHECK_INT(rig_commit(&rig, &options, &result, &told, &err), -CORDON_E_STATE);
	CHECK(!rig_exists(rig.base, "added"));
	options.paths = paths;
	CHECK_INT(rig_commit(&rig, &options, &result, &told, &err), 0);
	CHECK_STR(rig_read(rig.base, "mod"), "new\n");
	CHECK_STR(rig_read(rig.base, "mod2"), "new 2\n");
	CHECK(!rig_exists(rig.base, "added"));
	options.paths = others;
	CHECK_INT(rig_commit(&rig, &options, &result, &told, &err), 0);
	CHECK(rig_exists(rig.base, "added"));
	rig_done(&rig);
}

/*
 * An editor that saves during commits, by renaming and in place. It saves once, at a moment that
 * wanders through the commit. Whether it came before or after, what it wrote is there afterwards:
 * either the commit saw it and left it, or the editor wrote over what the commit had put there.
 */
struct editor {
	int by_rename;
	int64_t at_ns;
	atomic_int *go;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *edit(void *arg)
{
	struct editor *e = arg;
	char path[512], temp[512];
	int64_t start;
	int fd;

	snprintf(path, sizeof(path), "%s/mod", rig.base);
	snprintf(temp, sizeof(temp), "%s/mod~", rig.base);
	while (!atomic_load(e->go))
		;
	start = now_ns();
	while (now_ns() < start + e->at_ns)
		;
	fd = open(e->by_rename ? temp : path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, "edit\n", 5) != 5)
		abort();
	close(fd);
	if (e->by_rename && rename(temp, path) < 0)
		abort();
	return NULL;
}

static void edit_round(int round, struct editor *e, int64_t *ret_ns)
{
	pthread_t thread;
	atomic_int go = 0;
	char *list;
	int r;

	rig_start(&rig);
	rig_file(rig.base, "mod", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "mod", "new\n");
	rig_end(&rig);
	e->go = &go;
	REQUIRE(pthread_create(&thread, NULL, edit, e) == 0);
	*ret_ns = now_ns();
	atomic_store(&go, 1);
	r = rig_commit(&rig, NULL, &result, &told, &err);
	*ret_ns = now_ns() - *ret_ns;
	pthread_join(thread, NULL);
	CHECK_MSG(r == 0, "%d: %s", round, err.msg);
	CHECK_MSG(!strcmp(rig_read(rig.base, "mod"), "edit\n"), "%d: the edit is lost: '%s' %s",
		  round, rig_read(rig.base, "mod"), told.text);
	list = rig_list(rig.base);
	CHECK_MSG(!strstr(list, ".cordon"), "%d: left:\n%s", round, list);
	free(list);
	rig_done(&rig);
}

static void test_editor(void)
{
	int n_conflicts = 0, n_before = 0, n_rounds = 300;
	int64_t whole = 0, ns = 0;

	for (int i = 0; i < n_rounds; i++) {
		struct editor e = { .by_rename = i & 1 };

		/* The first ones take their time, and tell how long a commit takes. */
		e.at_ns = i < 4 ? 100000000 : whole / n_rounds * i;
		edit_round(i, &e, &ns);
		if (i < 4 && ns > whole)
			whole = ns;
		n_conflicts += result.conflicts > 0;
		n_before += result.applied > 0;
	}
	printf("# %d edits came before, %d after the commit (%d us)\n", n_conflicts, n_before,
	       (int)(whole / 1000));
	/* The positive control: both happened. */
	CHECK(n_conflicts > 4);
	CHECK(n_before > 4);
}

/* A program keeps a file open and writes into it: it must stay the file that it writes to. */
static void test_open_for_writing(void)
{
	char path[512];
	int fds[2];

	rig_start(&rig);
	rig_file(rig.base, "mod", "old\n");
	rig_file(rig.base, "gone", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "mod", "new\n");
	rig_whiteout(rig.content, "gone");
	rig_end(&rig);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", rig.base, i ? "gone" : "mod");
		fds[i] = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
		REQUIRE(fds[i] >= 0);
	}
	CHECK_INT(rig_commit(&rig, NULL, &result, &told, &err), 0);
	CHECK_INT(result.conflicts, 2);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(write(fds[i], "more\n", 5), 5);
		close(fds[i]);
		CHECK_STR(rig_read(rig.base, i ? "gone" : "mod"), "old\nmore\n");
	}
	rig_done(&rig);
}

static atomic_int is_over;

/* Makes the directory a link to somewhere else, and a directory again, all the time. */
static void *swap(void *arg)
{
	char a[512], b[512], c[512];

	(void)arg;
	snprintf(a, sizeof(a), "%s/d", rig.base);
	snprintf(b, sizeof(b), "%s/real", rig.base);
	snprintf(c, sizeof(c), "%s/trap", rig.base);
	while (!atomic_load(&is_over)) {
		rename(a, b);
		rename(c, a);
		rename(a, c);
		rename(b, a);
	}
	return NULL;
}

static void test_swapped_parents(void)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	int n_good = 0, n_bad = 0;
	char name[32];

	for (int i = 0; i < 60; i++) {
		pthread_t thread;

		rig_start(&rig);
		rig_file(rig.base, "d/sub/f", "old\n");
		rig_file(rig.base, "d/passwd", "old\n");
		rig_file(rig.base, "d/gone", "old\n");
		rig_link(rig.base, "trap", rig.canary);
		rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
		rig_file(rig.content, "d/sub/f", "guest\n");
		rig_file(rig.content, "d/passwd", "guest\n");
		rig_whiteout(rig.content, "d/gone");
		for (int k = 0; k < 20; k++) {
			snprintf(name, sizeof(name), "d/sub/new%d", k);
			rig_file(rig.content, name, "guest\n");
		}
		rig_end(&rig);
		atomic_store(&is_over, 0);
		REQUIRE(pthread_create(&thread, NULL, swap, NULL) == 0);
		options.conflicts = i % 3;
		if (rig_commit(&rig, &options, &result, &told, &err) == 0 && result.applied > 0)
			n_good++;
		else
			n_bad++;
		atomic_store(&is_over, 1);
		pthread_join(thread, NULL);
		CHECK_MSG(rig_canary_is_whole(&rig), "%d: the canary", i);
		rig_done(&rig);
	}
	printf("# %d commits did something, %d did not\n", n_good, n_bad);
}

TAP_MAIN(test_each_call_fails, test_each_call_fails_in_a_large_commit, test_killed_at_each_call,
	 test_killed_and_discarded, test_killed_at_each_call_of_a_large_commit,
	 test_resumed_with_other_paths, test_editor, test_open_for_writing, test_swapped_parents)

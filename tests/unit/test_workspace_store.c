/* SPDX-License-Identifier: Apache-2.0 */
/* Where workspaces are kept: finding and locking them, and what they know of themselves. */
#include <time.h>

#include "test_workspace_store_lib.h"

/* --- making and finding -------------------------------------------------------------------------
 */

static void test_create(void)
{
	const struct timespec old[2] = { { 1, 0 }, { 1000000000, 7 } };
	struct cordon_workspace *ws, *again;
	const struct cordon_workspace_info *info;
	char id[WS_ID_SIZE];
	struct stat st;

	fx_make();
	CHECK_INT(utimensat(tmp_fd, "base", old, 0), 0);
	ws = make_one("build", CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws);
	snprintf(id, sizeof(id), "%s", ws->meta.id);
	CHECK_INT(id[0], 'w');
	CHECK_INT(strlen(id), 9);
	CHECK(ws->is_locked && ws->lock_fd >= 0 && ws->dir_fd >= 0 && ws->base_fd >= 0);
	CHECK_INT(mode_of(tmp_fd, "state"), 0700);
	CHECK_INT(mode_of(tmp_fd, "state/workspaces"), 0700);
	CHECK_INT(mode_of(tmp_fd, in_state(id, "")), 0700);
	CHECK_INT(mode_of(tmp_fd, in_state(id, "/work")), 0700);
	/* The root of the view looks like the base. */
	CHECK_INT(fstatat(tmp_fd, in_state(id, "/upper"), &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0750);
	CHECK_INT(st.st_mtim.tv_sec, 1000000000);
	CHECK_INT(st.st_mtim.tv_nsec, 7);

	CHECK_INT(ws_open(state, id, &again, &err), 0);
	info = cordon_workspace_info(again);
	CHECK_STR(info->id, id);
	CHECK_STR(info->name, "build");
	CHECK_STR(info->base, base);
	CHECK_STR(info->parent, NULL);
	CHECK_INT(info->mechanism, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(info->in_use, 1);
	CHECK_INT(info->commit_begun, 0);
	CHECK(info->created_s > 1600000000 && info->used_s == info->created_s);
	CHECK(ws_is_overlay(again));
	CHECK_INT(ws_lock(again, &err), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "in use") && *err.hint);
	CHECK(!again->is_locked);
	cordon_workspace_close(ws);
	CHECK_INT(ws_lock(again, &err), 0);
	CHECK_INT(ws_lock(again, &err), 0);
	CHECK_INT(cordon_workspace_info(again)->in_use, 0);
	CHECK_INT(ws_open_base(again, &err), 0);
	cordon_workspace_close(again);
	cordon_workspace_close(NULL);
	tmp_drop();
}

static void check_refuses(const char *which, int code, const char *text)
{
	struct cordon_workspace *ws = NULL;

	memset(&err, 0, sizeof(err));
	CHECK_INT(ws_open(state, which, &ws, &err), -code);
	CHECK(!ws);
	CHECK_MSG(strstr(err.msg, text) || strstr(err.hint, text), "%s: %s (%s)", which, err.msg,
		  err.hint);
	cordon_workspace_close(ws);
}

static void test_open(void)
{
	const char *one, *two;
	char path[512];
	int cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	fx_make();
	check_refuses("nothing", CORDON_E_PATH, "no workspace nothing");
	CHECK_INT(err.sys_errno, ENOENT);
	CHECK(!is_there(tmp_fd, "state")); /* looking makes nothing */
	one = make_idle("build", CORDON_MECHANISM_OVERLAY);
	check_opens(one, one);
	check_opens("build", one);
	check_opens(base, one);
	snprintf(path, sizeof(path), "%s/../base/", base);
	check_opens(path, one);
	CHECK_INT(symlinkat("base", tmp_fd, "link"), 0);
	CHECK_INT(fchdir(tmp_fd), 0);
	check_opens("link", one);
	check_opens("./base", one);
	check_opens("base", one);
	check_refuses("biuld", CORDON_E_PATH, "did you mean build?");
	check_refuses("w00000000", CORDON_E_PATH, "no workspace w00000000");
	check_refuses("/etc", CORDON_E_PATH, "no workspace over /etc");
	check_refuses("", CORDON_E_USAGE, "which");

	/* A name before a directory, unless it is written as one. */
	two = make_idle("base", CORDON_MECHANISM_OVERLAY);
	check_opens("base", two);
	check_refuses("./base", CORDON_E_USAGE, one);
	CHECK(strstr(err.hint, two) && strstr(err.hint, "(build)"));
	check_refuses(base, CORDON_E_USAGE, "2 workspaces");
	for (int i = 0; i < 10; i++)
		make_idle(NULL, CORDON_MECHANISM_OVERLAY);
	check_refuses(base, CORDON_E_USAGE, ", ...");
	CHECK_INT(fchdir(cwd), 0);
	close(cwd);
	tmp_drop();
}

/* Paths are any bytes but NUL. */
static void test_base_bytes(void)
{
	static const char *const names[] = { "new\nline", "\xff\xfe\x01", "\"quo\\te\"",
					     "\xed\xb3\xbf", "\xc3\xa9" };
	struct cordon_workspace *ws;

	fx_make();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *id;

		put_dir(tmp_fd, names[i], 0755);
		snprintf(base, sizeof(base), "%s/%s", tmp_path, names[i]);
		id = make_idle(NULL, CORDON_MECHANISM_OVERLAY);
		CHECK_INT(ws_open(state, id, &ws, &err), 0);
		CHECK_STR(ws->meta.base, base);
		CHECK_INT(ws_open_base(ws, &err), 0);
		cordon_workspace_close(ws);
		check_opens(base, id);
	}
	tmp_drop();
}

static void test_names(void)
{
	static const char *const good[] = { "a", "A.b_c-9", "w1234567", "w123456789", "W12345678" };
	static const char *const bad[] = { "",	  ".",	       "..",	    ".a",  "-a",      "a/b",
					   "a b", "w01234567", "wabcdef01", "a\n", "\xc3\xa9" };
	char longest[66];

	memset(longest, 'x', 65);
	longest[65] = '\0';
	CHECK(!ws_is_name(longest));
	longest[64] = '\0';
	CHECK(ws_is_name(longest));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_MSG(ws_is_name(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_MSG(!ws_is_name(bad[i]), "%s", bad[i]);
}

static void test_create_refused(void)
{
	struct cordon_workspace *ws;
	struct ws_create create;

	fx_make();
	make_idle("taken", CORDON_MECHANISM_OVERLAY);
	create = request("taken", CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "taken") && strstr(err.hint, "discard"));
	create = request("-bad", CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_USAGE);
	create = request(NULL, 77);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_USAGE);
	create = request(NULL, CORDON_MECHANISM_OVERLAY);
	create.base_ino++;
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_PATH);
	/* The state lies in the base, and the other way round. */
	snprintf(base, sizeof(base), "%s", tmp_path);
	create = request(NULL, CORDON_MECHANISM_COPY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_PATH);
	CHECK(strstr(err.hint, "XDG_STATE_HOME"));
	snprintf(base, sizeof(base), "%s/workspaces", state);
	create = request(NULL, CORDON_MECHANISM_COPY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_PATH);
	CHECK(!ws);
	/* Nothing of all that is left. */
	struct names names;
	int fd = open_dir(tmp_fd, "state/workspaces");

	CHECK_INT(names_read(fd, &names), 0);
	CHECK_INT(names.n, 2); /* the one, and the hint to its name */
	names_done(&names);
	close(fd);
	tmp_drop();
}

/* Hints to names help to find them and are not believed. */
static void test_hints(void)
{
	struct ws_create create;
	struct cordon_workspace *ws;
	const char *one;

	fx_make();
	one = make_idle("one", CORDON_MECHANISM_OVERLAY);
	check_opens("one", one);
	CHECK_INT(unlinkat(tmp_fd, "state/workspaces/.name-one", 0), 0);
	check_opens("one", one);
	CHECK_INT(symlinkat("../../base", tmp_fd, "state/workspaces/.name-one"), 0);
	check_opens("one", one);
	/* One that leads to another or nowhere takes no name away. */
	CHECK_INT(symlinkat(one, tmp_fd, "state/workspaces/.name-two"), 0);
	CHECK_INT(symlinkat("w00000000", tmp_fd, "state/workspaces/.name-three"), 0);
	check_refuses("two", CORDON_E_PATH, "no workspace two");
	check_opens("two", make_idle("two", CORDON_MECHANISM_OVERLAY));
	check_opens("three", make_idle("three", CORDON_MECHANISM_OVERLAY));
	create = request("two", CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_STATE);
	/* A name is free again when its workspace is gone. */
	CHECK_INT(ws_open(state, "two", &ws, &err), 0);
	CHECK_INT(cordon_workspace_discard(ws, &err), 0);
	CHECK(!is_there(tmp_fd, "state/workspaces/.name-two"));
	CHECK_INT(ws_create(&create, &ws, &err), 0);
	cordon_workspace_close(ws);
	tmp_drop();
}

/* --- the state directory ------------------------------------------------------------------------
 */

static void test_state_unsafe(void)
{
	char path[PATH_MAX];

	fx_make();
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), 0);
	CHECK(strstr(path, "/state/workspaces"));
	CHECK_INT(ws_store_path(state, path, 5, true, &err), -CORDON_E_PATH);
	CHECK_INT(fchmodat(tmp_fd, "state/workspaces", 0720, 0), 0);
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), -CORDON_E_PATH);
	CHECK(strstr(err.hint, "chmod go-w"));
	CHECK_INT(fchmodat(tmp_fd, "state/workspaces", 0700, 0), 0);
	CHECK_INT(fchmodat(tmp_fd, "state", 0702, 0), 0);
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), -CORDON_E_PATH);
	CHECK_INT(fchmodat(tmp_fd, "state", 0755, 0), 0);
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), 0);
	if (geteuid() == 0) {
		CHECK_INT(fchownat(tmp_fd, "state", ORDINARY_ID, ORDINARY_ID, 0), 0);
		CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), -CORDON_E_PATH);
		CHECK_INT(fchownat(tmp_fd, "state", 0, 0, 0), 0);
	} else {
		CHECK_INT(ws_store_path("/usr", path, sizeof(path), true, &err), -CORDON_E_PATH);
	}
	CHECK(strstr(err.msg, "another user"));

	/* Links on the last steps, with and without a slash at the end. */
	CHECK_INT(renameat(tmp_fd, "state", tmp_fd, "real"), 0);
	CHECK_INT(symlinkat("real", tmp_fd, "state"), 0);
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), -CORDON_E_PATH);
	CHECK(strstr(err.msg, "link"));
	snprintf(state + strlen(state), sizeof(state) - strlen(state), "/");
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), -CORDON_E_PATH);
	CHECK_INT(unlinkat(tmp_fd, "state", 0), 0);
	CHECK_INT(renameat(tmp_fd, "real", tmp_fd, "state"), 0);
	CHECK_INT(renameat(tmp_fd, "state/workspaces", tmp_fd, "elsewhere"), 0);
	CHECK_INT(symlinkat("../elsewhere", tmp_fd, "state/workspaces"), 0);
	CHECK_INT(ws_store_path(state, path, sizeof(path), true, &err), -CORDON_E_PATH);
	CHECK_INT(ws_store_path("state", path, sizeof(path), true, &err), -CORDON_E_USAGE);
	tmp_drop();
}

static void test_state_environment(void)
{
	char path[PATH_MAX], want[PATH_MAX];

	fx_make();
	setenv("XDG_STATE_HOME", state, 1);
	setenv("HOME", "/nowhere", 1);
	CHECK_INT(ws_store_path(NULL, path, sizeof(path), true, &err), 0);
	snprintf(want, sizeof(want), "%s/state/cordon/workspaces", tmp_path);
	CHECK_STR(path, want);
	CHECK_INT(mode_of(tmp_fd, "state"), 0700);
	setenv("XDG_STATE_HOME", "relative", 1);
	CHECK_INT(ws_store_path(NULL, path, sizeof(path), true, &err), -CORDON_E_USAGE);
	setenv("XDG_STATE_HOME", "", 1);
	setenv("HOME", tmp_path, 1);
	CHECK_INT(ws_store_path(NULL, path, sizeof(path), false, &err), 0);
	snprintf(want, sizeof(want), "%s/.local/state/cordon/workspaces", tmp_path);
	CHECK_STR(path, want);
	CHECK(!is_there(tmp_fd, ".local"));
	CHECK_INT(ws_store_path(NULL, path, sizeof(path), true, &err), 0);
	CHECK(is_there(tmp_fd, ".local/state/cordon/workspaces"));
	unsetenv("HOME");
	unsetenv("XDG_STATE_HOME");
	CHECK_INT(ws_store_path(NULL, path, sizeof(path), true, &err), -CORDON_E_USAGE);
	CHECK(strstr(err.hint, "HOME"));
	tmp_drop();
}

/* --- the lock -----------------------------------------------------------------------------------
 */

/* A process that has a copy of all descriptors, until *ret_fd is closed. It closes @ws. */
static pid_t start_heir(struct cordon_workspace *ws, int *ret_fd)
{
	int pipes[2];
	pid_t pid;
	char c;

	if (pipe(pipes) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		close(pipes[1]);
		cordon_workspace_close(ws);
		while (read(pipes[0], &c, 1) > 0)
			;
		_exit(0);
	}
	close(pipes[0]);
	*ret_fd = pipes[1];
	return pid;
}

/* What other threads start has a copy of the descriptor for a moment, and what is forked has its
 * own: neither keeps the lock, nor frees it. */
static void test_lock_copied(void)
{
	struct cordon_workspace *ws, *other;
	int fd, fd2, status;
	pid_t pid, pid2;

	fx_make();
	ws = make_one(NULL, CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws);
	CHECK_INT(ws_open(state, ws->meta.id, &other, &err), 0);
	pid = start_heir(other, &fd); /* has a copy of the lock, as it does not know of it */
	pid2 = start_heir(ws, &fd2);
	close(fd2);
	CHECK_INT(waitpid(pid2, &status, 0), pid2);
	CHECK_INT(ws_lock(other, &err), -CORDON_E_STATE);
	ws_unlock(ws);
	CHECK_INT(ws_lock(other, &err), 0);
	ws_unlock(other);
	CHECK_INT(ws_lock(ws, &err), 0);
	cordon_workspace_close(ws);
	CHECK_INT(ws_lock(other, &err), 0);
	cordon_workspace_close(other);
	close(fd);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	tmp_drop();
}

/* An init's lives as long as its copy of the descriptor. */
static void test_lock_inherited(void)
{
	struct cordon_workspace *ws, *other;
	int fd, status;
	pid_t pid;
	char *id;

	fx_make();
	ws = make_one(NULL, CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws);
	id = strdup(ws->meta.id);
	pid = start_heir(NULL, &fd);
	ws->is_lent = true;
	CHECK_INT(ws_open(state, id, &other, &err), 0);
	CHECK_INT(other->info.in_use, 1);
	ws_unlock(ws);
	CHECK_INT(ws_lock(ws, &err), -CORDON_E_STATE);
	cordon_workspace_close(ws);
	CHECK_INT(ws_lock(other, &err), -CORDON_E_STATE);
	close(fd);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(ws_lock(other, &err), 0);
	ws_unlock(other);
	CHECK_INT(ws_lock(other, &err), 0);
	cordon_workspace_close(other);
	free(id);
	tmp_drop();
}

/* What others saved between opening and locking is not lost. */
static void test_lock_reads(void)
{
	struct cordon_workspace *a, *b;
	const char *id;

	fx_make();
	id = make_idle(NULL, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_open(state, id, &a, &err), 0);
	CHECK_INT(ws_open(state, id, &b, &err), 0);
	CHECK_INT(ws_lock(a, &err), 0);
	CHECK_INT(ws_begin_run(a, &err), 0);
	CHECK(a->meta.is_dirty && a->meta.runs == 1 && a->info.runs == 1);
	ws_unlock(a);
	CHECK_INT(b->meta.runs, 0);
	CHECK_INT(ws_lock(b, &err), 0);
	CHECK_INT(b->meta.runs, 1);
	CHECK(b->meta.is_dirty);
	CHECK_INT(b->meta.run_started.tv_sec, a->meta.run_started.tv_sec);
	CHECK_INT(b->meta.run_started.tv_nsec, a->meta.run_started.tv_nsec);
	/* Removed by one, it cannot be locked by the other. */
	CHECK_INT(cordon_workspace_discard(b, &err), 0);
	CHECK_INT(ws_lock(a, &err), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "removed"));
	cordon_workspace_close(a);
	tmp_drop();
}

/* --- meta.json ----------------------------------------------------------------------------------
 */

static void test_damaged(void)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"{}",
		"{\"format\": 1}",
		"{\"format\": 2}",
		"null",
		"\xff",
		"{\"format\": 1, \"id\": \"w00000000\"}",
	};
	const char *good, *bad;
	char copy[4096], path[PATH_MAX];
	int n;

	fx_make();
	good = make_idle("good", CORDON_MECHANISM_OVERLAY);
	bad = make_idle("bad", CORDON_MECHANISM_OVERLAY);
	snprintf(path, sizeof(path), "%s", in_state(bad, "/meta.json"));
	snprintf(copy, sizeof(copy), "%s", text_of(tmp_fd, path));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put_text(tmp_fd, path, texts[i], 0600);
		check_refuses(bad, CORDON_E_STATE, "meta.json is damaged");
		CHECK(strstr(err.msg, bad));
		check_opens("good", good);
		check_refuses("bad", CORDON_E_STATE, "damaged"); /* it may have been that one */
		n = 0;
		CHECK_INT(cordon_workspace_list(state, count, &n, &err), -CORDON_E_STATE);
		CHECK_INT(n, 1);
	}
	/* Each single byte cut off is seen. */
	for (size_t len = 0; len + 2 < strlen(copy); len += 3) {
		char cut[4096];
		struct cordon_workspace *ws;

		snprintf(cut, sizeof(cut), "%.*s", (int)len, copy);
		put_text(tmp_fd, path, cut, 0600);
		CHECK_INT(ws_open(state, bad, &ws, &err), -CORDON_E_STATE);
	}
	CHECK_INT(unlinkat(tmp_fd, path, 0), 0);
	check_refuses(bad, CORDON_E_STATE, "missing");
	CHECK_INT(mkfifoat(tmp_fd, path, 0600), 0);
	check_refuses(bad, CORDON_E_STATE, "damaged");
	CHECK_INT(unlinkat(tmp_fd, path, 0), 0);
	put_text(tmp_fd, path, copy, 0600);
	check_opens("bad", bad);
	tmp_drop();
}

#define LIST_SIZE 256

static int note_id(void *arg, const struct cordon_workspace_info *info)
{
	char *text = arg;

	snprintf(text + strlen(text), LIST_SIZE - strlen(text), "%s", info->id);
	return 0;
}

static int stop_at_once(void *arg, const struct cordon_workspace_info *info)
{
	(void)info;
	++*(int *)arg;
	return 1;
}

static void test_list(void)
{
	char want[LIST_SIZE] = "", got[LIST_SIZE] = "";
	int n = 0;

	fx_make();
	CHECK_INT(cordon_workspace_list(state, count, &n, &err), 0);
	CHECK_INT(n, 0);
	for (int i = 0; i < 5; i++) {
		const struct timespec tick = { .tv_nsec = 20000000 };

		snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s",
			 make_idle(NULL, CORDON_MECHANISM_OVERLAY));
		nanosleep(&tick, NULL); /* another tick of the clock that dates them */
	}
	/* Others' things are not taken for workspaces. */
	put_dir(tmp_fd, "state/workspaces/notes", 0700);
	put_dir(tmp_fd, "state/workspaces/.new-w00000000", 0700);
	CHECK_INT(cordon_workspace_list(state, note_id, got, &err), 0);
	CHECK_STR(got, want);
	n = 0;
	CHECK_INT(cordon_workspace_list(state, stop_at_once, &n, &err), 0);
	CHECK_INT(n, 1);
	tmp_drop();
}

TAP_MAIN(test_create, test_open, test_base_bytes, test_names, test_create_refused, test_hints,
	 test_state_unsafe, test_state_environment, test_lock_copied, test_lock_inherited,
	 test_lock_reads, test_damaged, test_list)

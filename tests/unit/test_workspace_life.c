/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces from their making to their removal, with interruptions and crowds. */
#include <sys/prctl.h>
#include <time.h>

#include "test_workspace_store_lib.h"
#include "workspace/changes/changes.h"

/* --- copies -------------------------------------------------------------------------------------
 */

static bool is_after(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* What we copied is never younger than `created`, what is changed later always is. */
static void copy_stamps(void)
{
	for (int i = 0; i < 50 && !tap_failures; i++) {
		struct cordon_workspace *ws = make_one(NULL, CORDON_MECHANISM_COPY);
		struct stat st;
		int tree;

		REQUIRE(ws);
		CHECK(!ws_is_overlay(ws));
		tree = ws_open_content(ws);
		REQUIRE(tree >= 0);
		put_text(tree, "at-once", "x", 0644);
		CHECK_INT(fstatat(tree, "at-once", &st, 0), 0);
		CHECK(is_after(&st.st_ctim, &ws->meta.created));
		CHECK_INT(fstatat(tree, "file", &st, 0), 0);
		CHECK(!is_after(&st.st_ctim, &ws->meta.created));
		CHECK_STR(text_of(tree, "file"), "original");
		close(tree);
		CHECK_INT(cordon_workspace_discard(ws, &err), 0);
	}
}

static void test_copy(void)
{
	struct cordon_workspace *ws;

	fx_make();
	copy_stamps();
	ws = make_one("c", CORDON_MECHANISM_COPY);
	REQUIRE(ws);
	CHECK(ws->meta.mechanism == CORDON_MECHANISM_COPY ||
	      ws->meta.mechanism == CORDON_MECHANISM_REFLINK);
	CHECK_INT(mode_of(tmp_fd, in_state(ws->meta.id, "/tree")), 0750);
	cordon_workspace_close(ws);
	tmp_drop();
	/* The same on a disk. */
	tmp_make();
	snprintf(state, sizeof(state), "%s/state", tmp_path);
	snprintf(base, sizeof(base), "%s/base", tmp_path);
	put_dir(tmp_fd, "base", 0750);
	put_text(tmp_fd, "base/file", "original", 0644);
	copy_stamps();
	tmp_drop();
}

static void unreadable(void)
{
	struct ws_create create;
	struct cordon_workspace *ws;

	fx_make();
	put_dir(tmp_fd, "base/sub", 0755);
	put_text(tmp_fd, "base/sub/closed", "x", 0000);
	create = request(NULL, CORDON_MECHANISM_COPY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_PATH);
	CHECK_INT(err.sys_errno, EACCES);
	CHECK_MSG(strstr(err.msg, "base/sub/closed") && *err.hint, "%s", err.msg);
	/* An overlay does not mind. */
	create = request(NULL, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_create(&create, &ws, &err), 0);
	cordon_workspace_close(ws);
	tmp_drop();
}

static void test_copy_unreadable(void)
{
	as_ordinary(unreadable);
}

static void test_parent(void)
{
	struct cordon_workspace *one, *two, *none;
	struct ws_create create;
	int upper;

	fx_make();
	one = make_one("one", CORDON_MECHANISM_OVERLAY);
	REQUIRE(one);
	upper = ws_open_content(one);
	put_text(upper, "new", "by the guest", 0600);
	put_dir(upper, "closed", 0000);
	close(upper);
	put_text(one->dir_fd, "records", "as it was", 0600);
	CHECK_INT(ws_begin_run(one, &err), 0);

	create = request("two", CORDON_MECHANISM_OVERLAY);
	create.parent = "one";
	CHECK_INT(ws_create(&create, &none, &err), -CORDON_E_STATE); /* in use */
	ws_unlock(one);
	CHECK_MSG(ws_create(&create, &two, &err) == 0, "%s", err.msg);
	CHECK_STR(two->meta.parent, one->meta.id);
	CHECK_STR(two->info.parent, one->meta.id);
	CHECK_INT(two->meta.created.tv_sec, one->meta.created.tv_sec);
	CHECK_INT(two->meta.created.tv_nsec, one->meta.created.tv_nsec);
	CHECK(two->meta.is_dirty && two->meta.runs == 0);
	upper = ws_open_content(two);
	CHECK_STR(text_of(upper, "new"), "by the guest");
	CHECK_INT(mode_of(upper, "closed"), 0);
	close(upper);
	CHECK_STR(text_of(two->dir_fd, "records"), "as it was");
	cordon_workspace_close(two);
	CHECK_INT(ws_lock(one, &err), 0); /* it is free again */
	put_text(one->dir_fd, "journal", "", 0600);
	cordon_workspace_close(one);

	create.name = "three";
	CHECK_INT(ws_create(&create, &none, &err), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "interrupted"));
	create.parent = "two";
	create.mechanism = CORDON_MECHANISM_COPY;
	CHECK_INT(ws_create(&create, &none, &err), -CORDON_E_STATE);
	create.parent = "nobody";
	CHECK_INT(ws_create(&create, &none, &err), -CORDON_E_PATH);
	put_dir(tmp_fd, "other", 0755);
	snprintf(base, sizeof(base), "%s/other", tmp_path);
	create = request("three", CORDON_MECHANISM_OVERLAY);
	create.parent = "two";
	CHECK_INT(ws_create(&create, &none, &err), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "another directory"));
	tmp_drop();
}

/* Until a change made now is younger than one that was made before. */
static void wait_for_tick(const char *name)
{
	const struct timespec wait = { .tv_nsec = 1000000 };
	struct timespec now;
	struct stat st;

	CHECK_INT(fstatat(tmp_fd, name, &st, 0), 0);
	do {
		nanosleep(&wait, NULL);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (!is_after(&now, &st.st_ctim));
}

/* "kind path" of each change. */
static const char *changes_of(struct cordon_workspace *ws)
{
	static char text[1024];
	struct ws_changes changes = { 0 };
	struct strbuf path = STRBUF_INIT;

	text[0] = '\0';
	CHECK_INT(ws_open_base(ws, &err), 0);
	CHECK_INT(ws_collect(ws, &changes, &err), 0);
	for (uint32_t i = 0; i < changes.n; i++) {
		size_t used = strlen(text);

		ws_node_path(&changes, i, &path);
		if (changes.v[i].kind)
			snprintf(text + used, sizeof(text) - used, "%s %s\n",
				 cordon_change_kind_name(changes.v[i].kind), path.data);
	}
	strbuf_done(&path);
	ws_changes_done(&changes);
	return text;
}

/* Others' work in the base is not mistaken for what guests did to a copy, or to a copy of one. */
static void test_parent_copy_changes(void)
{
	struct cordon_workspace *one, *two;
	struct ws_create create;
	int tree;

	fx_make();
	put_text(tmp_fd, "base/deleted", "x", 0644);
	put_text(tmp_fd, "base/same", "x", 0644);
	put_dir(tmp_fd, "base/dir", 0755);
	put_text(tmp_fd, "base/dir/f", "x", 0644);
	wait_for_tick("base/dir/f");
	one = make_one("one", CORDON_MECHANISM_COPY);
	REQUIRE(one);
	put_text(tmp_fd, "base/by-host", "x", 0644);
	CHECK_STR(changes_of(one), "");
	tree = ws_open_content(one);
	put_text(tree, "file", "changed", 0644);
	CHECK_INT(unlinkat(tree, "deleted", 0), 0);
	close(tree);
	CHECK_STR(changes_of(one), "deleted deleted\nmodified file\n");
	ws_unlock(one);
	create = request("two", CORDON_MECHANISM_COPY);
	create.parent = "one";
	CHECK_MSG(ws_create(&create, &two, &err) == 0, "%s", err.msg);
	put_text(tmp_fd, "base/by-host-later", "x", 0644);
	CHECK_STR(changes_of(two), "deleted deleted\nmodified file\n");
	cordon_workspace_close(one);
	cordon_workspace_close(two);
	tmp_drop();
}

static void test_parent_copy(void)
{
	struct cordon_workspace *one, *two;
	struct ws_create create;
	int tree;

	fx_make();
	one = make_one("one", CORDON_MECHANISM_COPY);
	REQUIRE(one);
	tree = ws_open_content(one);
	put_text(tree, "file", "changed", 0600);
	close(tree);
	ws_unlock(one);
	create = request("two", CORDON_MECHANISM_COPY);
	create.parent = "one";
	CHECK_MSG(ws_create(&create, &two, &err) == 0, "%s", err.msg);
	tree = ws_open_content(two);
	CHECK_STR(text_of(tree, "file"), "changed");
	close(tree);
	/* Its times do not tell what was changed in it. */
	CHECK_INT(two->meta.created.tv_sec, 0);
	CHECK_INT(two->meta.began.tv_sec, one->meta.began.tv_sec);
	CHECK(two->info.created_s > 1600000000);
	cordon_workspace_close(one);
	cordon_workspace_close(two);
	tmp_drop();
}

/* --- interruptions and crowds -------------------------------------------------------------------
 */

static uint64_t collect(int64_t older_than, int dry_run)
{
	struct cordon_gc_options options = CORDON_GC_OPTIONS_INIT;
	uint64_t n = 0;

	options.older_than_s = older_than;
	options.dry_run = dry_run;
	CHECK_MSG(cordon_workspace_gc(state, &options, &n, &err) == 0, "gc: %s", err.msg);
	return n;
}

/* Everything but the hints to names. */
static size_t entries(void)
{
	int fd = open_dir(tmp_fd, "state/workspaces");
	struct names names;
	size_t n;

	CHECK_INT(names_read(fd, &names), 0);
	n = names.n;
	for (size_t i = 0; i < names.n; i++)
		n -= strncmp(names.v[i], ".name-", 6) == 0;
	names_done(&names);
	close(fd);
	return n;
}

static int stop_here(void *arg, uint64_t files, uint64_t bytes)
{
	int fd = *(int *)arg;

	(void)files;
	(void)bytes;
	if (write(fd, "x", 1) != 1)
		_exit(4);
	for (;;)
		pause();
}

/* Killed while it copies: nothing that looks like a workspace, and gc removes what is left, but not
 * while a copy is under way. */
static void test_killed(void)
{
	int pipes[2], n = 0, status;
	pid_t pid;
	char c;

	fx_make();
	for (int i = 0; i < 200; i++) {
		char name[32];

		snprintf(name, sizeof(name), "base/%d", i);
		put_text(tmp_fd, name, "x", 0644);
	}
	REQUIRE(pipe(pipes) == 0);
	pid = fork();
	if (pid == 0) {
		struct ws_create create = request("half", CORDON_MECHANISM_COPY);
		struct cordon_workspace *ws;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		create.progress = stop_here;
		create.arg = &pipes[1];
		(void)ws_create(&create, &ws, NULL);
		_exit(5);
	}
	CHECK_INT(read(pipes[0], &c, 1), 1);
	CHECK_INT(entries(), 1);
	CHECK_INT(collect(-1, 0), 0);
	CHECK_INT(entries(), 1);
	/* The store is not blocked by it. */
	make_idle("other", CORDON_MECHANISM_OVERLAY);
	CHECK_INT(kill(pid, SIGKILL), 0);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(cordon_workspace_list(state, count, &n, &err), 0);
	CHECK_INT(n, 1);
	CHECK_INT(collect(-1, 1), 1);
	CHECK_INT(entries(), 2);
	CHECK_INT(collect(-1, 0), 1);
	CHECK_INT(entries(), 1);
	make_idle("half", CORDON_MECHANISM_OVERLAY);
	close(pipes[0]);
	close(pipes[1]);
	tmp_drop();
}

static int cancel(void *arg, uint64_t files, uint64_t bytes)
{
	(void)arg;
	(void)files;
	(void)bytes;
	return 1;
}

static void test_cancelled(void)
{
	struct ws_create create;
	struct cordon_workspace *ws;

	fx_make();
	for (int i = 0; i < 200; i++) {
		char name[32];

		snprintf(name, sizeof(name), "base/%d", i);
		put_text(tmp_fd, name, "x", 0644);
	}
	create = request(NULL, CORDON_MECHANISM_COPY);
	create.progress = cancel;
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_SYSTEM);
	CHECK_INT(err.sys_errno, ECANCELED);
	CHECK_INT(entries(), 0);
	tmp_drop();
}

/* Many at once: each gets its own, and a name only one. */
static void test_crowd(void)
{
	int n = 0, winners = 0, status;
	pid_t pids[8];

	fx_make();
	for (int i = 0; i < 8; i++) {
		pids[i] = fork();
		if (pids[i] != 0)
			continue;
		for (int k = 0; k < 12; k++)
			cordon_workspace_close(make_one(NULL, CORDON_MECHANISM_OVERLAY));
		struct ws_create create =
			request("wanted", i % 2 ? CORDON_MECHANISM_OVERLAY : CORDON_MECHANISM_COPY);
		struct cordon_workspace *ws;
		int r = ws_create(&create, &ws, &err);

		if (tap_failures || (r < 0 && r != -CORDON_E_STATE))
			_exit(1);
		_exit(r == 0 ? 2 : 0);
	}
	for (int i = 0; i < 8; i++) {
		CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 1);
		winners += WIFEXITED(status) && WEXITSTATUS(status) == 2;
	}
	CHECK_INT(winners, 1);
	CHECK_INT(cordon_workspace_list(state, count, &n, &err), 0);
	CHECK_INT(n, 8 * 12 + 1);
	CHECK_INT(entries(), 8 * 12 + 1);
	tmp_drop();
}

/* --- removing -----------------------------------------------------------------------------------
 */

static void discard(void)
{
	struct cordon_workspace *ws, *other;
	int upper;

	fx_make();
	ws = make_one(NULL, CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws);
	/* As the kernel and guests leave it. */
	CHECK_INT(mkdirat(ws->dir_fd, "work/work", 0000), 0);
	upper = ws_open_content(ws);
	put_deep(upper, "d", 200);
	CHECK_INT(fchmodat(upper, "d", 0000, 0), 0);
	close(upper);
	CHECK_INT(fchmodat(ws->dir_fd, "upper", 0000, 0), 0);
	CHECK_INT(ws_open(state, ws->meta.id, &other, &err), 0);
	CHECK_INT(cordon_workspace_discard(other, &err), -CORDON_E_STATE); /* in use */
	CHECK_INT(entries(), 1);
	CHECK_INT(cordon_workspace_discard(ws, &err), 0);
	CHECK_INT(entries(), 0);
	CHECK_STR(text_of(tmp_fd, "base/file"), "original");
	tmp_drop();
}

static void test_discard(void)
{
	discard();
	as_ordinary(discard);
}

static void test_base_replaced(void)
{
	struct cordon_workspace *ws;
	const char *id;

	fx_make();
	id = make_idle(NULL, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(renameat(tmp_fd, "base", tmp_fd, "moved"), 0);
	CHECK_INT(ws_open(state, id, &ws, &err), 0);
	CHECK_INT(ws_open_base(ws, &err), -CORDON_E_PATH);
	CHECK_INT(ws->base_fd, -1);
	CHECK_INT(err.sys_errno, ENOENT);
	put_dir(tmp_fd, "base", 0750);
	CHECK_INT(ws_open_base(ws, &err), -CORDON_E_PATH);
	CHECK(strstr(err.msg, "is not the directory"));
	/* Found by its old place all the same. */
	cordon_workspace_close(ws);
	CHECK_INT(unlinkat(tmp_fd, "base", AT_REMOVEDIR), 0);
	check_opens(base, id);
	CHECK_INT(collect(-1, 0), 0); /* it may still be needed */
	CHECK_INT(renameat(tmp_fd, "moved", tmp_fd, "base"), 0);
	CHECK_INT(ws_open(state, id, &ws, &err), 0);
	CHECK_INT(ws_open_base(ws, &err), 0);
	cordon_workspace_close(ws);
	tmp_drop();
}

static void told(void *arg, const struct cordon_workspace_info *info, const char *why)
{
	size_t used = strlen(arg);

	snprintf((char *)arg + used, 1024 - used, "%s:%s\n", info->id, why);
}

static void put_into(const char *id, const char *name)
{
	struct cordon_workspace *ws;
	int upper;

	CHECK_INT(ws_open(state, id, &ws, &err), 0);
	upper = ws_open_content(ws);
	put_text(upper, name, "text", 0644);
	close(upper);
	cordon_workspace_close(ws);
}

static void test_gc(void)
{
	const char *empty, *changed, *damaged;
	struct cordon_gc_options options = CORDON_GC_OPTIONS_INIT;
	struct cordon_workspace *used;
	char text[1024] = "";
	uint64_t n;

	fx_make();
	CHECK_INT(cordon_workspace_gc(state, &options, &n, &err), 0); /* no store at all */
	CHECK_INT(n, 0);
	empty = make_idle(NULL, CORDON_MECHANISM_OVERLAY);
	make_idle("named", CORDON_MECHANISM_OVERLAY);
	changed = make_idle(NULL, CORDON_MECHANISM_OVERLAY);
	put_into(changed, "new");
	damaged = make_idle(NULL, CORDON_MECHANISM_OVERLAY);
	put_text(tmp_fd, in_state(damaged, "/meta.json"), "{", 0600);
	used = make_one(NULL, CORDON_MECHANISM_OVERLAY);
	put_dir(tmp_fd, "state/workspaces/.gone-w00000001", 0700);
	put_dir(tmp_fd, "state/workspaces/.gone-w00000001/d", 0000);
	put_dir(tmp_fd, "state/workspaces/.new-w00000002", 0700);
	put_dir(tmp_fd, "state/workspaces/.other", 0700);
	CHECK_INT(entries(), 8);
	options.told = told;
	options.arg = text;
	options.dry_run = 1;
	CHECK_INT(cordon_workspace_gc(state, &options, &n, &err), 0);
	CHECK_INT(n, 3);
	CHECK_INT(entries(), 8);
	CHECK(strstr(text, empty) && strstr(text, "w00000001:half-removed") &&
	      strstr(text, "w00000002:half-made") && !strstr(text, changed));
	CHECK_INT(collect(-1, 0), 3);
	CHECK_INT(entries(), 5);
	CHECK_INT(collect(3600, 0), 0);
	/* Everything that is not in use. */
	CHECK(is_there(tmp_fd, "state/workspaces/.name-named"));
	CHECK_INT(collect(0, 0), 3);
	CHECK_INT(entries(), 2);
	CHECK(!is_there(tmp_fd, "state/workspaces/.name-named"));
	CHECK(is_there(tmp_fd, "state/workspaces/.other"));
	cordon_workspace_close(used);
	CHECK_INT(collect(-1, 0), 1);
	options.size = 1;
	CHECK_INT(cordon_workspace_gc(state, &options, &n, &err), -CORDON_E_USAGE);
	tmp_drop();
}

static void no_space(void)
{
	static char big[400000];
	struct ws_create create;
	struct cordon_workspace *ws;

	fx_make();
	memset(big, 'x', sizeof(big) - 1);
	put_text(tmp_fd, "base/big", big, 0644);
	put_dir(tmp_fd, "state", 0700);
	if (mount("tmpfs", state, "tmpfs", 0, "size=256k,mode=700") < 0)
		SKIP("no tmpfs here");
	create = request(NULL, CORDON_MECHANISM_COPY);
	CHECK_INT(ws_create(&create, &ws, &err), -CORDON_E_SYSTEM);
	CHECK_INT(err.sys_errno, ENOSPC);
	CHECK(strstr(err.msg, "base/big") && strstr(err.hint, "room"));
	CHECK_INT(entries(), 0);
	/* Nothing is left of one whose meta.json has no room. */
	ws = make_one("small", CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws);
	struct cordon_workspace *other = NULL;
	int had = entries();
	int fd = openat(ws->dir_fd, "filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	while (write(fd, big, 4096) > 0)
		;
	close(fd);
	create = request(NULL, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_create(&create, &other, &err), -CORDON_E_SYSTEM);
	CHECK_INT(err.sys_errno, ENOSPC);
	CHECK_INT(entries(), had);
	CHECK_INT(cordon_workspace_discard(ws, &err), 0);
	CHECK_INT(umount2(state, MNT_DETACH), 0);
	tmp_drop();
}

static void test_no_space(void)
{
	with_mounts(no_space);
}

TAP_MAIN(test_copy, test_copy_unreadable, test_parent, test_parent_copy, test_parent_copy_changes,
	 test_killed, test_cancelled, test_crowd, test_discard, test_base_replaced, test_gc,
	 test_no_space)

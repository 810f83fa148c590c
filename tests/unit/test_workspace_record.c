/* SPDX-License-Identifier: Apache-2.0 */
/* The base as it was, and what is a conflict. */
#include "test_workspace_changes_lib.h"

#include <sys/time.h>

static struct cordon_workspace ws;

/* A run begins; its changes follow. */
static void begin_run(void)
{
	ws.meta.run_started = tick();
	ws.meta.is_dirty = true;
}

static bool start(int mechanism)
{
	if (!set_up())
		return false;
	open_ws(&ws, mechanism);
	ws.meta.created = tick();
	return true;
}

static void end(void)
{
	close_ws(&ws);
	tear_down();
}

static void settle(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_summary summary;

	CHECK_MSG(ws_settle(&ws, &summary, NULL, &err) == 0, "%s", err.msg);
	CHECK(!ws.meta.is_dirty);
	tick();
}

/* What a commit would think of each change: "path: as it was", "path: changed" ... */
static const char *verdicts(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	static struct strbuf out = STRBUF_INIT;
	struct strbuf path = STRBUF_INIT;
	struct ws_changes changes;
	struct ws_records *records = NULL;

	strbuf_done(&out);
	strbuf_puts(&out, "");
	if (ws_collect(&ws, &changes, &err) < 0 || ws_records_load(&ws, &records, &err) < 0)
		return err.msg[0] ? fmt("%s", err.msg) : "error";
	for (uint32_t i = 0; i < changes.n; i++) {
		const char *why = NULL, *name = changes.v[i].name, *text = "as it was";
		int base, upper, r;
		char dir[PATH_MAX];

		if (changes.v[i].kind == 0)
			continue;
		ws_node_path(&changes, i, &path);
		snprintf(dir, sizeof(dir), "base/%.*s", (int)(path.len - strlen(name)), path.data);
		base = openat(top_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		snprintf(dir, sizeof(dir), "ws/%s/%.*s", ws_is_overlay(&ws) ? "upper" : "tree",
			 (int)(path.len - strlen(name)), path.data);
		upper = openat(top_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = ws_check_base(&ws, records, path.data, &changes.v[i], base, upper, name, &why);
		if (r == WS_CHANGED)
			text = why ? why : "NULL";
		else if (r == WS_DONE)
			text = "done";
		else if (r < 0)
			text = "error";
		strbuf_printf(&out, "%s: %s\n", path.data, text);
		if (base >= 0)
			close(base);
		if (upper >= 0)
			close(upper);
	}
	strbuf_done(&path);
	ws_changes_done(&changes);
	ws_records_free(records);
	return out.data;
}

static void replace(const char *path, const char *text)
{
	CHECK(unlinkat(top_fd, path, 0) == 0);
	put(path, text);
}

/* Every kind of change, settled; then the user does something to the base. */
static void make_changes(void)
{
	put(BASE "modified", "1");
	put(BASE "deleted", "2");
	put_link(BASE "link", "3");
	put(BASE "type", "4");
	put(BASE "mode", "5");
	put_dir(BASE "dir");
	put(BASE "dir/x", "6");
	ws.meta.created = tick();
	begin_run();
	put(UP "modified", "one");
	put_whiteout(UP "deleted");
	put_link(UP "link", "three");
	put_link(UP "type", "four");
	put_mode(UP "mode", "5", 0600);
	put_whiteout(UP "dir");
	put(UP "added", "seven");
	settle();
}

static void test_nothing_happened(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	CHECK_STR(verdicts(), "added: as it was\ndeleted: as it was\ndir: as it was\n"
			      "dir/x: as it was\nlink: as it was\nmode: as it was\n"
			      "modified: as it was\ntype: as it was\n");
	end();
}

static void test_base_changed(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	put(BASE "modified", "I");
	put(BASE "deleted", "II");
	CHECK(unlinkat(top_fd, BASE "link", 0) == 0);
	put_link(BASE "link", "III");
	CHECK(unlinkat(top_fd, BASE "type", 0) == 0);
	put_dir(BASE "type");
	put(BASE "mode", "V");
	put(BASE "dir/x", "VI");
	put(BASE "dir/y", "new");
	put(BASE "added", "VII");
	CHECK_STR(
		verdicts(),
		"added: appeared\ndeleted: was changed\ndir: as it was\ndir/x: was changed\n"
		"dir/y: was changed\nlink: was changed\nmode: was changed\nmodified: was changed\n"
		"type: became a directory\n");
	end();
}

/* Content decides, not time: an editor or a checkout wrote the same again. */
static void test_base_rewritten(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	replace(BASE "modified", "1");
	replace(BASE "deleted", "2");
	CHECK(unlinkat(top_fd, BASE "link", 0) == 0);
	put_link(BASE "link", "3");
	replace(BASE "type", "4");
	CHECK(utimensat(top_fd, BASE "mode", NULL, 0) == 0);
	CHECK_STR(verdicts(), "added: as it was\ndeleted: as it was\ndir: as it was\n"
			      "dir/x: as it was\nlink: as it was\nmode: as it was\n"
			      "modified: as it was\ntype: as it was\n");
	CHECK(fchmodat(top_fd, BASE "modified", 0640, 0) == 0);
	CHECK(strstr(verdicts(), "modified: was changed\n"));
	end();
}

static void test_base_deleted(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	CHECK(unlinkat(top_fd, BASE "modified", 0) == 0);
	CHECK(unlinkat(top_fd, BASE "deleted", 0) == 0);
	CHECK(unlinkat(top_fd, BASE "mode", 0) == 0);
	CHECK(unlinkat(top_fd, BASE "dir/x", 0) == 0);
	/* Both deleted the same: no change any more. */
	CHECK_STR(verdicts(),
		  "added: as it was\ndir: as it was\nlink: as it was\nmode: was deleted\n"
		  "modified: was deleted\ntype: as it was\n");
	end();
}

/* The user did the same: there is nothing left to do. */
static void test_base_equal(void)
{
	struct ws_node node = { .kind = CORDON_CHANGE_MODIFIED,
				.type = CORDON_FILE_REGULAR,
				.old_type = CORDON_FILE_REGULAR,
				.mode = 0644,
				.size = 3 };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct ws_records *records;
	const char *why;
	int base, upper;

	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	put(BASE "modified", "one");
	put(BASE "added", "seven");
	CHECK(!strstr(verdicts(), "modified") && !strstr(verdicts(), "added"));
	REQUIRE(ws_records_load(&ws, &records, &err) == 0);
	base = openat(top_fd, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	upper = openat(top_fd, "ws/upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(ws_check_base(&ws, records, "modified", &node, base, upper, "modified", &why),
		  WS_DONE);
	put(BASE "modified", "two");
	CHECK_INT(ws_check_base(&ws, records, "modified", &node, base, upper, "modified", &why),
		  WS_CHANGED);
	node = (struct ws_node){ .kind = CORDON_CHANGE_DELETED, .old_type = CORDON_FILE_REGULAR };
	CHECK_INT(ws_check_base(&ws, records, "nothing", &node, base, upper, "nothing", &why),
		  WS_DONE);
	CHECK_INT(ws_check_base(&ws, records, "a/b", &node, -1, -1, "b", &why), WS_DONE);
	ws_records_free(records);
	close(base);
	close(upper);
	end();
}

/* Changed during the run: it may have seen either content. */
static void test_changed_during_run(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	put(BASE "f", "1");
	put(BASE "g", "1");
	begin_run();
	put(UP "f", "by the run");
	put(UP "g", "by the run");
	put(BASE "f", "by the user");
	settle();
	CHECK_STR(verdicts(), "f: was changed\ng: as it was\n");
	end();
}

/* A record is made once; what the first run saw counts. */
static void test_two_runs(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	put(BASE "f", "1");
	begin_run();
	put(UP "f", "run one");
	put(UP "new", "run one");
	settle();
	put(BASE "f", "by the user");
	put(BASE "g", "by the user");
	begin_run();
	put(UP "f", "run two");
	put(UP "g", "run two");
	/* What the first run made the second takes back, and a third sees the user's. */
	CHECK(unlinkat(top_fd, UP "new", 0) == 0);
	settle();
	put(BASE "new", "by the user");
	begin_run();
	put(UP "new", "run three");
	settle();
	CHECK_STR(verdicts(), "f: was changed\ng: as it was\nnew: as it was\n");
	end();
}

/* Never settled: only the times can tell. */
static void test_no_records(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	put(BASE "old", "1");
	put(BASE "touched", "1");
	put_dir(BASE "d");
	put(BASE "d/x", "1");
	put(BASE "d/y", "1");
	ws.meta.created = tick();
	put(UP "old", "2");
	put(UP "touched", "2");
	put_whiteout(UP "d");
	put(UP "added", "2");
	put(BASE "touched", "1");
	put(BASE "d/y", "1");
	CHECK_STR(verdicts(), "added: as it was\nd: as it was\nd/x: as it was\nd/y: was changed\n"
			      "old: as it was\ntouched: was changed\n");
	end();
}

/* What is moved into a deleted directory keeps its times, but not its own directory's. */
static void test_moved_in(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	put_dir(BASE "d");
	put_dir(BASE "other");
	put(BASE "other/x", "precious");
	ws.meta.created = tick();
	begin_run();
	put_whiteout(UP "d");
	settle();
	CHECK(renameat(top_fd, BASE "other", top_fd, BASE "d/other") == 0);
	CHECK(strstr(verdicts(), "d/other: was changed\n"));
	CHECK(renameat(top_fd, BASE "d", top_fd, BASE "e") == 0);
	CHECK(renameat(top_fd, BASE "e/other", top_fd, BASE "d") == 0);
	CHECK(strstr(verdicts(), "d: was changed\n"));
	end();
}

static void test_added_tree(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	begin_run();
	put_dir(UP "d");
	put_dir(UP "d/e");
	put(UP "d/e/f", "1");
	settle();
	CHECK_STR(verdicts(), "d: as it was\nd/e: as it was\nd/e/f: as it was\n");
	put_dir(BASE "d");
	put_dir(BASE "d/e");
	put(BASE "d/e/f", "user's");
	CHECK_STR(verdicts(), "d/e/f: appeared\n");
	end();
}

static void test_drop(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct ws_records *records;

	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	put(BASE "modified", "committed");
	CHECK(strstr(verdicts(), "modified: was changed\n"));
	REQUIRE(ws_records_load(&ws, &records, &err) == 0);
	ws_records_drop(records, "modified");
	ws_records_drop(records, "never/was");
	CHECK_INT(ws_records_save(&ws, records, &err), 0);
	ws_records_free(records);
	/* The next run sees what was committed. */
	begin_run();
	put(UP "modified", "again");
	settle();
	CHECK(strstr(verdicts(), "modified: as it was\n"));
	end();
}

static void test_strange_names(void)
{
	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	put(BASE "a b%41\n\xff\033", "1");
	begin_run();
	put(UP "a b%41\n\xff\033", "2");
	settle();
	CHECK_STR(verdicts(), "a b%41\n\xff\033: as it was\n");
	put(BASE "a b%41\n\xff\033", "3");
	CHECK_STR(verdicts(), "a b%41\n\xff\033: was changed\n");
	end();
}

static void test_damaged(void)
{
	static const char *const texts[] = {
		"",
		"x",
		"cordon-records 2\nend 0\n",
		"cordon-records 1\n",
		"cordon-records 1\nend 1\n",
		"cordon-records 1\nend 0\nmore",
		"cordon-records 1\n0 1 1 420 1 1 1 1 1 1 1 1 00 x\nend 1\n",
		"cordon-records 1\n-1 1 9 420 1 1 1 1 1 1 1 1 "
		"0000000000000000000000000000000000000000 x\nend 1\n",
		"cordon-records 1\n-1 1 1 420 1 1 1 1 1 1 1 1 "
		"0000000000000000000000000000000000000000 a/b\nend 1\n",
		"cordon-records 1\n-1 1 1 420 1 1 1 1 1 1 1 1 "
		"0000000000000000000000000000000000000000 %00\nend 1\n",
		"cordon-records 1\n-1 1 1 420 1 1 1 1 1 1 1 1 "
		"0000000000000000000000000000000000000000 \nend 1\n",
	};
	struct cordon_error err = CORDON_ERROR_INIT;
	struct ws_records *records;

	REQUIRE(start(CORDON_MECHANISM_OVERLAY));
	make_changes();
	REQUIRE(ws_records_load(&ws, &records, &err) == 0);
	CHECK(records->n > 0 && !records->is_changed);
	ws_records_free(records);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put("ws/records", texts[i]);
		REQUIRE(ws_records_load(&ws, &records, &err) == 0);
		CHECK_MSG(records->n == 0 && records->is_changed, "%s", texts[i]);
		ws_records_free(records);
	}
	/* As if there were none. */
	CHECK(strstr(verdicts(), "modified: as it was\n"));
	put(BASE "modified", "1");
	CHECK(strstr(verdicts(), "modified: was changed\n"));
	end();
}

/* A copy shows the base as it was when the copy was made, not when the run began. */
static void test_copy(void)
{
	REQUIRE(start(CORDON_MECHANISM_COPY));
	put(BASE "f", "1");
	put(BASE "g", "1");
	tick();
	CHECK(unlinkat(top_fd, "ws/tree", AT_REMOVEDIR) == 0);
	put_dir("ws/tree");
	tick();
	put("ws/tree/f", "1");
	put("ws/tree/g", "1");
	ws.meta.created = tick();
	put(BASE "f", "by the user");
	begin_run();
	put("ws/tree/f", "2");
	put("ws/tree/g", "2");
	settle();
	CHECK_STR(verdicts(), "f: was changed\ng: as it was\n");
	end();
}

TAP_MAIN(test_nothing_happened, test_base_changed, test_base_rewritten, test_base_deleted,
	 test_base_equal, test_changed_during_run, test_two_runs, test_no_records, test_moved_in,
	 test_added_tree, test_drop, test_strange_names, test_damaged, test_copy)

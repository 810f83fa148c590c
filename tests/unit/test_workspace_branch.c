/* SPDX-License-Identifier: Apache-2.0 */
/* Branches: copies of a workspace that a run may have at the same time. */
#include <dirent.h>

#include "test_workspace_store_lib.h"
#include "workspace/tree/compare.h"

static uint64_t count_all(void)
{
	uint64_t n = 0;
	struct dirent *entry;
	char path[256];
	DIR *dir;

	snprintf(path, sizeof(path), "%s/workspaces", state);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	if (dir)
		closedir(dir);
	return n;
}

static struct cordon_workspace *make_full(int mechanism)
{
	struct cordon_workspace *ws = make_one(NULL, mechanism);
	int content = ws ? ws_open_content(ws) : -1;

	CHECK(content >= 0);
	if (content < 0)
		return ws;
	put_text(content, "new", "by the guest", 0600);
	/* In a copy, what the guest has closed cannot be read. */
	put_dir(content, "closed", mechanism == CORDON_MECHANISM_COPY ? 0700 : 0000);
	close(content);
	return ws;
}

/* The run that has it keeps it, and goes on. */
static void test_of_a_run(void)
{
	struct cordon_workspace *one, *two, *other;
	int content;

	fx_make();
	one = make_full(CORDON_MECHANISM_OVERLAY);
	REQUIRE(one);
	CHECK_INT(ws_begin_run(one, &err), 0);
	CHECK_MSG(ws_branch(one, 0, 0, &two, &err) == 0, "%s", err.msg);
	CHECK(two->meta.is_dirty && two->meta.runs == 0 && !two->meta.name);
	CHECK_STR(two->info.parent, one->meta.id);
	CHECK_INT(two->meta.run_started.tv_nsec, one->meta.run_started.tv_nsec);
	content = ws_open_content(two);
	CHECK_STR(text_of(content, "new"), "by the guest");
	CHECK_INT(mode_of(content, "closed"), 0);
	put_text(content, "new", "by another", 0600);
	close(content);
	content = ws_open_content(one);
	CHECK_STR(text_of(content, "new"), "by the guest");
	CHECK_INT(mode_of(content, "closed"), 0);
	close(content);
	/* It has its own lock, and the first still has the other. */
	CHECK_INT(ws_open(state, one->meta.id, &other, &err), 0);
	CHECK_INT(ws_lock(other, &err), -CORDON_E_STATE);
	cordon_workspace_close(other);
	CHECK_INT(ws_open(state, two->meta.id, &other, &err), 0);
	CHECK_INT(ws_lock(other, &err), -CORDON_E_STATE);
	cordon_workspace_close(two);
	CHECK_INT(ws_lock(other, &err), 0);
	cordon_workspace_close(other);
	cordon_workspace_close(one);
	tmp_drop();
}

static void test_of_a_free_one(void)
{
	struct cordon_workspace *one, *two, *three;

	fx_make();
	one = make_full(CORDON_MECHANISM_OVERLAY);
	REQUIRE(one);
	CHECK_INT(ws_open(state, one->meta.id, &two, &err), 0);
	CHECK_INT(cordon_workspace_branch(two, 0, 0, &three, &err), -CORDON_E_STATE); /* in use */
	cordon_workspace_close(one);
	CHECK_MSG(cordon_workspace_branch(two, 0, 0, &three, &err) == 0, "%s", err.msg);
	CHECK_INT(cordon_workspace_discard(three, &err), 0);
	/* It is free again. */
	CHECK(!two->is_locked);
	CHECK_INT(ws_open(state, two->meta.id, &one, &err), 0);
	CHECK_INT(ws_lock(one, &err), 0);
	cordon_workspace_close(one);
	put_text(two->dir_fd, "journal", "", 0600);
	CHECK_INT(cordon_workspace_branch(two, 0, 0, &three, &err), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "interrupted"));
	cordon_workspace_close(two);
	tmp_drop();
}

/* What ran in @one may go on in its branches with what it has read. */
static void test_memory_goes_on(void)
{
	struct cordon_workspace *one, *two, *again, *three;
	struct timespec since, seen;

	fx_make();
	one = make_full(CORDON_MECHANISM_OVERLAY);
	REQUIRE(one);
	CHECK_INT(ws_begin_run(one, &err), 0);
	since = one->meta.run_started;
	CHECK_INT(ws_branch(one, 0, 0, &two, &err), 0);
	CHECK_INT(ws_begin_run(two, &err), 0);
	CHECK(ws_is_before(&since, &two->meta.run_started));
	CHECK_INT(ws_open(state, two->meta.id, &again, &err), 0);
	cordon_workspace_close(two);
	seen = ws_seen(again);
	CHECK(ws_is_same_time(&seen, &since));
	CHECK_INT(cordon_workspace_branch(again, 0, 0, &three, &err), 0);
	CHECK(ws_is_same_time(&three->meta.since, &since));
	cordon_workspace_close(three);
	/* A commit makes the base younger. */
	CHECK_INT(ws_lock(again, &err), 0);
	CHECK_INT(ws_end_since(again, &err), 0);
	seen = ws_seen(again);
	CHECK(ws_is_before(&since, &seen));
	cordon_workspace_close(again);
	cordon_workspace_close(one);
	tmp_drop();
}

static void bounds(int mechanism)
{
	struct cordon_workspace *one, *two;
	uint64_t before;

	fx_make();
	one = make_full(mechanism);
	REQUIRE(one);
	before = count_all();
	CHECK_INT(ws_branch(one, 0, 1, &two, &err),
		  mechanism == CORDON_MECHANISM_COPY ? 0 : -CORDON_E_SYSTEM);
	if (mechanism == CORDON_MECHANISM_COPY) {
		/* What is of the base does not count. */
		CHECK_INT(cordon_workspace_discard(two, &err), 0);
	} else {
		CHECK_INT(err.sys_errno, EDQUOT);
		CHECK(strstr(err.msg, "more than may be copied"));
		CHECK_INT(ws_branch(one, 5, 0, &two, &err), -CORDON_E_SYSTEM);
		CHECK_INT(ws_branch(one, 100, 2, &two, &err), 0);
		CHECK_INT(cordon_workspace_discard(two, &err), 0);
	}
	CHECK_INT(count_all(), before); /* nothing half-made */
	cordon_workspace_close(one);
	tmp_drop();
}

static void test_bounds(void)
{
	bounds(CORDON_MECHANISM_OVERLAY);
	bounds(CORDON_MECHANISM_COPY);
}

TAP_MAIN(test_of_a_run, test_of_a_free_one, test_memory_goes_on, test_bounds)

/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: order, merging, links, the caller's directory, and what is refused. */
#include <errno.h>

#include "test_plan_lib.h"

static struct fixture f;

static void test_read_and_write(void)
{
	const struct plan_op *op;
	struct stat st;

	fx_init(&f);
	fx_set(&f, "fs.read", "data");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	/* The caller's directory is granted, so "data" adds nothing. */
	CHECK(op_get(&f, PLAN_OP_BIND, "")->flags & PLAN_RDONLY);
	CHECK_INT(op_find(&f, PLAN_OP_BIND, "data"), -1);
	op = op_get(&f, PLAN_OP_BIND, "ws");
	CHECK(!(op->flags & (PLAN_RDONLY | PLAN_MKPOINT)));
	CHECK(op->flags & PLAN_IDENTITY);
	CHECK(stat(fx_path(&f, "ws"), &st) == 0 && op->ino == st.st_ino);
	CHECK(op->access & LL_FS_WRITE_FILE && op->access & LL_FS_REFER);
	CHECK(!(op->access & (LL_FS_MAKE_CHAR | LL_FS_MAKE_BLOCK | LL_FS_IOCTL_DEV)));
	CHECK(op_find(&f, PLAN_OP_BIND, "") < op_find(&f, PLAN_OP_BIND, "ws"));
	fx_done(&f);
}

static void test_longest_path_wins(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/lib/gen");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.read", "ws/lib");
	fx_set(&f, "fs.write", "ws/lib/gen");
	FX_BUILD(&f);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "ws")->flags & PLAN_RDONLY));
	CHECK(op_get(&f, PLAN_OP_BIND, "ws/lib")->flags & PLAN_RDONLY);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "ws/lib/gen")->flags & PLAN_RDONLY));
	CHECK(op_find(&f, 0, "ws") < op_find(&f, 0, "ws/lib"));
	CHECK(op_find(&f, 0, "ws/lib") < op_find(&f, 0, "ws/lib/gen"));
	fx_done(&f);
}

static void test_same_path_twice(void)
{
	fx_init(&f);
	fx_set(&f, "fs.read", "data");
	fx_set(&f, "fs.write", "./data/../data/");
	FX_BUILD(&f);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "data")->flags & PLAN_RDONLY));
	fx_done(&f);
}

static void test_read_in_write_pins_parents(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/a/b/keep");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.read", "ws/a/b/keep");
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/a") >= 0);
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/a") < op_find(&f, PLAN_OP_PIN, "ws/a/b"));
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/a/b") < op_find(&f, PLAN_OP_BIND, "ws/a/b/keep"));
	fx_done(&f);
}

static void test_missing_has_a_suggestion(void)
{
	fx_init(&f);
	fx_set(&f, "fs.read", "./dat");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	CHECK_STR(f.err.msg, "cannot grant './dat' for reading: no such file or directory");
	CHECK_STR(f.err.hint, "did you mean './data'?");
	CHECK_INT(f.err.sys_errno, ENOENT);
	fx_done(&f);
}

static void test_write_through_a_link_is_refused(void)
{
	fx_init(&f);
	fx_link(&f, "ws/sub", "../data");
	fx_dir(&f, "data/deep");
	fx_set(&f, "fs.write", "ws/sub");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	CHECK(strstr(f.err.msg, "is a link") != NULL);
	CHECK(strstr(f.err.hint, fx_path(&f, "data")) != NULL);
	fx_done(&f);

	/* Nor in the middle of the path. */
	fx_init(&f);
	fx_link(&f, "ws/sub", "../data");
	fx_dir(&f, "data/deep");
	fx_set(&f, "fs.write", "ws/sub/deep");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	fx_done(&f);
}

static void test_read_through_a_link_of_the_workspace(void)
{
	fx_init(&f);
	fx_link(&f, "ws/sub", "../data");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.read", "ws/sub");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	fx_done(&f);
}

static void test_links_are_recreated(void)
{
	const struct plan_op *op;

	fx_init(&f);
	fx_dir(&f, "elsewhere");
	fx_dir(&f, "real/project");
	fx_link(&f, "short", "real/project");
	snprintf(f.cwd, sizeof(f.cwd), "%s", fx_path(&f, "elsewhere"));
	fx_set(&f, "fs.read", fx_path(&f, "short"));
	FX_BUILD(&f);
	op = op_get(&f, PLAN_OP_SYMLINK, "short");
	CHECK_STR(plan_string(f.plan->block, op->src), "real/project");
	CHECK(op_get(&f, PLAN_OP_BIND, "real/project")->flags & PLAN_MKPOINT);
	CHECK(op_find(&f, PLAN_OP_DIR, "real") >= 0);
	/* The directory that the link lies in is made before it. */
	CHECK(op_find(&f, PLAN_OP_DIR, "") < op_find(&f, PLAN_OP_SYMLINK, "short"));
	fx_done(&f);
}

static void test_special_files_are_refused(void)
{
	static const struct {
		const char *path, *text;
	} cases[] = {
		{ "pipe", "it is a FIFO" },
		{ "/dev/null", "has its own" },
		{ "/proc/self/status", "has its own" },
		{ "/sys", "has its own" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fx_init(&f);
		CHECK(mkfifo(fx_path(&f, "pipe"), 0600) == 0);
		fx_set(&f, "fs.read", cases[i].path);
		CHECK_INT(fx_build(&f), -CORDON_E_PATH);
		CHECK_MSG(strstr(f.err.msg, cases[i].text) != NULL, "%s", f.err.msg);
		fx_done(&f);
	}
	fx_init(&f);
	fx_set(&f, "fs.write", "/");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	fx_done(&f);
}

static void test_cwd_is_granted(void)
{
	fx_init(&f);
	snprintf(f.cwd, sizeof(f.cwd), "%s", fx_path(&f, "ws"));
	FX_BUILD(&f);
	CHECK(op_get(&f, PLAN_OP_BIND, "ws")->flags & PLAN_RDONLY);
	CHECK_STR(plan_string(f.plan->block, ((struct plan_header *)f.plan->block)->cwd),
		  fx_path(&f, "ws"));
	CHECK(f.plan->notes[0] == NULL);
	fx_done(&f);
}

static void test_home_is_not(void)
{
	static const char *const places[] = {
		"home", "above", "/", "/tmp", "/proc", "/dev", "/etc"
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		fx_init(&f);
		if (*places[i] == '/')
			snprintf(f.cwd, sizeof(f.cwd), "%s", places[i]);
		else
			snprintf(f.cwd, sizeof(f.cwd), "%s", i == 0 ? f.home : f.base);
		FX_BUILD(&f);
		CHECK_INT(op_find(&f, PLAN_OP_BIND, f.cwd), -1);
		CHECK_STR(plan_string(f.plan->block, ((struct plan_header *)f.plan->block)->cwd),
			  f.home);
		CHECK_MSG(list_has(f.plan->notes, "not shown to the command"), "%s", f.cwd);
		if (*places[i] != '/')
			CHECK(list_has(f.plan->notes, "your home directory"));
		fx_done(&f);
	}
}

static void test_home_on_request(void)
{
	fx_init(&f);
	snprintf(f.cwd, sizeof(f.cwd), "%s", f.home);
	fx_set(&f, "fs.read", ".");
	FX_BUILD(&f);
	CHECK(op_get(&f, PLAN_OP_BIND, f.home)->flags & PLAN_RDONLY);
	CHECK_INT(op_find(&f, PLAN_OP_DIR, f.home), -1);
	CHECK(list_has(f.plan->notes, "your home directory is shown"));
	fx_done(&f);
}

static void test_start_dir(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/src");
	fx_set(&f, "cwd", "ws/src");
	FX_BUILD(&f);
	CHECK_STR(env_get(&f, "PWD"), fx_path(&f, "ws/src"));
	fx_set(&f, "cwd", "/opt");
	if (access("/opt", F_OK) == 0) {
		CHECK_INT(fx_build(&f), -CORDON_E_PATH);
		CHECK(strstr(f.err.msg, "outside every grant") != NULL);
		CHECK(strstr(f.err.hint, "-r") != NULL);
	}
	fx_set(&f, "cwd", "ws/scr");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	CHECK_STR(f.err.hint, "did you mean 'ws/src'?");
	fx_done(&f);
}

static void test_root_passes_descriptors(void)
{
	const struct plan_header *h;
	struct stat st;

	fx_init(&f);
	f.machine.uid = f.machine.gid = 0;
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	h = f.plan->block;
	CHECK_INT(f.plan->n_mount_fds, 2);
	CHECK_INT(h->n_mount_fds, 2);
	CHECK_INT(op_get(&f, PLAN_OP_BIND, "ws")->fd_index, 1);
	CHECK(fstat(f.plan->mount_fds[1], &st) == 0 &&
	      st.st_ino == op_get(&f, PLAN_OP_BIND, "ws")->ino);
	CHECK_INT(op_get(&f, PLAN_OP_BIND, "/usr")->fd_index, -1);
	CHECK_INT(h->outer_uid, 65534);
	CHECK_INT(h->inner_uid, 1000);
	CHECK_INT(h->flags & (PLAN_SETIDS | PLAN_DROP_GROUPS | PLAN_MAP_SELF),
		  PLAN_SETIDS | PLAN_DROP_GROUPS);
	fx_done(&f);
}

static void test_no_descriptor_is_lost(void)
{
	int before, after;

	fx_init(&f);
	f.machine.uid = 0;
	before = dup(0);
	for (int i = 0; i < 3; i++) {
		fx_set(&f, "fs.write", "ws");
		FX_BUILD(&f);
		fx_set(&f, "fs.read", i ? "/dev/null" : "data");
		if (i)
			CHECK_INT(fx_build(&f), -CORDON_E_PATH);
		else
			FX_BUILD(&f);
		plan_free(f.plan);
		f.plan = NULL;
		if (i)
			break;
	}
	after = dup(0);
	CHECK_INT(after, before + 1);
	close(before);
	close(after);
	fx_done(&f);
}

TAP_MAIN(test_read_and_write, test_longest_path_wins, test_same_path_twice,
	 test_read_in_write_pins_parents, test_missing_has_a_suggestion,
	 test_write_through_a_link_is_refused, test_read_through_a_link_of_the_workspace,
	 test_links_are_recreated, test_special_files_are_refused, test_cwd_is_granted,
	 test_home_is_not, test_home_on_request, test_start_dir, test_root_passes_descriptors,
	 test_no_descriptor_is_lost)

/* SPDX-License-Identifier: Apache-2.0 */
/* fs.workspace: where the view lies, and that nothing is ever done to the base itself. */
#include "test_plan_lib.h"

static struct fixture f;
static char content[PATH_MAX + 16], store[PATH_MAX + 16];
static int store_fd;

/* The workspace of ws, as the launcher would have made it. */
static void begin(int is_copy)
{
	struct stat st;

	fx_init(&f);
	fx_set(&f, "fs.workspace", "ws");
	CHECK(stat(fx_path(&f, "ws"), &st) == 0);
	snprintf(store, sizeof(store), "%.4000s/store", f.base);
	CHECK(mkdir(store, 0700) == 0);
	snprintf(content, sizeof(content), "%.4000s/%s", store, is_copy ? "tree" : "upper");
	CHECK(mkdir(content, 0755) == 0);
	store_fd = open(is_copy ? content : store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(store_fd >= 0);
	f.workspace = (struct plan_workspace){ .base = strdup(fx_path(&f, "ws")),
					       .base_dev = st.st_dev,
					       .base_ino = st.st_ino,
					       .dir = is_copy ? content : store,
					       .dir_fd = store_fd,
					       .content = content,
					       .is_copy = is_copy };
}

static void end(void)
{
	free((char *)(uintptr_t)f.workspace.base);
	if (store_fd >= 0)
		close(store_fd);
	fx_done(&f);
}

static const char *plan_cwd(void)
{
	const struct plan_header *h = f.plan->block;

	return plan_string(h, h->cwd);
}

static void test_overlay(void)
{
	begin(0);
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_UPPER, "ws") >= 0);
	CHECK_INT(op_find(&f, PLAN_OP_OVERLAY, "ws"), op_find(&f, PLAN_OP_UPPER, "ws") + 1);
	CHECK_INT(op_find(&f, PLAN_OP_BIND, "ws"), -1);
	CHECK(op_get(&f, PLAN_OP_OVERLAY, "ws")->flags & PLAN_IDENTITY);
	CHECK(op_get(&f, PLAN_OP_UPPER, "ws")->flags & PLAN_IDENTITY);
	CHECK(op_get(&f, PLAN_OP_OVERLAY, "ws")->access & LL_FS_WRITE_FILE);
	end();
}

static void test_copy(void)
{
	begin(1);
	FX_BUILD(&f);
	CHECK_INT(op_find(&f, PLAN_OP_OVERLAY, "ws"), -1);
	CHECK(op_find(&f, PLAN_OP_BIND, "ws") >= 0);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "ws")->flags & PLAN_RDONLY));
	end();
}

static void test_copy_at_level_landlock(void)
{
	begin(1);
	f.level = PLAN_LEVEL_LANDLOCK;
	fx_set(&f, "fs.workspace", fx_path(&f, "ws"));
	snprintf(f.cwd, sizeof(f.cwd), "%s", fx_path(&f, "ws"));
	FX_BUILD(&f);
	CHECK_STR(plan_cwd(), content);
	/* Nothing of the base is granted, not even for reading. */
	CHECK_INT(op_find(&f, PLAN_OP_RULE, "ws"), -1);
	end();
}

/* What namespaces would cover: the base itself, a part of it, what it lies in. */
static void test_grants_and_denials_beside_a_copy(void)
{
	static const char *const cases[][2] = {
		{ "fs.write", "ws" },	  { "fs.write", "ws/sub" }, { "fs.write", "." },
		{ "fs.read", "ws/sub" },  { "fs.deny", "ws/sub" },  { "fs.deny", "ws/none" },
		{ "fs.deny", "ws/file" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(1);
		f.level = PLAN_LEVEL_LANDLOCK;
		fx_dir(&f, "ws/sub");
		fx_file(&f, "ws/file", "x");
		fx_set(&f, cases[i][0], cases[i][1]);
		CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
		CHECK(strstr(f.err.msg, "together with the workspace") != NULL);
		end();
	}
	begin(1);
	f.level = PLAN_LEVEL_LANDLOCK;
	fx_dir(&f, "beside");
	fx_set(&f, "fs.write", "beside");
	FX_BUILD(&f);
	end();
}

/* A project full of names that would be held or pinned in a write grant. */
static void test_base_is_left_alone(void)
{
	begin(0);
	fx_dir(&f, "ws/.git");
	fx_dir(&f, "ws/.git/hooks");
	fx_file(&f, "ws/.git/config", "");
	fx_file(&f, "ws/.git/HEAD", "ref: refs/heads/main\n");
	fx_dir(&f, "ws/.vscode");
	FX_BUILD(&f);
	CHECK_INT((int)f.plan->n_reserved, 0);
	CHECK_INT((int)f.plan->n_repos, 0);
	CHECK_INT(op_find(&f, PLAN_OP_PIN, "ws/.git/hooks"), -1);
	CHECK_INT(op_find(&f, PLAN_OP_PIN, "ws/.vscode"), -1);
	end();
}

static void test_denied_names(void)
{
	begin(0);
	fx_file(&f, "ws/secret", "x");
	fx_set(&f, "fs.deny", "ws/secret");
	fx_set(&f, "fs.deny", "ws/missing");
	FX_BUILD(&f);
	CHECK_INT((int)f.plan->n_reserved, 0);
	CHECK(op_get(&f, PLAN_OP_MASK, "ws/secret")->flags & PLAN_MKPOINT);
	CHECK(op_get(&f, PLAN_OP_MASK, "ws/missing")->flags & PLAN_MKPOINT);
	/* Only what init makes for it is to be taken away again. */
	CHECK_INT((int)f.plan->n_covered, 1);
	if (f.plan->n_covered)
		CHECK_STR(f.plan->covered[0], "missing");
	end();
}

static void test_grants_inside_are_the_hosts(void)
{
	begin(0);
	fx_dir(&f, "ws/out");
	fx_dir(&f, "ws/ref");
	fx_set(&f, "fs.write", "ws/out");
	fx_set(&f, "fs.read", "ws/ref");
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_OVERLAY, "ws") < op_find(&f, PLAN_OP_BIND, "ws/ref"));
	CHECK(op_get(&f, PLAN_OP_BIND, "ws/ref")->flags & PLAN_RDONLY);
	CHECK(op_find(&f, PLAN_OP_OVERLAY, "ws") < op_find(&f, PLAN_OP_BIND, "ws/out"));
	end();
}

static void test_both_workspace_and_write_grant(void)
{
	begin(0);
	fx_set(&f, "fs.write", "ws");
	CHECK_INT(fx_build(&f), -CORDON_E_POLICY);
	CHECK(strstr(f.err.msg, "both") != NULL);
	end();
}

static void test_inside_a_write_grant(void)
{
	begin(0);
	fx_set(&f, "fs.write", ".");
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_BIND, "") < op_find(&f, PLAN_OP_OVERLAY, "ws"));
	CHECK(op_find(&f, PLAN_OP_OVERLAY, "ws") >= 0);
	end();
}

static void test_replaced_base(void)
{
	begin(0);
	f.workspace.base_ino++;
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	CHECK(strstr(f.err.msg, "replaced") != NULL);
	end();
}

static void test_link(void)
{
	begin(0);
	fx_link(&f, "alias", "ws");
	fx_set(&f, "fs.workspace", "alias");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	CHECK(strstr(f.err.msg, "link") != NULL);
	end();
}

/* The caller is somewhere that is not shown: the workspace is where the work is. */
static void test_start_directory(void)
{
	begin(0);
	snprintf(f.cwd, sizeof(f.cwd), "%s", "/");
	fx_set(&f, "fs.workspace", fx_path(&f, "ws"));
	FX_BUILD(&f);
	CHECK_STR(plan_cwd(), fx_path(&f, "ws"));
	end();
}

/* A program that only the workspace has. */
static void test_program_of_an_earlier_run(void)
{
	const struct plan_header *h;
	char path[PATH_MAX + 64];

	begin(0);
	snprintf(path, sizeof(path), "%s/tool", content);
	CHECK(symlink("/bin/true", path) == 0);
	f.argv[0] = "ws/tool";
	CHECK_INT(fx_build(&f), -CORDON_E_NOT_FOUND);
	CHECK(unlink(path) == 0);
	fx_file(&f, "../store/upper/tool", "#!/bin/sh\n");
	CHECK(chmod(path, 0755) == 0);
	FX_BUILD(&f);
	h = f.plan->block;
	CHECK_STR(plan_string(h, h->exec_path), fx_path(&f, "ws/tool"));
	end();
}

static void test_store_is_hidden(void)
{
	char hidden[PATH_MAX + 64], state[PATH_MAX + 32];

	fx_init(&f);
	snprintf(state, sizeof(state), "%.4000s/home/state", f.base);
	snprintf(hidden, sizeof(hidden), "%.4100s/workspaces", state);
	f.options.state_dir = state;
	fx_set(&f, "fs.write", f.home);
	/* The guest cannot make it, either. */
	FX_BUILD(&f);
	CHECK(is_reserved(&f, state));
	CHECK(mkdir(state, 0700) == 0 && mkdir(hidden, 0700) == 0);
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_MASK, state) > op_find(&f, PLAN_OP_BIND, f.home));
	/* A grant of its own does not help. */
	fx_set(&f, "fs.read", hidden);
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_MASK, state) >= 0 && op_find(&f, PLAN_OP_BIND, hidden) < 0);
	/* Without mounts nothing can be hidden, and the guest may not write there. */
	f.level = PLAN_LEVEL_LANDLOCK;
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	CHECK(strstr(f.err.msg, "workspaces") != NULL);
	fx_done(&f);
}

TAP_MAIN(test_overlay, test_copy, test_copy_at_level_landlock,
	 test_grants_and_denials_beside_a_copy, test_base_is_left_alone, test_denied_names,
	 test_grants_inside_are_the_hosts, test_both_workspace_and_write_grant,
	 test_inside_a_write_grant, test_replaced_base, test_link, test_start_directory,
	 test_program_of_an_earlier_run, test_store_is_hidden)

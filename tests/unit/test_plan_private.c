/* SPDX-License-Identifier: Apache-2.0 */
/* /tmp and home that are kept between runs: what becomes of them in a plan. */
#include <fcntl.h>

#include "test_plan_lib.h"

static struct fixture f;
static struct plan_private own;
static char dir[PATH_MAX], tmp[PATH_MAX + 8], home[PATH_MAX + 8];

static void open_part(struct plan_private_dir *part, const char *path)
{
	struct stat st = { 0 };

	CHECK(mkdir(path, 0700) == 0 && stat(path, &st) == 0);
	*part = (struct plan_private_dir){
		.path = path,
		.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC),
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
}

static void begin(void)
{
	fx_init(&f);
	snprintf(dir, sizeof(dir), "%.4000s/kept", f.base);
	snprintf(tmp, sizeof(tmp), "%s/tmp", dir);
	snprintf(home, sizeof(home), "%s/home", dir);
	CHECK(mkdir(dir, 0700) == 0);
	own.dir = dir;
	open_part(&own.tmp, tmp);
	open_part(&own.home, home);
	f.private_dir = &own;
}

static void end(void)
{
	close(own.tmp.fd);
	close(own.home.fd);
	fx_done(&f);
}

static void test_shown(void)
{
	const struct plan_op *op;

	begin();
	FX_BUILD(&f);
	op = op_get(&f, PLAN_OP_BIND, "/tmp");
	CHECK_INT(op->flags, PLAN_MKPOINT | PLAN_IDENTITY | PLAN_PRIVATE_DIR);
	CHECK(op->ino == own.tmp.ino && op->fd_index == -1);
	CHECK(strcmp(plan_string(f.plan->block, op->src), tmp) == 0);
	/* The home lies below /tmp here: its mount point is made in what is kept. */
	op = op_get(&f, PLAN_OP_BIND, f.home);
	CHECK_INT(op->flags, PLAN_MKPOINT | PLAN_IDENTITY | PLAN_PRIVATE_DIR | PLAN_REUSED);
	CHECK(op_find(&f, PLAN_OP_PRIVATE, "/tmp") < 0 && op_find(&f, PLAN_OP_PRIVATE, f.home) < 0);
	CHECK(op_find(&f, PLAN_OP_PRIVATE, "/dev/shm") >= 0);
	CHECK(op_find(&f, PLAN_OP_BIND, f.home) > op_find(&f, PLAN_OP_BIND, "/tmp"));
	CHECK(f.plan->limits.workspace_bytes == (uint64_t)256 << 20);
	end();
}

static void test_grants_on_top(void)
{
	begin();
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	/* The caller's directory; what lies inside it is the host's. */
	CHECK(op_get(&f, PLAN_OP_BIND, f.root)->flags & PLAN_REUSED);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "ws")->flags & PLAN_REUSED));
	CHECK(op_get(&f, PLAN_OP_DIR, f.base)->flags & PLAN_REUSED);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "/usr")->flags & PLAN_REUSED));
	end();
}

static void test_grants_instead(void)
{
	begin();
	fx_set(&f, "fs.read", "/tmp");
	FX_BUILD(&f);
	/* The host's /tmp is what was asked for, and the home lies in it. */
	CHECK(!(op_get(&f, PLAN_OP_BIND, "/tmp")->flags & PLAN_PRIVATE_DIR));
	CHECK(!(op_get(&f, PLAN_OP_BIND, "/tmp")->flags & PLAN_REUSED));
	/* But not where the other runs' /tmp lies. */
	CHECK(op_find(&f, PLAN_OP_MASK, dir) > op_find(&f, PLAN_OP_BIND, "/tmp"));
	end();
}

static void test_commands(void)
{
	begin();
	fx_set(&f, "commands", "sh");
	FX_BUILD(&f);
	CHECK(op_get(&f, PLAN_OP_BIND, "/tmp")->flags & PLAN_NOEXEC);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "/tmp")->access & LL_FS_EXECUTE));
	end();
}

/* Read-only, on the run's own tmpfs, and counted by nobody. */
static void test_code(void)
{
	struct plan_private_dir code;
	const struct plan_op *op;
	char path[PATH_MAX + 8];

	begin();
	snprintf(path, sizeof(path), "%s-code", dir);
	open_part(&code, path);
	f.code = &code;
	FX_BUILD(&f);
	op = op_get(&f, PLAN_OP_BIND, CORDON_CODE_DIR);
	CHECK_INT(op->flags, PLAN_MKPOINT | PLAN_IDENTITY | PLAN_RDONLY | PLAN_UNMAPPED);
	CHECK(op->ino == code.ino && !(op->access & LL_FS_WRITE_FILE));
	fx_set(&f, "fs.read", "/run");
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	f.code = NULL;
	close(code.fd);
	end();
}

static void test_root_hands_it_over(void)
{
	const struct plan_op *op;

	begin();
	f.machine.uid = f.machine.gid = 0;
	FX_BUILD(&f);
	op = op_get(&f, PLAN_OP_BIND, "/tmp");
	CHECK(op->fd_index >= 0 && op->flags & PLAN_PRIVATE_DIR);
	CHECK(f.plan->n_mount_fds >= 2);
	end();
}

static void test_level_landlock(void)
{
	begin();
	f.level = PLAN_LEVEL_LANDLOCK;
	FX_BUILD(&f);
	CHECK(op_get(&f, PLAN_OP_RULE, tmp)->flags & PLAN_PRIVATE_DIR);
	CHECK(op_get(&f, PLAN_OP_RULE, home)->flags & PLAN_PRIVATE_DIR);
	CHECK(op_find(&f, PLAN_OP_RULE, dir) < 0 && op_find(&f, PLAN_OP_RULE, f.tmpdir) < 0);
	/* A guest that could write there would decide what the next run's /tmp is. */
	fx_set(&f, "fs.write", f.base);
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	end();
}

static void test_start_directory(void)
{
	const struct plan_header *h;

	begin();
	fx_set(&f, "cwd", "/tmp/left/behind");
	FX_BUILD(&f);
	h = f.plan->block;
	CHECK(strcmp(plan_string(h, h->cwd), "/tmp/left/behind") == 0);
	end();
}

TAP_MAIN(test_shown, test_code, test_grants_on_top, test_grants_instead, test_commands,
	 test_root_hands_it_over, test_level_landlock, test_start_directory)

/* SPDX-License-Identifier: Apache-2.0 */
/* Environment, ids, limits, layers, the allow-list of programs, and level landlock. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "seccomp/seccomp.h"
#include "test_plan_lib.h"

static struct fixture f;

static const struct plan_header *header(void)
{
	return f.plan->block;
}

static void test_environment(void)
{
	fx_init(&f);
	f.env[0] = "LANG=C.UTF-8";
	f.env[1] = "LC_ALL=C";
	f.env[2] = "SECRET_TOKEN=x";
	f.env[3] = "MY_ONE=1";
	f.env[4] = "MY_TWO=2";
	f.env[5] = "BAD\nNAME=x";
	f.env[6] = "PATH=/nowhere";
	f.env[7] = "HOME=/nowhere";
	fx_set(&f, "env.pass", "MY_*");
	fx_set(&f, "env.set", "MY_TWO=two");
	fx_set(&f, "env.set", "EMPTY=");
	FX_BUILD(&f);
	CHECK_STR(env_get(&f, "LANG"), "C.UTF-8");
	CHECK_STR(env_get(&f, "LC_ALL"), "C");
	CHECK_STR(env_get(&f, "SECRET_TOKEN"), NULL);
	CHECK_STR(env_get(&f, "MY_ONE"), "1");
	CHECK_STR(env_get(&f, "MY_TWO"), "two");
	CHECK_STR(env_get(&f, "EMPTY"), "");
	CHECK_STR(env_get(&f, "HOME"), f.home);
	/* The caller's, not that of the environment if both are given. */
	CHECK_STR(env_get(&f, "PATH"), "/usr/bin:/bin");
	CHECK_STR(env_get(&f, "TMPDIR"), NULL);
	CHECK_STR(env_get(&f, "USER"), "user");
	fx_set(&f, "env.set", "PATH=/mine");
	FX_BUILD(&f);
	CHECK_STR(env_get(&f, "PATH"), "/mine");
	fx_done(&f);
}

static uint64_t limit(int resource)
{
	for (uint32_t i = 0; i < header()->n_rlimits; i++) {
		if (header()->rlimits[i].resource == (uint32_t)resource)
			return header()->rlimits[i].hard;
	}
	return UINT64_MAX;
}

static void test_limits_and_ids(void)
{
	fx_init(&f);
	fx_set(&f, "limits.procs", "10");
	fx_set(&f, "limits.open_files", "50");
	FX_BUILD(&f);
	CHECK_INT(limit(RLIMIT_NPROC), 11);
	CHECK_INT(limit(RLIMIT_NOFILE), 50);
	CHECK(limit(RLIMIT_CORE) <= 1);
	CHECK_INT(header()->inner_uid, NO_SUCH_UID);
	CHECK_INT(header()->outer_gid, NO_SUCH_UID);
	CHECK(header()->flags & PLAN_MAP_SELF);
	CHECK(!(header()->flags & (PLAN_SETIDS | PLAN_DROP_GROUPS)));
	CHECK(header()->tmpfs_bytes > 0 && header()->tmpfs_inodes > 0);
	fx_done(&f);
}

static void test_user(void)
{
	static const char *const bad[] = {
		"0", "0:5", "5:0", "x", "5:", "5:6:7", "-1", "4294967295"
	};

	fx_init(&f);
	f.policy->user = "1234:5678";
	CHECK_INT(fx_build(&f), -CORDON_E_POLICY);
	f.machine.uid = f.machine.gid = 0;
	FX_BUILD(&f);
	CHECK_INT(header()->outer_uid, 1234);
	CHECK_INT(header()->outer_gid, 5678);
	CHECK_INT(header()->inner_uid, 1000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f.policy->user = bad[i];
		CHECK_MSG(fx_build(&f) == -CORDON_E_POLICY, "accepted '%s'", bad[i]);
	}
	fx_done(&f);
}

static void test_layers(void)
{
	fx_init(&f);
	FX_BUILD(&f);
	CHECK(list_has(f.plan->layers, "user") && list_has(f.plan->layers, "landlock:7"));
	CHECK_STR(f.plan->missing[0], "cgroup");
	/* Sockets inside grants, before Landlock ABI 9. */
	CHECK_STR(f.plan->missing[1], "pathname-sockets");
	CHECK(f.plan->missing[2] == NULL);
	/* Without a limit of the tree there is nothing for a control group to do. */
	f.options.default_memory_bytes = -1;
	FX_BUILD(&f);
	CHECK(!list_has(f.plan->missing, "cgroup") && !list_has(f.plan->layers, "cgroup"));
	fx_set(&f, "limits.cpu", "0.5");
	FX_BUILD(&f);
	CHECK(list_has(f.plan->missing, "cgroup"));
	fx_set(&f, "require", "landlock:6");
	fx_set(&f, "require", "net");
	FX_BUILD(&f);
	fx_set(&f, "require", "landlock:99");
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	CHECK(strstr(f.err.msg, "landlock:99") != NULL && f.err.hint[0]);
	fx_done(&f);
}

static void test_no_landlock(void)
{
	fx_init(&f);
	f.machine.landlock_abi = -ENOSYS;
	f.machine.landlock_fs = f.machine.landlock_net = f.machine.landlock_scoped = 0;
	FX_BUILD(&f);
	CHECK(list_has(f.plan->missing, "landlock"));
	CHECK_INT(op_get(&f, PLAN_OP_BIND, "/usr")->access, 0);
	f.level = PLAN_LEVEL_LANDLOCK;
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	fx_done(&f);
}

static void test_commands(void)
{
	const struct plan_header *h;

	fx_init(&f);
	fx_set(&f, "commands", "sh");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	h = header();
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = plan_ops(h) + i;
		const char *path = plan_string(h, op->dst ? op->dst : op->src);

		/* Only single files, and nothing that can be written. */
		CHECK_MSG(!(op->access & LL_FS_EXECUTE) ||
				  (op->flags & PLAN_FILE && !(op->access & LL_FS_WRITE_FILE)),
			  "%s", path);
		CHECK_MSG(!(op->access & LL_FS_READ_FILE) ||
				  (strcmp(path, "/usr") != 0 && strcmp(path, "/usr/bin") != 0),
			  "%s", path);
	}
	CHECK(op_get(&f, PLAN_OP_BIND, "ws")->flags & PLAN_NOEXEC);
	CHECK(op_get(&f, PLAN_OP_PRIVATE, "/tmp")->flags & PLAN_NOEXEC);
	CHECK(op_get(&f, PLAN_OP_BIND, "")->flags & PLAN_NOEXEC);
	CHECK_INT(h->filter, SECCOMP_NAMESPACES_COMMANDS);
	fx_done(&f);
}

static void test_command_not_listed(void)
{
	fx_init(&f);
	fx_set(&f, "commands", "cat");
	CHECK_INT(fx_build(&f), -CORDON_E_POLICY);
	CHECK_STR(f.err.msg, "'/bin/sh' is not among the allowed commands");
	fx_done(&f);
}

static void test_command_in_the_project(void)
{
	const struct plan_op *op;

	fx_init(&f);
	fx_file(&f, "data/tool", "#!/bin/sh\n");
	CHECK(chmod(fx_path(&f, "data/tool"), 0755) == 0);
	f.argv[0] = "./data/tool";
	fx_set(&f, "commands", "./data/tool");
	FX_BUILD(&f);
	op = op_get(&f, PLAN_OP_BIND, "data/tool");
	CHECK(op->flags & PLAN_RDONLY && !(op->flags & PLAN_NOEXEC));
	CHECK(op->access & LL_FS_EXECUTE);
	fx_done(&f);
}

static void test_landlock_level(void)
{
	const struct plan_header *h;

	fx_init(&f);
	f.level = PLAN_LEVEL_LANDLOCK;
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	h = header();
	for (uint32_t i = 0; i < h->n_ops; i++)
		CHECK_INT(plan_ops(h)[i].type, PLAN_OP_RULE);
	CHECK(op_get(&f, PLAN_OP_RULE, "ws")->access & LL_FS_WRITE_FILE);
	CHECK(op_get(&f, PLAN_OP_RULE, f.tmpdir)->access & LL_FS_MAKE_REG);
	CHECK_INT(op_get(&f, PLAN_OP_RULE, "")->access & LL_FS_WRITE_FILE, 0);
	CHECK_INT(h->handled_net, LL_NET_BIND_TCP | LL_NET_CONNECT_TCP);
	CHECK_STR(env_get(&f, "TMPDIR"), f.tmpdir);
	CHECK(list_has(f.plan->missing, "protect"));
	CHECK(list_has(f.plan->missing, "mount"));
	CHECK(list_has(f.plan->missing, "pathname-sockets"));
	CHECK(!list_has(f.plan->missing, "uid"));
	CHECK_INT(f.plan->n_reserved, 0);
	f.machine.uid = f.machine.gid = 0;
	FX_BUILD(&f);
	CHECK(list_has(f.plan->missing, "uid"));
	CHECK_INT(f.plan->n_mount_fds, 0);
	fx_done(&f);
}

static void test_landlock_udp(void)
{
	const uint64_t udp = LL_NET_BIND_UDP | LL_NET_CONNECT_SEND_UDP;

	fx_init(&f);
	f.level = PLAN_LEVEL_LANDLOCK;
	probe_use_abi(&f.machine, 10);
	fx_set(&f, "net.allow", "example.com");
	FX_BUILD(&f);
	CHECK_INT(header()->handled_net, LL_NET_TCP | udp);
	/* The gateway answers from its socket for questions. */
	CHECK_INT(f.plan->gateway->handled_net, LL_NET_TCP);
	probe_use_abi(&f.machine, 9);
	FX_BUILD(&f);
	CHECK_INT(header()->handled_net, LL_NET_TCP);
	fx_done(&f);
}

/* Grants lie below private directories, so a right of one of these would be a right of theirs. */
static void test_no_sockets_of_others(void)
{
	const struct plan_header *h;

	for (int level = PLAN_LEVEL_LANDLOCK; level <= PLAN_LEVEL_NAMESPACES; level++) {
		fx_init(&f);
		f.level = level;
		probe_use_abi(&f.machine, 9);
		fx_set(&f, "fs.write", "ws");
		FX_BUILD(&f);
		h = header();
		CHECK(h->handled_fs & LL_FS_RESOLVE_UNIX);
		for (uint32_t i = 0; i < h->n_ops; i++)
			CHECK_INT(plan_ops(h)[i].access & LL_FS_RESOLVE_UNIX, 0);
		fx_done(&f);
	}
}

static void test_landlock_deny(void)
{
	fx_init(&f);
	f.level = PLAN_LEVEL_LANDLOCK;
	fx_dir(&f, "data/a");
	fx_file(&f, "data/a/keep", "");
	fx_file(&f, "data/a/secret", "");
	fx_file(&f, "data/b", "");
	fx_set(&f, "fs.deny", "data/a/secret");
	FX_BUILD(&f);
	CHECK_INT(op_find(&f, 0, ""), -1);
	CHECK_INT(op_find(&f, 0, "data"), -1);
	CHECK_INT(op_find(&f, 0, "data/a"), -1);
	CHECK_INT(op_find(&f, 0, "data/a/secret"), -1);
	CHECK(op_find(&f, PLAN_OP_RULE, "data/a/keep") >= 0);
	CHECK(op_find(&f, PLAN_OP_RULE, "data/b") >= 0);
	CHECK(op_find(&f, PLAN_OP_RULE, "ws") >= 0);
	fx_set(&f, "fs.write", "data");
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	CHECK(f.err.hint[0] != '\0');
	fx_done(&f);
}

static void test_landlock_read_in_write(void)
{
	fx_init(&f);
	f.level = PLAN_LEVEL_LANDLOCK;
	fx_dir(&f, "ws/lib");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.read", "ws/lib");
	CHECK_INT(fx_build(&f), -CORDON_E_UNSUPPORTED);
	fx_done(&f);
}

/* The rights table against the running kernel: it takes exactly that mask and no bit more. */
static void test_rights_fit_the_kernel(void)
{
	struct probe_machine m;
	uint64_t attr[3];
	long fd;

	probe_machine(&m);
	if (m.landlock_abi <= 0)
		SKIP("no Landlock here");
	for (int extra = 0; extra < 4; extra++) {
		attr[0] = m.landlock_fs | (extra == 1 ? m.landlock_fs + 1 : 0);
		attr[1] = m.landlock_net | (extra == 2 ? m.landlock_net + 1 : 0);
		attr[2] = m.landlock_scoped | (extra == 3 ? m.landlock_scoped + 1 : 0);
		fd = syscall(444, attr, sizeof(attr), 0);
		CHECK_MSG((fd >= 0) == (extra == 0), "ABI %d, variant %d: %ld", m.landlock_abi,
			  extra, fd);
		if (fd >= 0)
			close((int)fd);
	}
	CHECK_INT(m.uid, geteuid());
}

static void test_tasks_are_counted(void)
{
	CHECK(probe_user_tasks(geteuid(), false) >= 1);
	CHECK(probe_user_tasks(geteuid(), true) >= 1);
	CHECK_INT(probe_user_tasks(NO_SUCH_UID, false), 0);
}

TAP_MAIN(test_environment, test_limits_and_ids, test_user, test_layers, test_no_landlock,
	 test_commands, test_command_not_listed, test_command_in_the_project, test_landlock_level,
	 test_landlock_udp, test_no_sockets_of_others, test_landlock_deny,
	 test_landlock_read_in_write, test_rights_fit_the_kernel, test_tasks_are_counted)

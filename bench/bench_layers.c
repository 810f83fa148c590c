/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command under Landlock and seccomp alone: what these two charge by themselves.
 *
 *	bench_layers WRITABLE_DIR CMD...
 *
 * The rules are those of the plan a real run would have (as many, on the same objects, with the
 *same rights) and the filter is the product's, but there are no namespaces, no mounts and no init.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"
#include "launch/launch.h"
#include "plan/plan_read.h"
#include "seccomp/seccomp.h"

/* The 6.1 headers end earlier. */
struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};

#define RIGHTS_OF_FILES                                                                            \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |                              \
	 LANDLOCK_ACCESS_FS_READ_FILE | 1u << 14 /* truncate */ | 1u << 15 /* ioctl */)

static struct plan *make_plan(const char *writable, char **argv)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_launcher *launcher = new_launcher();
	struct cordon_policy *policy = default_policy();
	struct plan_input input = {
		.policy = policy,
		.options = &options,
		.level = PLAN_LEVEL_NAMESPACES,
		.machine = &launcher->machine,
	};
	struct plan *plan;

	options.argv = (const char *const *)argv;
	options.envp = (const char *const *)environ;
	options.home = getenv("HOME");
	if (cordon_policy_set(policy, "fs.write", writable, &err) < 0 ||
	    plan_build(&input, &plan, &err) < 0)
		die("cannot plan: %s", err.msg);
	return plan;
}

/* Where the object of a step lies outside: what it binds, or the place of the same name. */
static int open_object(const struct plan_header *h, const struct plan_op *op)
{
	const char *src = op->src ? (const char *)h + op->src : NULL;
	const char *dst = op->dst ? (const char *)h + op->dst : NULL;
	int fd = -1;

	if (src && (op->type == PLAN_OP_BIND || op->type == PLAN_OP_RULE))
		fd = open(src, O_PATH | O_CLOEXEC);
	if (fd < 0 && dst)
		fd = open(dst, O_PATH | O_CLOEXEC);
	return fd >= 0 ? fd : open("/", O_PATH | O_CLOEXEC);
}

static void add_rule(int ruleset_fd, const struct plan_header *h, const struct plan_op *op)
{
	struct landlock_path_beneath_attr attr = { .allowed_access = op->access };
	struct stat st;

	attr.parent_fd = open_object(h, op);
	if (attr.parent_fd < 0 || fstat(attr.parent_fd, &st) < 0)
		die("cannot open an object of the plan: %m");
	if (!S_ISDIR(st.st_mode))
		attr.allowed_access &= RIGHTS_OF_FILES;
	if (attr.allowed_access &&
	    syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		die("cannot add a rule: %m");
	close(attr.parent_fd);
}

static void enforce(const struct plan_header *h)
{
	const struct ruleset_attr attr = { h->handled_fs, h->handled_net, h->scoped };
	const struct seccomp_filter *filter = seccomp_filter_get(h->filter);
	struct sock_fprog program;
	int ruleset_fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (ruleset_fd < 0 || !filter)
		die("cannot create a ruleset: %m");
	for (uint32_t i = 0; i < h->n_ops; i++)
		if (plan_ops(h)[i].access)
			add_rule(ruleset_fd, h, &plan_ops(h)[i]);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0)
		die("cannot enforce the ruleset: %m");
	close(ruleset_fd);
	program.len = filter->len;
	program.filter = (struct sock_filter *)(uintptr_t)filter->insns;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		die("cannot install the filter: %m");
}

int main(int argc, char **argv)
{
	struct plan *plan;

	if (argc < 3)
		die("usage: bench_layers WRITABLE_DIR CMD...");
	plan = make_plan(argv[1], argv + 2);
	enforce(plan->block);
	execv(argv[2], argv + 2);
	die("cannot execute %s: %m", argv[2]);
}

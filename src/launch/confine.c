/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon_confine_self(): a process confines itself.
 *
 * Everything that can fail harmlessly comes first: checking that one process can enforce the policy
 * and has one thread, making the plan (at level landlock), opening the Landlock ruleset. Then the
 * layers are tried on a child that shares our memory and ends at once: a kernel or an outer filter
 * that refuses one of them does so there. Only then this process puts them on, for good.
 */
#include <cordon/confine.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "format/stage.h"
#include "launch/confine.h"
#include "plan/plan.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#endif

#define RULE_PATH_BENEATH 1
#define SELF_PROGRAM "/proc/self/exe"
#define THREAD_TRIES 50
#define THREAD_PAUSE_NS 2000000
#define POINTER(p) ((uint64_t)(uintptr_t)(p))

struct path_beneath_attr {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static void free_plan(struct plan **plan)
{
	plan_free(*plan);
}

/* Limits of a whole tree can only be enforced from outside of it. */
static int check_limits(const struct cordon_policy *p, struct cordon_error *err)
{
	const struct {
		const char *name;
		int is_set;
	} limits[] = {
		{ "wall", p->wall_ms >= 0 },	{ "memory", p->memory_bytes >= 0 },
		{ "cpu", p->cpu_milli >= 0 },	{ "procs", p->procs >= 0 },
		{ "disk", p->disk_bytes >= 0 }, { "output", p->output_bytes >= 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (!limits[i].is_set || strlist_has(&p->best_effort, limits[i].name))
			continue;
		cordon_err(err, CORDON_E_UNSUPPORTED, 0,
			   "a process cannot enforce limits.%s on itself", limits[i].name);
		cordon_err_hint(
			err,
			"a run enforces it ('cordon run', cordon_run_start()); to go without "
			"it: best_effort %s",
			limits[i].name);
		return -CORDON_E_UNSUPPORTED;
	}
	return 0;
}

/* Keys that need namespaces, a gateway, a view of its own or a new process. */
static int check_policy(const struct cordon_policy *p, struct cordon_error *err)
{
	static const char run[] = "a run has it: 'cordon run', cordon_run_start()";
	static const char self[] = "the process can do that itself before it confines itself";
	const struct {
		const char *key;
		int is_set;
		const char *hint;
	} keys[] = {
		{ "net.allow", p->net_allow.n > 0, run },
		{ "net.publish", p->net_publish.n > 0, run },
		{ "fs.deny", p->fs_deny.n > 0, "grant the directories beside it instead" },
		{ "fs.workspace", p->workspace != NULL, run },
		{ "fs.protect", p->protect > POLICY_PROTECT_OFF, run },
		{ "isolation namespaces", p->isolation == CORDON_LEVEL_NAMESPACES, run },
		{ "isolation microvm", p->isolation == CORDON_LEVEL_MICROVM, run },
		{ "env.pass", p->env_pass.n > 0, self },
		{ "env.set", p->env_set.n > 0, self },
		{ "cwd", p->cwd != NULL, self },
		{ "user", p->user != NULL, self },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (!keys[i].is_set)
			continue;
		cordon_err(err, CORDON_E_UNSUPPORTED, 0,
			   "a process cannot apply %s to itself for good", keys[i].key);
		cordon_err_hint(err, "%s", keys[i].hint);
		return -CORDON_E_UNSUPPORTED;
	}
	return check_limits(p, err);
}

static int count_threads(struct cordon_error *err)
{
	CLEANUP(close_dir) DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	if (!tasks)
		return cordon_err(err, CORDON_E_SYSTEM, errno,
				  "cannot count the threads of this process");
	while ((entry = readdir(tasks)) != NULL)
		n += entry->d_name[0] != '.';
	return n;
}

/*
 * A layer on one thread leaves the others free, and they share its memory. A joined thread is
 * listed for a moment after pthread_join() has returned.
 */
static int check_threads(struct cordon_error *err)
{
	const struct timespec pause = { .tv_nsec = THREAD_PAUSE_NS };
	int n = 0;

	for (int i = 0; i < THREAD_TRIES; i++) {
		n = count_threads(err);
		if (n < 0)
			return n;
		if (n == 1)
			return 0;
		nanosleep(&pause, NULL);
	}
	cordon_err(err, CORDON_E_STATE, 0, "the process has %d threads and cannot be confined", n);
	cordon_err_hint(err, "confine it before threads are started (libraries for numbers start "
			     "some when they are loaded)");
	return -CORDON_E_STATE;
}

static int make_plan(const struct cordon_policy *policy, const struct cordon_run_options *given,
		     const struct probe_machine *machine, struct plan **ret,
		     struct cordon_error *err)
{
	const char *const self[] = { SELF_PROGRAM, NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	const struct plan_input input = {
		.policy = policy,
		.options = &options,
		.level = PLAN_LEVEL_LANDLOCK,
		.machine = machine,
		.is_self = true,
	};
	struct stat st;
	int r;

	/* Replaced, or never had a name: there is no installation to grant. */
	options.argv = stat(SELF_PROGRAM, &st) == 0 && st.st_nlink > 0 ? self : NULL;
	if (given) {
		options.cwd = given->cwd;
		options.home = given->home;
		options.search_path = given->search_path;
		if (given->argv && given->argv[0])
			options.argv = given->argv;
	}
	r = plan_build(&input, ret, err);
	if (r == -CORDON_E_UNSUPPORTED && policy->require.n > 0)
		cordon_err_hint(err, "a process that confines itself has landlock, seccomp and "
				     "rlimits; a run has more");
	return r;
}

/* Opens the object of a rule and makes sure that it is the one the plan was made for. */
static int open_object(const struct plan_header *h, const struct plan_op *op)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS };
	const char *path = plan_string(h, op->src);
	struct stat st;
	int fd;

	fd = (int)sys_call(SYS_openat2, (uint64_t)AT_FDCWD, POINTER(path), POINTER(&how),
			   sizeof(how));
	/* The filter of an earlier confinement refuses this call. */
	if (fd == -ENOSYS)
		fd = sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0 || !(op->flags & PLAN_IDENTITY))
		return fd;
	if (fstat(fd, &st) < 0 || st.st_ino != op->ino || major(st.st_dev) != op->dev_major ||
	    minor(st.st_dev) != op->dev_minor) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

static int add_rule(const struct plan_header *h, const struct plan_op *op, int ruleset_fd)
{
	CLEANUP(close_fd) int fd = open_object(h, op);
	const struct path_beneath_attr attr = { op->access, fd };

	if ((fd == -ENOENT || fd == -ESTALE) && (op->flags & PLAN_IF_THERE))
		return 0;
	if (fd < 0 || op->access == 0)
		return fd < 0 ? fd : 0;
	return (int)sys_call(__NR_landlock_add_rule, (uint64_t)ruleset_fd, RULE_PATH_BENEATH,
			     POINTER(&attr), 0);
}

static int make_ruleset(const struct plan_header *h, int *ret_fd, struct cordon_error *err)
{
	/* An older kernel refuses bytes that it does not know, unless they are zero. */
	const uint64_t attr[3] = { h->handled_fs, h->handled_net, h->scoped };
	size_t size = h->scoped ? sizeof(attr) : (h->handled_net ? 2 : 1) * sizeof(attr[0]);
	int r = (int)sys_call(__NR_landlock_create_ruleset, POINTER(attr), size, 0, 0);

	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot make a Landlock ruleset");
	*ret_fd = r;
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];

		r = add_rule(h, op, *ret_fd);
		if (r < 0)
			return cordon_err(err, CORDON_E_PATH, -r, "cannot grant '%s'",
					  plan_string(h, op->src));
	}
	return 0;
}

static int has_capability(unsigned cap)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	return syscall(SYS_capget, &header, data) < 0 || (data[0].effective & (1u << cap)) != 0;
}

static int are_groups_locked(void)
{
	CLEANUP(close_fd) int fd = open("/proc/self/setgroups", O_RDONLY | O_CLOEXEC);
	char first = 0;

	return fd >= 0 && read(fd, &first, 1) == 1 && first == 'd';
}

static int refuse(const struct confinement *c, struct cordon_error *err)
{
	cordon_err(err, CORDON_E_SETUP, c->error, "cannot confine the process (%s)",
		   cordon_stage_name((unsigned)c->stage));
	if (err)
		err->stage = (uint16_t)c->stage;
	return -CORDON_E_SETUP;
}

/* In a child that shares our memory; the layers end with it. */
static int try_out(struct confinement *c, struct cordon_error *err)
{
	CLEANUP(close_fd) int pid_fd = -1;
	siginfo_t info;
	int r = sys_clone_vfork(0, &pid_fd, confine_apply, c);

	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot test the confinement");
	do
		r = waitid(P_PIDFD, (id_t)pid_fd, &info, WEXITED | __WALL);
	while (r < 0 && errno == EINTR);
	if (c->stage != 0) {
		refuse(c, err);
		cordon_err_hint(err, "%s",
				c->error == E2BIG ? "it is inside too many sandboxes already; "
						    "nothing was changed"
						  : "nothing was changed");
		return -CORDON_E_SETUP;
	}
	/* An outer filter that kills instead of refusing. */
	if (r == 0 && info.si_code != CLD_EXITED)
		return cordon_err(err, CORDON_E_SETUP, 0,
				  "cannot confine the process: the test of it was killed");
	return 0;
}

int cordon_confine_self(const struct cordon_policy *policy,
			const struct cordon_run_options *options, struct cordon_error *err)
{
	CLEANUP(free_plan) struct plan *plan = NULL;
	CLEANUP(close_fd) int ruleset_fd = -1;
	struct confinement c = { .plan = NULL };
	struct probe_machine machine;
	int r;

	if (!policy)
		return cordon_err(err, CORDON_E_USAGE, 0, "cordon_confine_self: no policy");
	r = check_policy(policy, err);
	if (r == 0)
		r = check_threads(err);
	if (r < 0)
		return r;
	probe_machine(&machine);
	r = make_plan(policy, options, &machine, &plan, err);
	if (r == 0)
		r = make_ruleset(plan->block, &ruleset_fd, err);
	if (r < 0)
		return r;
	c.plan = plan->block;
	c.ruleset_fd = ruleset_fd;
	c.must_drop = has_capability(CAP_SETPCAP);
	c.drops_groups = (c.plan->flags & PLAN_DROP_GROUPS) && getgroups(0, NULL) > 0;
	c.groups_are_locked = c.drops_groups && are_groups_locked();
	r = try_out(&c, err);
	if (r < 0)
		return r;
	if (confine_apply(&c) != 0) {
		refuse(&c, err);
		cordon_err_hint(err, "the process is partly confined and must end");
		return -CORDON_E_SETUP;
	}
	return 0;
}

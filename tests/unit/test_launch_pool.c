/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of parked inits: a run has what a cold one would have, whatever has changed since, and
 * nothing is left of the pool, in this process or a forked one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "launch/launch.h"
#include "tap.h"

#define WAIT_MS 20000
#define THREADS 4
#define RUNS_EACH 20
#define MANY 60

static struct cordon_launcher *launcher;
static struct cordon_policy *policy;
static int fds_at_start;

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void set_options(struct cordon_run_options *o, const char *const *argv)
{
	*o = (struct cordon_run_options)CORDON_RUN_OPTIONS_INIT;
	o->argv = argv;
	o->cwd = "/";
	o->home = "/nonexistent";
	o->out.mode = CORDON_STREAM_CAPTURE;
}

static struct cordon_pool *new_pool(unsigned parked, int refill)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options base;
	struct cordon_pool *pool = NULL;

	set_options(&base, argv);
	options.parked = parked;
	options.refill = refill;
	if (cordon_pool_new(launcher, policy, &base, &options, &pool, &err) < 0)
		printf("# %s\n", err.msg);
	return pool;
}

static struct cordon_pool_stats stats_of(struct cordon_pool *pool)
{
	struct cordon_pool_stats stats;

	cordon_pool_stats(pool, &stats);
	return stats;
}

/* Runs @script with @p (NULL = the pool's): its exit code; @out (of 256 bytes, may be NULL). */
static int run_with(struct cordon_pool *pool, const struct cordon_policy *p, const char *script,
		    char *out)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct cordon_result *result;
	struct cordon_run_options options;
	struct cordon_run *run = NULL;
	int code = -1;

	set_options(&options, argv);
	if (cordon_pool_start(pool, p, &options, &run, &err) < 0) {
		printf("# %s\n", err.msg);
		return -1;
	}
	CHECK_INT(cordon_run_wait(run, WAIT_MS, &err), 1);
	result = cordon_run_result(run);
	if (result && result->kind == CORDON_KIND_EXITED)
		code = result->exit_code;
	else if (result)
		printf("# %s: %s\n", cordon_kind_name(result->kind), result->error.msg);
	if (out) {
		size_t n = result && result->out.len < 255 ? result->out.len : 0;

		if (n)
			memcpy(out, result->out.data, n);
		out[n] = '\0';
	}
	cordon_run_free(run);
	return code;
}

static int run(struct cordon_pool *pool, const char *script)
{
	return run_with(pool, NULL, script, NULL);
}

static void test_open(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	fds_at_start = count_fds();
	REQUIRE(cordon_launcher_new(&launcher, &err) == 0);
	REQUIRE(cordon_policy_new(&policy, &err) == 0);
	REQUIRE(cordon_policy_set(policy, "isolation", "namespaces", &err) == 0);
}

static void test_wrong_use(void)
{
	const char *argv[] = { "/bin/true", NULL }, *none[] = { NULL };
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options base;
	struct cordon_pool *pool = NULL;
	struct cordon_run *run = NULL;

	set_options(&base, argv);
	CHECK_INT(cordon_pool_new(NULL, policy, &base, NULL, &pool, &err), -CORDON_E_USAGE);
	CHECK_INT(cordon_pool_new(launcher, NULL, &base, NULL, &pool, &err), -CORDON_E_USAGE);
	CHECK_INT(cordon_pool_new(launcher, policy, NULL, NULL, &pool, &err), -CORDON_E_USAGE);
	options.parked = CORDON_POOL_MAX + 1;
	CHECK_INT(cordon_pool_new(launcher, policy, &base, &options, &pool, &err), -CORDON_E_USAGE);
	options.parked = 1;
	options.refill = 7;
	CHECK_INT(cordon_pool_new(launcher, policy, &base, &options, &pool, &err), -CORDON_E_USAGE);
	options.refill = 0;
	options.max_age_ms = -2;
	CHECK_INT(cordon_pool_new(launcher, policy, &base, &options, &pool, &err), -CORDON_E_USAGE);
	options.max_age_ms = 0;
	options.size = sizeof(options) + 8;
	CHECK_INT(cordon_pool_new(launcher, policy, &base, &options, &pool, &err), -CORDON_E_USAGE);
	base.argv = none;
	CHECK_INT(cordon_pool_new(launcher, policy, &base, NULL, &pool, &err), -CORDON_E_USAGE);
	CHECK(pool == NULL);
	CHECK_INT(cordon_pool_start(NULL, policy, &base, &run, &err), -CORDON_E_USAGE);
	CHECK_INT(cordon_pool_refill(NULL, &err), -CORDON_E_USAGE);
	cordon_pool_free(NULL);
	/* An error of the run is one with a pool, too, and the pool goes on. */
	pool = new_pool(1, CORDON_REFILL_AT_FREE);
	REQUIRE(pool != NULL);
	CHECK_INT(cordon_pool_start(pool, NULL, NULL, &run, &err), -CORDON_E_USAGE);
	CHECK_INT(cordon_pool_start(pool, NULL, &base, &run, &err), -CORDON_E_USAGE);
	CHECK_INT(run_with(pool, NULL, "exit 3", NULL), 3);
	cordon_pool_free(pool);
}

static void test_warm_and_refill(void)
{
	struct cordon_pool *pool = new_pool(2, CORDON_REFILL_BY_HAND);
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(pool != NULL);
	CHECK_INT(stats_of(pool).parked, 2);
	CHECK_INT(run(pool, "exit 3"), 3);
	CHECK_INT(run(pool, "exit 4"), 4);
	CHECK_INT(stats_of(pool).warm, 2);
	CHECK_INT(stats_of(pool).parked, 0);
	CHECK_INT(run(pool, "exit 5"), 5);
	CHECK_INT(stats_of(pool).cold, 1);
	CHECK_INT(cordon_pool_refill(pool, &err), 2);
	CHECK_INT(cordon_pool_refill(pool, &err), 0);
	CHECK_INT(run(pool, "exit 6"), 6);
	CHECK_INT(stats_of(pool).warm, 3);
	cordon_pool_free(pool);

	pool = new_pool(1, CORDON_REFILL_AT_FREE);
	REQUIRE(pool != NULL);
	for (int i = 0; i < MANY; i++)
		CHECK_INT(run(pool, "exit 3"), 3);
	CHECK_INT(stats_of(pool).warm, MANY);
	CHECK_INT(stats_of(pool).cold, 0);
	cordon_pool_free(pool);
}

/* The pool may go before its runs. */
static void test_freed_before_its_run(void)
{
	const char *argv[] = { "/bin/sh", "-c", "sleep 0.2; exit 4", NULL };
	struct cordon_pool *pool = new_pool(1, CORDON_REFILL_AT_FREE);
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct cordon_run *run = NULL;

	REQUIRE(pool != NULL);
	set_options(&options, argv);
	REQUIRE(cordon_pool_start(pool, NULL, &options, &run, &err) == 0);
	cordon_pool_free(pool);
	CHECK_INT(cordon_run_wait(run, WAIT_MS, &err), 1);
	CHECK_INT(cordon_run_result(run)->exit_code, 4);
	cordon_run_free(run);
}

/* Another policy is a cold start, and the init waits on. What may differ does. */
static void test_misfits(void)
{
	char dir[] = "/tmp/cordon-pool-XXXXXX", script[128], out[256];
	struct cordon_pool *pool = new_pool(1, CORDON_REFILL_BY_HAND);
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *other = NULL;

	REQUIRE(pool != NULL && mkdtemp(dir) != NULL);
	REQUIRE(cordon_policy_copy(policy, &other, &err) == 0);
	CHECK_INT(cordon_policy_set(other, "commands", "sh,id", &err), 0);
	CHECK_INT(run_with(pool, other, "exit 3", NULL), 3);
	CHECK_INT(stats_of(pool).misfits, 1);
	CHECK_INT(stats_of(pool).parked, 1);
	CHECK_INT(cordon_pool_refill(pool, &err), 0); /* the mould was looked at, and is good */
	CHECK_INT(stats_of(pool).parked, 1);
	cordon_policy_free(other);
	REQUIRE(cordon_policy_copy(policy, &other, &err) == 0);
	CHECK_INT(cordon_policy_set(other, "fs.write", dir, &err), 0);
	CHECK_INT(cordon_policy_set(other, "env.set", "A=b c", &err), 0);
	CHECK_INT(cordon_policy_set(other, "limits.wall", "9s", &err), 0);
	CHECK_INT(cordon_policy_set(other, "limits.open_files", "33", &err), 0);
	snprintf(script, sizeof(script), "ulimit -n; echo \"$A\"; echo x >%s/f", dir);
	CHECK_INT(run_with(pool, other, script, out), 0);
	CHECK_STR(out, "33\nb c\n");
	CHECK_INT(stats_of(pool).warm, 1);
	cordon_policy_free(other);
	/* The other level has nothing to make ahead. */
	REQUIRE(cordon_policy_copy(policy, &other, &err) == 0);
	CHECK_INT(cordon_policy_set(other, "isolation", "landlock", &err), 0);
	CHECK_INT(cordon_pool_refill(pool, &err), 1);
	CHECK_INT(run_with(pool, other, "exit 4", NULL), 4);
	CHECK_INT(stats_of(pool).parked, 1);
	CHECK_INT(stats_of(pool).warm, 1);
	cordon_policy_free(other);
	cordon_pool_free(pool);
	snprintf(script, sizeof(script), "%s/f", dir);
	CHECK_INT(unlink(script), 0);
	CHECK_INT(rmdir(dir), 0);
}

/* The run after @change is cold and right; after the next refill all is warm again. */
static void check_stale(struct cordon_pool *pool, const char *what)
{
	struct cordon_pool_stats before = stats_of(pool), after;
	struct cordon_error err = CORDON_ERROR_INIT;

	CHECK_INT(before.parked, 2);
	CHECK_INT(run(pool, "exit 3"), 3);
	after = stats_of(pool);
	printf("# %s\n", what);
	CHECK_INT(after.cold, before.cold + 1);
	CHECK_INT(after.stale, before.stale + 1);
	CHECK_INT(after.parked, 0);
	CHECK_INT(after.dropped, before.dropped + 1); /* and the one that the run had */
	CHECK_INT(cordon_pool_refill(pool, &err), 2);
	CHECK_INT(run(pool, "exit 3"), 3);
	CHECK_INT(stats_of(pool).warm, before.warm + 1);
	CHECK_INT(cordon_pool_refill(pool, &err), 1);
}

static void test_caller_has_changed(void)
{
	struct cordon_pool *pool = new_pool(2, CORDON_REFILL_BY_HAND);
	struct rlimit old, limit;
	cpu_set_t cpus, one;
	char out[256];
	mode_t mask;

	REQUIRE(pool != NULL);
	REQUIRE(getrlimit(RLIMIT_STACK, &old) == 0);
	limit = old;
	limit.rlim_cur = 4 << 20;
	CHECK_INT(setrlimit(RLIMIT_STACK, &limit), 0);
	check_stale(pool, "a resource limit");
	CHECK_INT(run_with(pool, NULL, "ulimit -s", out), 0);
	CHECK_STR(out, "4096\n");
	CHECK_INT(setrlimit(RLIMIT_STACK, &old), 0);
	CHECK_INT(run(pool, "exit 0"), 0);
	cordon_pool_refill(pool, NULL);

	mask = umask(0077);
	check_stale(pool, "umask");
	CHECK_INT(run_with(pool, NULL, "umask", out), 0);
	CHECK_STR(out, "0077\n");
	umask(mask);
	CHECK_INT(run(pool, "exit 0"), 0);
	cordon_pool_refill(pool, NULL);

	CHECK_INT(prctl(PR_SET_TIMERSLACK, 60000, 0, 0, 0), 0);
	check_stale(pool, "timer slack");
	if (getpriority(PRIO_PROCESS, 0) < 19) {
		CHECK_INT(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1), 0);
		check_stale(pool, "nice value");
	}
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 1) {
		CPU_ZERO(&one);
		for (int i = 0; CPU_COUNT(&one) == 0; i++)
			if (CPU_ISSET(i, &cpus))
				CPU_SET(i, &one);
		CHECK_INT(sched_setaffinity(0, sizeof(one), &one), 0);
		check_stale(pool, "CPUs");
		CHECK_INT(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	}
	cordon_pool_free(pool);
}

/* What cannot be undone, each in a process of its own that has a pool of its own. */
static int in_child(int (*change)(void))
{
	struct cordon_error err = CORDON_ERROR_INIT;
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		struct cordon_pool *pool;
		struct cordon_pool_stats stats;
		int r;

		if (cordon_launcher_new(&launcher, &err) < 0)
			_exit(90);
		pool = new_pool(2, CORDON_REFILL_BY_HAND);
		if (!pool || run(pool, "exit 3") != 3 || stats_of(pool).warm != 1)
			_exit(91);
		cordon_pool_refill(pool, NULL);
		r = change();
		if (r != 0)
			_exit(r);
		/* It may not be able to start anything any more; then that is so. */
		r = run(pool, "exit 3");
		stats = stats_of(pool);
		if (stats.warm != 1 || (r == 3 && (stats.parked != 0 || stats.stale != 1)))
			_exit(92);
		_exit(r == 3 || r == -1 ? 0 : 93);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static int no_new_privs(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : 80;
}

static int enter_landlock(void)
{
	const uint64_t executing = 1; /* no rule allows it, but nothing outside is executed */
	long fd = syscall(SYS_landlock_create_ruleset, &executing, sizeof(executing), 0);

	if (fd < 0)
		return 77;
	return syscall(SYS_landlock_restrict_self, fd, 0) == 0 ? 0 : 81;
}

static int drop_groups(void)
{
	const gid_t groups[] = { 4, 20 };

	return setgroups(geteuid() == 0 ? 2 : 0, groups) == 0 ? 0 : 78;
}

/* No memory that can be written and executed, from here on and in all children. */
static int no_write_exec(void)
{
	return prctl(65, 1, 0, 0, 0) == 0 ? 0 : 77; /* PR_SET_MDWE: not before Linux 6.3 */
}

static int other_core_filter(void)
{
	int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, "0x7f", 4) == 4 ? 0 : 77;
}

static int bind_memory(void)
{
	const unsigned long node = 1;

	return syscall(SYS_set_mempolicy, 2 /* MPOL_BIND */, &node, 64) == 0 ? 0 : 77;
}

static int new_root(void)
{
	return chroot("/usr") == 0 ? 0 : 79;
}

static int new_mounts(void)
{
	return unshare(CLONE_NEWNS) == 0 ? 0 : 79;
}

static int new_user(void)
{
	return unshare(CLONE_NEWUSER) == 0 ? 0 : 79;
}

static void test_caller_for_good(void)
{
	pid_t pid;
	int r;

	CHECK_INT(in_child(no_new_privs), 0);
	CHECK_INT(in_child(new_user), 0);
	/* 77: the kernel has no such thing. */
	r = in_child(no_write_exec);
	CHECK(r == 0 || r == 77);
	r = in_child(other_core_filter);
	CHECK(r == 0 || r == 77);
	r = in_child(bind_memory);
	CHECK(r == 0 || r == 77);
	/* Without Landlock there is no domain either. */
	pid = fork();
	if (pid == 0) {
		/* Set before the pool is made, so that the domain is all that changes. */
		if (no_new_privs() != 0)
			_exit(1);
		r = in_child(enter_landlock);
		_exit(r == 77 ? 0 : r);
	}
	CHECK(waitpid(pid, &r, 0) == pid && r == 0);
	if (geteuid() == 0) {
		CHECK_INT(in_child(drop_groups), 0);
		CHECK_INT(in_child(new_root), 0);
		CHECK_INT(in_child(new_mounts), 0);
	}
}

static void test_too_old(void)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct timespec pause = { 0, 20000000 };
	struct cordon_run_options base;
	struct cordon_pool *pool = NULL;

	set_options(&base, argv);
	options.parked = 2;
	options.refill = CORDON_REFILL_BY_HAND;
	options.max_age_ms = 10;
	REQUIRE(cordon_pool_new(launcher, policy, &base, &options, &pool, &err) == 0);
	nanosleep(&pause, NULL);
	CHECK_INT(run(pool, "exit 3"), 3);
	CHECK_INT(stats_of(pool).cold, 1);
	CHECK_INT(stats_of(pool).dropped, 2);
	CHECK_INT(cordon_pool_refill(pool, &err), 2);
	nanosleep(&pause, NULL);
	CHECK_INT(cordon_pool_refill(pool, &err), 2); /* old ones are replaced */
	cordon_pool_free(pool);
}

/* The youngest child of this process, which is an init; 0 = none. */
static pid_t find_init(void)
{
	char path[64], text[256] = "", *last;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	last = strrchr(text, ' ');
	if (last) /* the list ends with one */
		*last = '\0';
	last = strrchr(text, ' ');
	return (pid_t)strtol(last ? last : text, NULL, 10);
}

/* Killed at all moments of its set-up, and long after it. The next run goes on without. One that
 * has just taken an init which is dying ends with it, as a cold one does: the command has not run.
 */
static void test_killed_inits(void)
{
	struct cordon_pool *pool = new_pool(1, CORDON_REFILL_AT_FREE);
	struct timespec moment = { 0, 0 };
	siginfo_t info;

	REQUIRE(pool != NULL);
	for (int i = 0; i < MANY; i++) {
		pid_t pid = find_init();
		int r;

		moment.tv_nsec = (i % 12) * 100000;
		nanosleep(&moment, NULL);
		CHECK(pid > 0 && kill(pid, SIGKILL) == 0);
		if (i % 2 == 0) {
			CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | __WALL), 0);
			CHECK_INT(run(pool, "exit 3"), 3);
		} else {
			r = run_with(pool, NULL, "exit 3", NULL);
			CHECK(r == 3 || r == -1);
		}
	}
	CHECK(stats_of(pool).cold >= MANY / 2);
	CHECK_INT(run(pool, "exit 3"), 3);
	cordon_pool_free(pool);
}

/* A child of fork() can do nothing with it, and nothing to it. */
static void test_fork(void)
{
	struct cordon_pool *pool = new_pool(2, CORDON_REFILL_BY_HAND);
	const char *argv[] = { "/bin/true", NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct cordon_run *run_of_child = NULL;
	int status = 0, r;
	pid_t pid;

	REQUIRE(pool != NULL);
	set_options(&options, argv);
	pid = fork();
	if (pid == 0) {
		int before = count_fds();

		if (cordon_pool_start(pool, NULL, &options, &run_of_child, &err) !=
			    -CORDON_E_STATE ||
		    cordon_pool_refill(pool, &err) != -CORDON_E_STATE)
			_exit(1);
		cordon_pool_free(pool);
		_exit(count_fds() == before - 5 ? 0 : 2); /* two inits, and the mounts */
	}
	r = (int)waitpid(pid, &status, 0);
	CHECK(r == pid && status == 0);
	CHECK_INT(stats_of(pool).parked, 2);
	CHECK_INT(run(pool, "exit 3"), 3);
	CHECK_INT(run(pool, "exit 3"), 3);
	CHECK_INT(stats_of(pool).warm, 2);
	cordon_pool_free(pool);
}

static int filter_thread(const struct sock_filter *code, unsigned short len)
{
	const struct sock_fprog prog = { len, (struct sock_filter *)(uintptr_t)code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0;
}

static void *pool_below_a_filter(void *arg)
{
	static const struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

	(void)arg;
	return filter_thread(allow, 1) ? NULL : new_pool(1, CORDON_REFILL_BY_HAND);
}

/* Its commands must not make directories. */
static void *run_below_a_filter(void *pool)
{
	static const struct sock_filter refuse[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdirat, 1, 0),
#ifdef SYS_mkdir
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mkdir, 0, 1),
#else
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#endif
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	/* Init makes directories as well, so that nothing can run; but then nothing must. */
	if (filter_thread(refuse, sizeof(refuse) / sizeof(refuse[0])))
		return pool;
	return run(pool, "mkdir /tmp/x") == 0 ? pool : NULL;
}

/* Two threads with one filter each look the same, and are not. @first: all have one before. */
static void try_filters_of_threads(bool first)
{
	static const struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		pthread_t thread;
		void *pool = NULL, *failed = &status;

		if ((first && filter_thread(allow, 1)) ||
		    cordon_launcher_new(&launcher, NULL) < 0 ||
		    pthread_create(&thread, NULL, pool_below_a_filter, NULL) != 0 ||
		    pthread_join(thread, &pool) != 0 || !pool)
			_exit(1);
		if (pthread_create(&thread, NULL, run_below_a_filter, pool) != 0 ||
		    pthread_join(thread, &failed) != 0)
			_exit(2);
		_exit(failed ? 3 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(WEXITSTATUS(status), 0);
}

static void test_filters_of_threads(void)
{
	try_filters_of_threads(false);
	try_filters_of_threads(true);
}

static void *change_umask(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE)) {
		umask(0);
		umask(022);
	}
	return NULL;
}

/* As programs do that ask for their umask. */
static void test_umask_of_a_moment(void)
{
	struct cordon_pool *pool = new_pool(4, CORDON_REFILL_BY_HAND);
	mode_t mask = umask(022);
	bool stop = false;
	pthread_t thread;
	char out[256];

	REQUIRE(pool != NULL);
	for (int i = 0; i < 6; i++) {
		__atomic_store_n(&stop, false, __ATOMIC_RELEASE);
		REQUIRE(pthread_create(&thread, NULL, change_umask, &stop) == 0);
		for (int j = 0; j < 20; j++)
			cordon_pool_refill(pool, NULL);
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		for (int j = 0; j < 4; j++) {
			CHECK_INT(run_with(pool, NULL, "umask", out), 0);
			CHECK_STR(out, "0022\n");
		}
	}
	umask(mask);
	cordon_pool_free(pool);
}

static void *free_run(void *run)
{
	cordon_run_free(run);
	return NULL;
}

/* A run may be the last to have a hold of its pool, in another thread. */
static void test_freed_at_the_same_time(void)
{
	const char *argv[] = { "/bin/true", NULL };

	for (int i = 0; i < 12; i++) {
		struct cordon_pool *pool = new_pool(4, CORDON_REFILL_AT_FREE);
		struct cordon_run_options options;
		struct cordon_run *one = NULL;
		pthread_t thread;

		REQUIRE(pool != NULL);
		set_options(&options, argv);
		REQUIRE(cordon_pool_start(pool, NULL, &options, &one, NULL) == 0);
		REQUIRE(cordon_run_wait(one, WAIT_MS, NULL) >= 0);
		REQUIRE(pthread_create(&thread, NULL, free_run, one) == 0);
		cordon_pool_free(pool);
		pthread_join(thread, NULL);
	}
}

static bool is_there(pid_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH;
}

static void *make_pool_in_thread(void *arg)
{
	struct cordon_pool **ret = arg;

	*ret = new_pool(1, CORDON_REFILL_BY_HAND);
	return NULL;
}

/* Killed with a child that holds copies of all descriptors: the inits end all the same, also those
 * that a thread made which cannot arm a parent-death signal. */
static void test_killed_owner(void)
{
	const struct timespec moment = { 0, 5000000 };
	pid_t owner, inits[2] = { 0, 0 }, holder = 0;
	int fds[2], tries = 400;

	REQUIRE(pipe(fds) == 0);
	owner = fork();
	if (owner == 0) {
		struct cordon_pool *one = NULL, *two;
		pthread_t thread;
		pid_t told[3] = { 0, 0, 0 };

		if (cordon_launcher_new(&launcher, NULL) < 0 ||
		    pthread_create(&thread, NULL, make_pool_in_thread, &one) != 0 ||
		    pthread_join(thread, NULL) != 0)
			_exit(1);
		told[0] = find_init();
		two = new_pool(1, CORDON_REFILL_BY_HAND);
		cordon_pool_refill(two, NULL);
		for (pid_t pid = told[0] + 1; pid < told[0] + 50 && !told[1]; pid++)
			if (waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 },
				   WEXITED | WNOHANG | WNOWAIT | __WALL) == 0)
				told[1] = pid;
		nanosleep(&moment, NULL); /* they are parked by now */
		told[2] = fork();
		if (told[2] == 0) {
			pause();
			_exit(0);
		}
		if (write(fds[1], told, sizeof(told)) != (ssize_t)sizeof(told))
			_exit(2);
		pause();
	}
	if (owner > 0) {
		pid_t told[3] = { 0, 0, 0 };

		CHECK(read(fds[0], told, sizeof(told)) == (ssize_t)sizeof(told));
		inits[0] = told[0];
		inits[1] = told[1];
		holder = told[2];
		CHECK(inits[0] > 0 && inits[1] > 0 && holder > 0);
		CHECK(is_there(inits[0]) && is_there(inits[1]));
		kill(owner, SIGKILL);
		waitpid(owner, NULL, 0);
		while (--tries > 0 && (is_there(inits[0]) || is_there(inits[1])))
			nanosleep(&moment, NULL);
		CHECK(!is_there(inits[0]) && !is_there(inits[1]));
		CHECK(is_there(holder));
		kill(holder, SIGKILL);
	}
	close(fds[0]);
	close(fds[1]);
}

static void *run_many(void *arg)
{
	struct cordon_pool *pool = arg;

	for (int i = 0; i < RUNS_EACH; i++)
		if (run(pool, "exit 3") != 3)
			return arg;
	return NULL;
}

static void test_threads(void)
{
	struct cordon_pool *pools[2] = { new_pool(3, CORDON_REFILL_AT_FREE),
					 new_pool(1, CORDON_REFILL_AT_FREE) };
	pthread_t threads[THREADS];
	struct cordon_pool_stats stats;
	void *failed;

	REQUIRE(pools[0] && pools[1]);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, run_many, pools[i % 2]) == 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		CHECK(failed == NULL);
	}
	for (int i = 0; i < 2; i++) {
		stats = stats_of(pools[i]);
		CHECK_INT(stats.warm + stats.cold, THREADS / 2 * RUNS_EACH);
		CHECK(stats.warm > 0);
		CHECK(stats.parked <= 3);
		cordon_pool_free(pools[i]);
	}
}

static void test_nothing_left(void)
{
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	CHECK_INT(count_fds(), fds_at_start);
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
}

TAP_MAIN(test_open, test_wrong_use, test_warm_and_refill, test_freed_before_its_run, test_misfits,
	 test_caller_has_changed, test_caller_for_good, test_too_old, test_killed_inits, test_fork,
	 test_filters_of_threads, test_umask_of_a_moment, test_freed_at_the_same_time,
	 test_killed_owner, test_threads, test_nothing_left)

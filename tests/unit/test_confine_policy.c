/* SPDX-License-Identifier: Apache-2.0 */
/* cordon_confine_self(): what is refused, and that a refusal changes nothing; limits; commands. */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "test_confine_lib.h"
#include "tests/lib/arch.h"

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The process is as it was. */
static void check_free(void)
{
	CHECK_INT(try_open(secret, O_RDWR), 0);
	CHECK_INT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
	CHECK_INT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
	CHECK_INT(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

static const struct {
	const char *key, *value;
	const char *named; /* in the message */
} refused[] = {
	{ "limits.wall", "10s", "limits.wall" },
	{ "limits.memory", "100M", "limits.memory" },
	{ "limits.cpu", "0.5", "limits.cpu" },
	{ "limits.procs", "10", "limits.procs" },
	{ "limits.disk", "10M", "limits.disk" },
	{ "limits.output", "10M", "limits.output" },
	{ "net.allow", "example.com", "net.allow" },
	{ "net.publish", "8080", "net.publish" },
	{ "fs.deny", "/usr/share", "fs.deny" },
	{ "fs.workspace", "/tmp", "fs.workspace" },
	{ "fs.protect", "on", "fs.protect" },
	{ "isolation", "namespaces", "isolation namespaces" },
	{ "env.pass", "LANG", "env.pass" },
	{ "env.set", "A=B", "env.set" },
	{ "cwd", "/tmp", "cwd" },
	{ "user", "1000", "user" },
	{ "require", "mount", "mount" },
	{ "require", "cgroup", "cgroup" },
	{ "require", "landlock:99", "landlock:99" },
	{ "require", "protect", "protect" },
};

static void refusals(void)
{
	int fds = count_fds();

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct cordon_error err = CORDON_ERROR_INIT;

		CHECK_MSG(confine(&err, refused[i].key, refused[i].value, NULL) ==
				  -CORDON_E_UNSUPPORTED,
			  "%s: code %d, %s", refused[i].key, err.code, err.msg);
		CHECK_MSG(strstr(err.msg, refused[i].named) != NULL, "%s", err.msg);
		CHECK_MSG(err.hint[0] != 0, "%s", err.msg);
	}
	CHECK_INT(count_fds(), fds);
	check_free();
}

static void test_refusals(void)
{
	each_way(refusals);
}

static void mistakes(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	CHECK_INT(cordon_confine_self(NULL, NULL, &err), -CORDON_E_USAGE);
	CHECK_INT(confine(&err, "fs.read", "/nonexistent/path", NULL), -CORDON_E_PATH);
	CHECK_INT(confine(&err, "fs.write", "/", NULL), -CORDON_E_PATH);
	CHECK_INT(confine(&err, "commands", "no-such-program", NULL), -CORDON_E_POLICY);
	CHECK_INT(cordon_confine_self(NULL, NULL, NULL), -CORDON_E_USAGE);
	check_free();
}

static void test_mistakes(void)
{
	each_way(mistakes);
}

static void *wait_for_end(void *arg)
{
	char byte;

	return read(*(int *)arg, &byte, 1) < 0 ? arg : NULL;
}

static void threads(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	pthread_t thread;
	int end[2];

	REQUIRE(pipe(end) == 0);
	CHECK_INT(pthread_create(&thread, NULL, wait_for_end, &end[0]), 0);
	CHECK_INT(confine(&err, NULL), -CORDON_E_STATE);
	CHECK(strstr(err.msg, "2 threads") != NULL && err.hint[0] != 0);
	check_free();
	close(end[1]);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CONFINE(NULL);
	CHECK_INT(try_open(secret, O_RDONLY), EACCES);
}

static void test_threads(void)
{
	each_way(threads);
}

static void best_effort(void)
{
	CONFINE("limits.wall", "10s", "limits.memory", "100M", "best_effort", "wall", "best_effort",
		"memory", NULL);
	CHECK_INT(try_open(secret, O_RDONLY), EACCES);
}

static void test_best_effort(void)
{
	each_way(best_effort);
}

static void limits(void)
{
	char path[96];
	int fd, n = 0, fds[64];

	snprintf(path, sizeof(path), "%s/big-%u", granted, geteuid());
	CONFINE("fs.write", granted, "limits.open_files", "40", "limits.file_size", "1000", NULL);
	signal(SIGXFSZ, SIG_IGN);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_INT(ftruncate(fd, 1000), 0);
	CHECK_INT(ftruncate(fd, 1001), -1);
	while (n < 64 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	CHECK_MSG(n < 40 && errno == EMFILE, "%d descriptors", n);
}

static void test_limits(void)
{
	each_way(limits);
}

/* What was used before does not count; beyond the limit the process is told. */
static void cpu_time(void)
{
	struct rlimit now;
	volatile unsigned work = 0;
	int status = 0;
	pid_t pid;

	CHECK_INT(getrlimit(RLIMIT_CPU, &now), 0);
	CHECK(now.rlim_cur == RLIM_INFINITY);
	CONFINE("limits.cpu_time", "1s", NULL);
	CHECK_INT(getrlimit(RLIMIT_CPU, &now), 0);
	CHECK(now.rlim_cur >= 1 && now.rlim_cur <= 3 && now.rlim_max == now.rlim_cur + 1);
	pid = fork();
	if (pid == 0) {
		for (;;)
			work++;
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU);
}

static void test_cpu_time(void)
{
	run_in_child(cpu_time, geteuid() == 0);
}

static void commands(void)
{
	const char *const listed[] = { "/bin/cat", "/etc/passwd", NULL };
	const char *const other[] = { "/bin/ls", "/", NULL };
	const char *const loader[] = { TEST_LOADER, "/bin/ls", "/", NULL };
	char own[96];
	const char *const copy[] = { own, "/", NULL };

	snprintf(own, sizeof(own), "cp /bin/ls %s/ls-%u", granted, geteuid());
	CHECK_INT(system(own), 0);
	snprintf(own, sizeof(own), "%s/ls-%u", granted, geteuid());
	CHECK_INT(try_exec(listed), 0);
	CHECK_INT(try_exec(other), 0);
	CHECK_INT(try_exec(copy), 0);
	CONFINE("fs.write", granted, "commands", "cat", NULL);
	CHECK_INT(try_exec(listed), 0);
	CHECK_INT(try_exec(other), 126);
	CHECK_INT(try_exec(copy), 126);
	CHECK(try_exec(loader) != 0);
}

static void test_commands(void)
{
	each_way(commands);
}

/* A second time takes more away, and never gives back. */
static void again(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/again-%u", granted, geteuid());
	CONFINE("fs.write", granted, NULL);
	CHECK_INT(try_open(path, O_WRONLY | O_CREAT), 0);
	CONFINE("fs.read", "/usr", NULL);
	CHECK_INT(try_open(path, O_RDONLY), EACCES);
	CONFINE("fs.write", granted, NULL);
	CHECK_INT(try_open(path, O_RDONLY), EACCES);
}

static void test_again(void)
{
	each_way(again);
}

/* The kernel has an end to it, which the try-out meets: the process stays as it was. */
static void too_often(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct rlimit now;
	int r = 0, n = 0;

	while (r == 0 && n < 100) {
		r = confine(&err, "limits.open_files", n < 15 ? "200" : "100", NULL);
		n += r == 0;
	}
	CHECK_INT(n, 16);
	CHECK_INT(r, -CORDON_E_SETUP);
	CHECK_STR(cordon_stage_name(err.stage), "landlock");
	CHECK(strstr(err.hint, "nothing was changed") != NULL);
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &now), 0);
	CHECK_INT(now.rlim_cur, 100);
	r = confine(&err, "limits.open_files", "50", NULL);
	CHECK_INT(r, -CORDON_E_SETUP);
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &now), 0);
	CHECK_INT(now.rlim_cur, 100);
}

static void test_too_often(void)
{
	each_way(too_often);
}

/* The installation of the program that runs, and the directory it is in, can be read. */
static void defaults(void)
{
	char path[96];
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;

	snprintf(path, sizeof(path), "%s/in-cwd-%u", granted, geteuid());
	CHECK_INT(try_open(path, O_WRONLY | O_CREAT), 0);
	CHECK_INT(cordon_policy_new(&policy, &err), 0);
	options.cwd = granted;
	options.home = outside;
	CHECK_INT(cordon_confine_self(policy, &options, &err), 0);
	cordon_policy_free(policy);
	CHECK_INT(try_open(path, O_RDONLY), 0);
	CHECK_INT(try_open(path, O_WRONLY), EACCES);
	CHECK_INT(try_open("/proc/self/exe", O_RDONLY), 0);
	CHECK_INT(try_open(secret, O_RDONLY), EACCES);
	/* As documented: the environment is the caller's business. */
	CHECK(getenv("PATH") != NULL);
}

static void test_defaults(void)
{
	setenv("PATH", "/usr/bin:/bin", 0);
	each_way(defaults);
}

TAP_MAIN(set_up, test_refusals, test_mistakes, test_threads, test_best_effort, test_limits,
	 test_cpu_time, test_commands, test_again, test_too_often, test_defaults, tear_down)

/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ORPHAN_TRIES 20000

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t usage_us(int who)
{
	struct rusage u;

	if (getrusage(who, &u) < 0)
		die("getrusage: %m");
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

uint64_t cpu_us(void)
{
	return usage_us(RUSAGE_SELF) + usage_us(RUSAGE_CHILDREN);
}

void become_subreaper(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		die("prctl: %m");
}

void collect_orphans(void)
{
	const struct timespec pause = { 0, 50000 };

	for (int i = 0; i < ORPHAN_TRIES; i++) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0 && errno == ECHILD)
			return;
		if (pid == 0)
			nanosleep(&pause, NULL);
	}
	die("a command left a process behind");
}

FILE *take_stdout(void)
{
	int out_fd = fcntl(1, F_DUPFD_CLOEXEC, 3), null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	FILE *out = out_fd < 0 ? NULL : fdopen(out_fd, "w");

	if (!out || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0)
		die("cannot set up the streams: %m");
	return out;
}

void spawn_and_wait(char *const argv[])
{
	int status, r;
	pid_t pid;

	r = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
	if (r != 0)
		die("cannot start %s: %s", argv[0], strerror(r));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid: %m");
	if (status != 0)
		die("%s ended with wait status %#x", argv[0], (unsigned)status);
}

struct cordon_policy *default_policy(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy;

	if (cordon_policy_new(&policy, &err) < 0)
		die("%s", err.msg);
	return policy;
}

static const char *const all_limits[][2] = {
	{ "limits.wall", "60s" },     { "limits.memory", "512M" },  { "limits.procs", "64" },
	{ "limits.cpu", "2" },	      { "limits.cpu_time", "60s" }, { "limits.open_files", "256" },
	{ "limits.file_size", "1G" }, { "limits.disk", "128M" },    { "limits.output", "1M" },
};

struct cordon_policy *limited_policy(const char *limits, struct cordon_run_options *options)
{
	struct cordon_policy *policy = default_policy();
	struct cordon_error err = CORDON_ERROR_INIT;
	int all = strcmp(limits, "all") == 0;

	if (!all && strcmp(limits, "memory") != 0 && strcmp(limits, "none") != 0)
		die("limits are none, memory or all, not '%s'", limits);
	for (size_t i = 0; i < sizeof(all_limits) / sizeof(all_limits[0]); i++)
		if (all || strstr(all_limits[i][0], limits))
			if (cordon_policy_set(policy, all_limits[i][0], all_limits[i][1], &err) < 0)
				die("%s", err.msg);
	options->default_wall_ms = -1;
	options->default_memory_bytes = -1;
	return policy;
}

struct cordon_launcher *new_launcher(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher;

	if (cordon_launcher_new(&launcher, &err) < 0)
		die("%s", err.msg);
	return launcher;
}

void library_options(struct cordon_run_options *ret, char *const argv[])
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;

	options.argv = (const char *const *)argv;
	options.envp = (const char *const *)environ;
	options.home = getenv("HOME");
	*ret = options;
}

struct cordon_run *library_run(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			       char *const argv[], struct cordon_pool *pool)
{
	struct cordon_run_options options;

	library_options(&options, argv);
	return library_run_as(launcher, policy, &options, pool);
}

struct cordon_run *library_run_as(struct cordon_launcher *launcher,
				  const struct cordon_policy *policy,
				  const struct cordon_run_options *options,
				  struct cordon_pool *pool)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct cordon_result *result;
	struct cordon_run *run;
	int r;

	r = pool ? cordon_pool_start(pool, policy, options, &run, &err)
		 : cordon_run_start(launcher, policy, options, &run, &err);
	if (r < 0)
		die("cannot start a run: %s", err.msg);
	if (cordon_run_wait(run, -1, &err) < 0)
		die("cannot wait for a run: %s", err.msg);
	result = cordon_run_result(run);
	if (result->status != 0 || result->level != CORDON_LEVEL_NAMESPACES)
		die("a run ended as %s, status %d, level %s: %s", cordon_kind_name(result->kind),
		    result->status, cordon_level_name(result->level), result->error.msg);
	return run;
}

unsigned parse_commands(char **argv, struct command *ret)
{
	unsigned n = 0;

	while (*argv) {
		if (n == COMMANDS_MAX)
			die("too many commands");
		ret[n].name = *argv++;
		ret[n].argv = argv;
		while (*argv && strcmp(*argv, ";") != 0)
			argv++;
		if (argv == ret[n].argv)
			die("command '%s' is empty", ret[n].name);
		n++;
		if (*argv)
			*argv++ = NULL;
	}
	return n;
}

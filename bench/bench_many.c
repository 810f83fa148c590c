/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many sandboxes at once: started, weighed by bench/limits.py while they sleep, and ended.
 *
 *	bench_many library COUNT LIMITS		runs of one process
 *	bench_many command COUNT CMD...		a process of CMD for each
 *
 * Prints a line when it is ready. At the first line of input it starts them all and prints the
 * milliseconds until each one was handed over and until the command runs in each; at the second
 * one (or the end of its input) it ends them all and prints how long that took.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define UP_TIMEOUT_NS (uint64_t)120000000000

static char sleep_path[] = "/bin/sleep", sleep_time[] = "600";
static char *sleeper[] = { sleep_path, sleep_time, NULL };

struct many {
	int count;
	char **command; /* NULL: the library */
	struct cordon_launcher *launcher;
	struct cordon_policy *policy;
	struct cordon_run_options options;
	struct cordon_run **runs;
	pid_t *pids; /* of the library's inits, or of the commands */
};

static double since_ms(uint64_t start)
{
	return (double)(now_ns() - start) / 1e6;
}

static int read_text(const char *path, char *ret, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, ret, size - 1);
	close(fd);
	ret[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Follows the first child down to a process that executes the command. */
static int is_up(pid_t pid)
{
	char path[64], text[256];

	for (int depth = 0; depth < 4; depth++) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		if (!read_text(path, text, sizeof(text)))
			return 0;
		if (strcmp(text, "sleep\n") == 0)
			return 1;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
		if (!read_text(path, text, sizeof(text)))
			return 0;
		pid = (pid_t)atoi(text);
	}
	return 0;
}

static void start_one(struct many *m, int i)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r;

	if (m->command) {
		r = posix_spawn(&m->pids[i], m->command[0], NULL, NULL, m->command, environ);
		if (r != 0)
			die("cannot start %s: %s", m->command[0], strerror(r));
		return;
	}
	if (cordon_run_start(m->launcher, m->policy, &m->options, &m->runs[i], &err) < 0)
		die("cannot start run %d: %s", i, err.msg);
	m->pids[i] = m->runs[i]->spawned.pid;
}

static void start_all(struct many *m, FILE *out)
{
	const struct timespec pause = { 0, 10000000 };
	uint64_t start = now_ns();
	double started_ms;

	for (int i = 0; i < m->count; i++)
		start_one(m, i);
	started_ms = since_ms(start);
	for (int i = 0; i < m->count; i++)
		while (!is_up(m->pids[i])) {
			if (now_ns() - start > UP_TIMEOUT_NS)
				die("sandbox %d of %d does not come up", i, m->count);
			nanosleep(&pause, NULL);
		}
	fprintf(out, "{\"started_ms\": %.1f, \"up_ms\": %.1f}\n", started_ms, since_ms(start));
}

static void end_library(struct many *m)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	for (int i = 0; i < m->count; i++)
		if (cordon_run_cancel(m->runs[i], &err) < 0)
			die("cannot cancel run %d: %s", i, err.msg);
	for (int i = 0; i < m->count; i++) {
		if (cordon_run_wait(m->runs[i], -1, &err) < 0)
			die("cannot wait for run %d: %s", i, err.msg);
		if (cordon_run_result(m->runs[i])->kind != CORDON_KIND_CANCELLED)
			die("run %d ended by itself: %s", i,
			    cordon_kind_name(cordon_run_result(m->runs[i])->kind));
		cordon_run_free(m->runs[i]);
	}
	graveyard_sweep(m->launcher, 1);
}

static void end_commands(struct many *m)
{
	int status;

	for (int i = 0; i < m->count; i++)
		kill(m->pids[i], SIGTERM);
	for (int i = 0; i < m->count; i++) {
		while (waitpid(m->pids[i], &status, 0) < 0)
			if (errno != EINTR)
				die("waitpid: %m");
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 128 + SIGTERM)
			die("command %d ended with wait status %#x", i, (unsigned)status);
	}
	collect_orphans();
}

int main(int argc, char **argv)
{
	struct rlimit files;
	struct many m = { .count = argc > 3 ? atoi(argv[2]) : 0 };
	/* Descriptor 0 becomes /dev/null, which the sandboxes get as input. */
	int in_fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
	FILE *in = in_fd < 0 ? NULL : fdopen(in_fd, "r"), *out = take_stdout();
	char line[16];
	uint64_t start;

	if (m.count < 1 || !in)
		die("usage: bench_many library COUNT LIMITS | command COUNT CMD...");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	become_subreaper();
	m.pids = calloc((size_t)m.count, sizeof(pid_t));
	m.runs = calloc((size_t)m.count, sizeof(struct cordon_run *));
	if (!m.pids || !m.runs)
		die("out of memory");
	if (strcmp(argv[1], "command") == 0) {
		m.command = argv + 3;
	} else {
		m.launcher = new_launcher();
		library_options(&m.options, sleeper);
		m.policy = limited_policy(argv[3], &m.options);
	}
	fputs("{}\n", out);
	fflush(out);
	if (!fgets(line, sizeof(line), in))
		return 0;
	start_all(&m, out);
	fflush(out);
	if (!fgets(line, sizeof(line), in))
		line[0] = 0;
	start = now_ns();
	if (m.command)
		end_commands(&m);
	else
		end_library(&m);
	fprintf(out, "{\"ended_ms\": %.1f}\n", since_ms(start));
	cordon_policy_free(m.policy);
	if (m.launcher)
		cordon_launcher_free(m.launcher);
	fclose(in);
	free(m.runs);
	free(m.pids);
	return fclose(out) == 0 ? 0 : 1;
}

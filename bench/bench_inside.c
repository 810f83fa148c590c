/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What things cost inside, measured by one process so that start-up is not part of it.
 *
 *	bench_inside calls BATCHES FILE		system calls; FILE is opened and looked at
 *	bench_inside program REPETITIONS CMD...	a whole program, started from inside
 *	bench_inside each REPETITIONS CMD...	the same without a first one that does not count
 *
 * Prints one JSON object with the samples: nanoseconds per call, or microseconds per program (wall
 * time and CPU time of its tree).
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *file;
static int sockets[2];

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "bench_inside: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void do_getpid(void)
{
	syscall(SYS_getpid);
}

static void do_open(void)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail(file);
	close(fd);
}

static void do_stat(void)
{
	struct stat st;

	if (stat(file, &st) < 0)
		fail(file);
}

static void do_send(void)
{
	char byte = 0;

	if (send(sockets[0], &byte, 1, 0) != 1 || recv(sockets[1], &byte, 1, 0) != 1)
		fail("socketpair");
}

static void do_fork(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid == 0)
		_exit(0);
	if (waitpid(pid, &status, 0) < 0)
		fail("waitpid");
}

static const struct {
	const char *name;
	void (*call)(void);
	int repetitions;
} calls[] = {
	{ "getpid", do_getpid, 20000 }, { "open+close", do_open, 1000 }, { "stat", do_stat, 1000 },
	{ "send+recv", do_send, 1000 }, { "fork+wait", do_fork, 20 },
};

#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

static double time_call(unsigned i)
{
	double start = now_us();

	for (int k = 0; k < calls[i].repetitions; k++)
		calls[i].call();
	return (now_us() - start) * 1e3 / calls[i].repetitions;
}

static int bench_calls(int batches, const char *path)
{
	double *ns = calloc((size_t)batches * N_CALLS, sizeof(double));

	file = path;
	if (!ns || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
		fail("socketpair");
	for (unsigned i = 0; i < N_CALLS; i++)
		time_call(i);
	for (int b = 0; b < batches; b++)
		for (unsigned i = 0; i < N_CALLS; i++)
			ns[(size_t)b * N_CALLS + i] = time_call(i);
	for (unsigned i = 0; i < N_CALLS; i++) {
		printf("%s\"%s\": [", i ? ", " : "{", calls[i].name);
		for (int b = 0; b < batches; b++)
			printf("%s%.1f", b ? "," : "", ns[(size_t)b * N_CALLS + i]);
		putchar(']');
	}
	puts("}");
	return 0;
}

static double children_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_CHILDREN, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void run_program(char **argv, const posix_spawn_file_actions_t *quiet)
{
	int status, r;
	pid_t pid;

	r = posix_spawnp(&pid, argv[0], quiet, NULL, argv, environ);
	if (r != 0) {
		errno = r;
		fail(argv[0]);
	}
	if (waitpid(pid, &status, 0) < 0)
		fail("waitpid");
	if (status != 0) {
		errno = ECHILD;
		fail(argv[0]);
	}
}

static int bench_program(int repetitions, bool is_warm, char **argv)
{
	double *wall = calloc((size_t)repetitions, sizeof(double));
	double *cpu = calloc((size_t)repetitions, sizeof(double));
	posix_spawn_file_actions_t quiet;

	if (!wall || !cpu)
		fail("calloc");
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
	if (is_warm)
		run_program(argv, &quiet);
	for (int i = 0; i < repetitions; i++) {
		double start = now_us(), cpu_start = children_us();

		run_program(argv, &quiet);
		wall[i] = now_us() - start;
		cpu[i] = children_us() - cpu_start;
	}
	for (int pass = 0; pass < 2; pass++) {
		printf(pass ? "], \"cpu_us\": [" : "{\"wall_us\": [");
		for (int i = 0; i < repetitions; i++)
			printf("%s%.0f", i ? "," : "", pass ? cpu[i] : wall[i]);
	}
	puts("]}");
	return 0;
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[2]) : 0;

	if (n > 0 && strcmp(argv[1], "calls") == 0)
		return bench_calls(n, argv[3]);
	if (n > 0 && strcmp(argv[1], "program") == 0)
		return bench_program(n, true, argv + 3);
	if (n > 0 && strcmp(argv[1], "each") == 0)
		return bench_program(n, false, argv + 3);
	fputs("usage: bench_inside calls BATCHES FILE | program|each REPETITIONS CMD...\n", stderr);
	return 2;
}

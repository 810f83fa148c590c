/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs per second from several callers at once.
 *
 *	bench_load WORKERS SLICES SLICE_MS NAME CMD... \; NAME CMD... \;
 *
 * Each worker runs its contender over and over for one slice; the contenders take turns slice by
 * slice. Besides the given commands there are `library` (a process per worker) and `threads` (one
 * process, one launcher, a thread per worker). Prints one JSON object per contender.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define WORKERS_MAX 64
#define SLICES_MAX 64

enum kind {
	KIND_COMMAND,
	KIND_LIBRARY,
	KIND_THREADS,
};

struct contender {
	enum kind kind;
	const char *name;
	char **argv;
	double rate[SLICES_MAX];
};

/* Shared with the workers. */
struct slice {
	pthread_barrier_t barrier;
	uint64_t until_ns;
	uint64_t count[WORKERS_MAX], ended_ns[WORKERS_MAX];
};

struct worker {
	struct slice *slice;
	const struct contender *contender;
	struct cordon_launcher *launcher;
	struct cordon_policy *policy;
	int index;
};

static char true_path[] = "/bin/true";
static char *payload[] = { true_path, NULL };

static void *work(void *arg)
{
	struct worker *w = arg;
	struct slice *s = w->slice;
	uint64_t n = 0;

	pthread_barrier_wait(&s->barrier);
	do {
		if (w->contender->kind == KIND_COMMAND)
			spawn_and_wait(w->contender->argv);
		else
			cordon_run_free(library_run(w->launcher, w->policy, payload, NULL));
		n++;
	} while (now_ns() < s->until_ns);
	s->count[w->index] = n;
	s->ended_ns[w->index] = now_ns();
	return NULL;
}

static void run_processes(struct slice *s, const struct contender *c, int n)
{
	pid_t pids[WORKERS_MAX];

	for (int i = 0; i < n; i++) {
		struct worker w = { .slice = s, .contender = c, .index = i };

		pids[i] = fork();
		if (pids[i] < 0)
			die("fork: %m");
		if (pids[i] != 0)
			continue;
		if (c->kind == KIND_LIBRARY) {
			w.launcher = new_launcher();
			w.policy = default_policy();
		}
		work(&w);
		_exit(0);
	}
	for (int i = 0; i < n; i++) {
		int status;

		if (waitpid(pids[i], &status, 0) < 0 || status != 0)
			die("a worker of %s failed", c->name);
	}
}

static void run_threads(struct slice *s, const struct contender *c, int n)
{
	struct worker workers[WORKERS_MAX];
	pthread_t threads[WORKERS_MAX];
	struct cordon_launcher *launcher = new_launcher();
	struct cordon_policy *policy = default_policy();

	for (int i = 0; i < n; i++) {
		workers[i] = (struct worker){ s, c, launcher, policy, i };
		if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
			die("cannot start a thread");
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
}

static double run_slice(const struct contender *c, int workers, int slice_ms)
{
	struct slice *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	double rate = 0;
	uint64_t start;

	if (s == MAP_FAILED)
		die("out of memory");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->barrier, &attr, (unsigned)workers);
	start = now_ns();
	s->until_ns = start + (uint64_t)slice_ms * 1000000u;
	if (c->kind == KIND_THREADS)
		run_threads(s, c, workers);
	else
		run_processes(s, c, workers);
	for (int i = 0; i < workers; i++)
		rate += (double)s->count[i] * 1e9 / (double)(s->ended_ns[i] - start);
	munmap(s, sizeof(*s));
	return rate;
}

int main(int argc, char **argv)
{
	static struct contender contenders[COMMANDS_MAX + 2];
	struct command commands[COMMANDS_MAX];
	FILE *out = take_stdout();
	unsigned n;
	int workers, slices, slice_ms;

	if (argc < 4)
		die("usage: bench_load WORKERS SLICES SLICE_MS [NAME CMD... ;]...");
	workers = atoi(argv[1]);
	slices = atoi(argv[2]);
	slice_ms = atoi(argv[3]);
	if (workers < 1 || workers > WORKERS_MAX || slices < 1 || slices > SLICES_MAX)
		die("numbers out of range");
	n = parse_commands(argv + 4, commands);
	for (unsigned i = 0; i < n; i++)
		contenders[i] = (struct contender){ .kind = KIND_COMMAND,
						    .name = commands[i].name,
						    .argv = commands[i].argv };
	contenders[n++] = (struct contender){ .kind = KIND_LIBRARY, .name = "library" };
	contenders[n++] = (struct contender){ .kind = KIND_THREADS, .name = "threads" };
	for (int round = 0; round < slices; round++)
		for (unsigned i = 0; i < n; i++)
			contenders[i].rate[round] = run_slice(&contenders[i], workers, slice_ms);
	for (unsigned i = 0; i < n; i++) {
		fprintf(out, "{\"name\": \"%s\", \"per_s\": [", contenders[i].name);
		for (int k = 0; k < slices; k++)
			fprintf(out, "%s%.0f", k ? "," : "", contenders[i].rate[k]);
		fputs("]}\n", out);
	}
	return fclose(out) == 0 ? 0 : 1;
}

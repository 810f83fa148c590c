/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the start of a run to its end, one after the other.
 *
 *	bench_launch ROUNDS RESIDENT_MIB BUILTINS NAME CMD... \; NAME CMD... \;
 *
 * Each round runs every contender once, in an order shuffled anew, so that noise hits all alike.
 * BUILTINS is a comma-separated choice of `library`, `parked`, `plan`, `net` (the library with an
 * allowed host), of `none`, `memory`, `all` (the library with these limits), and of `write:DIR`,
 * `workspace:DIR` (the library with that directory). Prints one JSON object per contender: the
 * samples, and for the library the stamps of its stages.
 *
 * CPU time is that of the whole tree: this program is the subreaper of what a command leaves
 * behind and collects it off the clock, before the next contender starts.
 *
 * This program links the inside of the library, for plans without a run.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "format/stage.h"
#include "launch/launch.h"

#define WARM_UP 5
#define BUILTINS_MAX 12

enum kind {
	KIND_COMMAND,
	KIND_LIBRARY,
	KIND_PARKED,
	KIND_PLAN,
};

struct contender {
	enum kind kind;
	const char *name;
	char **argv;
	struct cordon_policy *policy; /* of library runs, with the options for it */
	struct cordon_run_options options;
	double *wall_us, *cpu_us;
	uint32_t *stamps; /* rounds x CORDON_STAMPS_MAX, library runs only */
};

struct bench {
	struct cordon_launcher *launcher;
	struct cordon_policy *policy;
	struct contender contenders[COMMANDS_MAX + BUILTINS_MAX];
	unsigned n;
};

static char true_path[] = "/bin/true";
static char *payload[] = { true_path, NULL };
static struct cordon_pool *pool;

static char process_state(pid_t pid)
{
	char path[64], text[256] = "";
	char *paren;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		die("%s: %m", path);
	close(fd);
	paren = strrchr(text, ')');
	return paren ? paren[2] : '?';
}

/* The only child that this process has: all others were collected. */
static pid_t only_child(void)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		die("%s: %m", path);
	close(fd);
	return (pid_t)strtol(text, NULL, 10);
}

/* Makes an init and waits until it is idle. */
static void park_one(struct bench *b)
{
	struct cordon_pool_options pool_options = CORDON_POOL_OPTIONS_INIT;
	const struct timespec pause = { 0, 300000 };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	pid_t pid;

	library_options(&options, payload);
	pool_options.parked = 1;
	pool_options.refill = CORDON_REFILL_BY_HAND;
	if (!pool &&
	    cordon_pool_new(b->launcher, b->policy, &options, &pool_options, &pool, &err) < 0)
		die("cannot make a pool: %s", err.msg);
	if (cordon_pool_refill(pool, &err) < 0)
		die("cannot park an init: %s", err.msg);
	pid = only_child();
	for (int asleep = 0; asleep < 3;) {
		nanosleep(&pause, NULL);
		asleep = process_state(pid) == 'S' ? asleep + 1 : 0;
	}
}

/* A start that was not parked would be measured as one. */
static void end_pool(void)
{
	struct cordon_pool_stats stats;

	cordon_pool_stats(pool, &stats);
	if (stats.warm == 0 || stats.cold > 0)
		die("%u parked starts, %u cold", (unsigned)stats.warm, (unsigned)stats.cold);
	cordon_pool_free(pool);
	pool = NULL;
}

static void plan_only(struct bench *b)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct plan_input input = {
		.policy = b->policy,
		.options = &options,
		.level = PLAN_LEVEL_NAMESPACES,
		.machine = &b->launcher->machine,
		.is_main_thread = 1,
	};
	struct plan *plan;

	library_options(&options, payload);
	if (plan_build(&input, &plan, &err) < 0)
		die("cannot plan: %s", err.msg);
	plan_free(plan);
}

static void run_contender(struct bench *b, struct contender *c, int round)
{
	uint64_t cpu_start, start, end;
	struct cordon_run *run = NULL;

	if (c->kind == KIND_PARKED)
		park_one(b);
	cpu_start = cpu_us();
	start = now_ns();
	switch (c->kind) {
	case KIND_COMMAND:
		spawn_and_wait(c->argv);
		break;
	case KIND_LIBRARY:
	case KIND_PARKED:
		run = library_run_as(b->launcher, c->policy ? c->policy : b->policy, &c->options,
				     c->kind == KIND_PARKED ? pool : NULL);
		break;
	case KIND_PLAN:
		plan_only(b);
		break;
	}
	end = now_ns();
	if (run && round >= 0)
		memcpy(c->stamps + round * CORDON_STAMPS_MAX, cordon_run_result(run)->stamps_us,
		       sizeof(uint32_t) * CORDON_STAMPS_MAX);
	cordon_run_free(run);
	graveyard_sweep(b->launcher, 1);
	collect_orphans();
	if (round < 0)
		return;
	c->wall_us[round] = (double)(end - start) / 1e3;
	c->cpu_us[round] = (double)(cpu_us() - cpu_start);
}

static struct contender *add(struct bench *b, enum kind kind, const char *name, char **argv,
			     int rounds)
{
	struct contender *c = &b->contenders[b->n++];
	size_t n = (size_t)rounds;

	*c = (struct contender){ .kind = kind, .name = name, .argv = argv };
	library_options(&c->options, payload);
	c->wall_us = calloc(n, sizeof(double));
	c->cpu_us = calloc(n, sizeof(double));
	if (kind == KIND_LIBRARY || kind == KIND_PARKED)
		c->stamps = calloc(n * CORDON_STAMPS_MAX, sizeof(uint32_t));
	if (!c->wall_us || !c->cpu_us)
		die("out of memory");
	return c;
}

static struct cordon_policy *policy_with(const char *key, const char *value)
{
	struct cordon_policy *policy = default_policy();
	struct cordon_error err = CORDON_ERROR_INIT;

	if (cordon_policy_set(policy, key, value, &err) < 0)
		die("%s", err.msg);
	return policy;
}

static void add_builtin(struct bench *b, const char *name, int rounds)
{
	enum kind kind = KIND_LIBRARY;
	struct contender *c;

	if (strcmp(name, "parked") == 0)
		kind = KIND_PARKED;
	else if (strcmp(name, "plan") == 0)
		kind = KIND_PLAN;
	c = add(b, kind, name, NULL, rounds);
	if (kind != KIND_LIBRARY || strcmp(name, "library") == 0)
		return;
	if (strcmp(name, "net") == 0)
		c->policy = policy_with("net.allow", "example.com");
	else if (strncmp(name, "write:", strlen("write:")) == 0)
		c->policy = policy_with("fs.write", name + strlen("write:"));
	else if (strncmp(name, "workspace:", strlen("workspace:")) == 0)
		c->policy = policy_with("fs.workspace", name + strlen("workspace:"));
	else
		c->policy = limited_policy(name, &c->options);
}

static void add_builtins(struct bench *b, char *chosen, int rounds)
{
	unsigned n = 0;

	for (char *name = strtok(chosen, ","); name; name = strtok(NULL, ",")) {
		if (n++ == BUILTINS_MAX)
			die("too many of the library's");
		add_builtin(b, name, rounds);
	}
}

static void shuffle(unsigned *order, unsigned n)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned j = (unsigned)random() % i, other = order[j];

		order[j] = order[i - 1];
		order[i - 1] = other;
	}
}

static void print_samples(FILE *out, const char *key, const double *v, int n)
{
	fprintf(out, ", \"%s\": [", key);
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%.1f", i ? "," : "", v[i]);
	fputc(']', out);
}

static void print_contender(FILE *out, const struct contender *c, int rounds)
{
	fprintf(out, "{\"name\": \"%s\"", c->name);
	print_samples(out, "wall_us", c->wall_us, rounds);
	print_samples(out, "cpu_us", c->cpu_us, rounds);
	if (c->stamps) {
		fputs(", \"stamps\": {", out);
		for (unsigned s = STAGE_START; s < STAGE_MAX; s++) {
			fprintf(out, "%s\"%s\": [", s > STAGE_START ? ", " : "",
				cordon_stage_name(s));
			for (int i = 0; i < rounds; i++)
				fprintf(out, "%s%u", i ? "," : "",
					c->stamps[(unsigned)i * CORDON_STAMPS_MAX + s]);
			fputc(']', out);
		}
		fputc('}', out);
	}
	fputs("}\n", out);
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct command commands[COMMANDS_MAX];
	unsigned order[COMMANDS_MAX + BUILTINS_MAX], n_commands;
	FILE *out = take_stdout();
	int rounds;
	size_t resident;

	if (argc < 4)
		die("usage: bench_launch ROUNDS RESIDENT_MIB BUILTINS [NAME CMD... ;]...");
	rounds = atoi(argv[1]);
	resident = (size_t)atoi(argv[2]) << 20;
	n_commands = parse_commands(argv + 4, commands);
	become_subreaper();
	b.launcher = new_launcher();
	b.policy = default_policy();
	for (unsigned i = 0; i < n_commands; i++)
		add(&b, KIND_COMMAND, commands[i].name, commands[i].argv, rounds);
	add_builtins(&b, argv[3], rounds);
	if (resident) {
		char *memory = malloc(resident);

		if (!memory)
			die("out of memory");
		madvise(memory, resident, MADV_NOHUGEPAGE); /* as a heap grown in small steps */
		memset(memory, 1, resident);
	}
	for (unsigned i = 0; i < b.n; i++)
		order[i] = i;
	for (int round = -WARM_UP; round < rounds; round++) {
		shuffle(order, b.n);
		for (unsigned i = 0; i < b.n; i++)
			run_contender(&b, &b.contenders[order[i]], round);
	}
	for (unsigned i = 0; i < b.n; i++) {
		print_contender(out, &b.contenders[i], rounds);
		cordon_policy_free(b.contenders[i].policy);
	}
	if (pool)
		end_pool();
	cordon_policy_free(b.policy);
	cordon_launcher_free(b.launcher);
	return fclose(out) == 0 ? 0 : 1;
}

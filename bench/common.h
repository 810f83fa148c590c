/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmark programs share. They measure; bench/run.py compares and prints. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <cordon/cordon.h>

#include "launch/launch.h"

void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

uint64_t now_ns(void);
/* CPU time of this process and of every descendant that has been collected. */
uint64_t cpu_us(void);

/* Collects orphans of commands that do not wait for their own children; we are their subreaper. */
void collect_orphans(void);
void become_subreaper(void);

/* Leaves descriptors 0 and 1 on /dev/null for whatever is started; results go to the stream. */
FILE *take_stdout(void);

/* Bare posix_spawn and wait; the exit status must be 0. */
void spawn_and_wait(char *const argv[]);

/* A policy with the command line's defaults. */
struct cordon_policy *default_policy(void);
/* Limits that init has to watch: "none", "memory" or "all" (bench/limits.py has the same as flags).
 * library_options() has defaults of its own; with this policy, @options gets none. */
struct cordon_policy *limited_policy(const char *limits, struct cordon_run_options *options);
struct cordon_launcher *new_launcher(void);
/* One run with nothing on its streams; the exit status must be 0. Freed by the caller. */
void library_options(struct cordon_run_options *ret, char *const argv[]);
/* A whole run; with an init of @pool, unless that is NULL. */
struct cordon_run *library_run(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			       char *const argv[], struct cordon_pool *pool);
/* The same with options of the caller's. */
struct cordon_run *library_run_as(struct cordon_launcher *launcher,
				  const struct cordon_policy *policy,
				  const struct cordon_run_options *options,
				  struct cordon_pool *pool);

/* Commands on the command line: NAME ARG... ; NAME ARG... ; */
struct command {
	const char *name;
	char **argv;
};

#define COMMANDS_MAX 16

unsigned parse_commands(char **argv, struct command *ret);

#endif

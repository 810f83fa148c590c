/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the tree while it runs: the limits that no single system call can hold (time, memory and
 * CPU of all processes together), and the figures of the receipt.
 */
#ifndef INIT_WATCH_H
#define INIT_WATCH_H

#include "init/init.h"

/* Before anything runs: what is there already is not the command's. */
void watch_prepare(struct init *in);
/* When the command has been started. */
void watch_start(struct init *in);
/* Does what is due and notes the limit that was broken, if one was, in the report. Returns the
 * nanoseconds until it wants to be called again. */
uint64_t watch_tick(struct init *in);
/* The tree was asked to end: it must be able to run for that. */
void watch_release(struct init *in);
/* The last look, when the tree is gone. */
void watch_end(struct init *in);

/* cpu.c: CPU time of the whole tree and its share of the CPUs. Returns as watch_tick(). */
void cpu_start(void);
uint64_t cpu_tick(struct init *in, uint64_t now);
void cpu_release(struct init *in);
/* CPU time that was seen to be used, by whomever. */
uint64_t cpu_observed_us(void);
/* The last look found that nothing had run. */
int cpu_is_at_rest(void);

#endif

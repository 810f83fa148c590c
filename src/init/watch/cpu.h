/* SPDX-License-Identifier: Apache-2.0 */
/* CPU time of the whole tree and its share of the CPUs. */
#ifndef INIT_WATCH_CPU_H
#define INIT_WATCH_CPU_H

#include "init/init.h"

void cpu_start(void);
uint64_t cpu_tick(struct init *in, uint64_t now); /* returns as watch_tick() */
void cpu_release(struct init *in);
/* The last look found that nothing had run. */
int cpu_is_idle(void);

#endif

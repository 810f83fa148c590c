/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory outside of every file system: memory files and shared anonymous mappings. */
#ifndef INIT_WATCH_SHMEM_H
#define INIT_WATCH_SHMEM_H

#include "init/init.h"

void hidden_start(struct init *in);
/* What the machine's shared memory has grown by beyond @seen: as much may be hidden at most.
 * @is_exact: @seen is not too high, so that the rest is other people's. */
uint64_t hidden_most(struct init *in, uint64_t seen, int is_exact);
/* The part of a process's mapped shared memory that no file system and no segment accounts for; or
 * @mapped, if it cannot be read. Remembers the objects behind it. */
uint64_t hidden_mapped(struct init *in, int pid, uint64_t mapped);
/* What is hidden, of @most at most: looks for where in the given processes. @mapped: the sum of
 * what hidden_mapped() said. */
uint64_t hidden_find(struct init *in, const int *pids, int n, uint64_t mapped, uint64_t most);
/* A new round of hidden_mapped() and hidden_find(). */
void hidden_begin(void);

#endif

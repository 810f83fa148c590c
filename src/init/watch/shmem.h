/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory outside of any mounted file system: memfds and shared anonymous mappings. */
#ifndef INIT_WATCH_SHMEM_H
#define INIT_WATCH_SHMEM_H

#include "init/init.h"

void shmem_start(struct init *in);
/* An upper bound: what the machine's shared memory has grown by beyond @seen. @is_exact: @seen is
 * not too high, so that what goes beyond it is not the tree's. */
uint64_t shmem_most(struct init *in, uint64_t seen, int is_exact);
/* The part of a process's mapped shared memory that no file system and no segment accounts for; or
 * @mapped, if it cannot be read. Remembers the objects behind it. */
uint64_t shmem_mapped(struct init *in, int pid, uint64_t mapped);
/* What belongs to the tree, of @most at most, by looking at the given processes. @mapped: the sum
 * of what shmem_mapped() said. */
uint64_t shmem_find(struct init *in, const int *pids, int n, uint64_t mapped, uint64_t most);
/* A new round of shmem_mapped() and shmem_find(). */
void shmem_begin(void);

#endif

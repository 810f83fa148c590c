/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory outside of every file system: memory files and shared anonymous mappings. */
#ifndef INIT_HIDDEN_H
#define INIT_HIDDEN_H

#include "init/init.h"

void hidden_start(struct init *in);
/* What may be hidden at most, given @seen bytes of shared memory that are accounted for. */
uint64_t hidden_quick(struct init *in, uint64_t seen);

/*
 * One exact count: begin, the descriptors of each process, then the mappings of each, end.
 * hidden_mapped() returns the part of @mapped (the process's share of shared memory) that no file
 * system, segment or memory file accounts for; hidden_end() the bytes of memory files and of what
 * is hidden.
 */
void hidden_begin(struct init *in);
void hidden_descriptors(struct init *in, int pid);
uint64_t hidden_mapped(struct init *in, int pid, uint64_t mapped);
uint64_t hidden_end(struct init *in, uint64_t seen);

#endif

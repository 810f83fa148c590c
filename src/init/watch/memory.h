/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the run really uses of the machine's memory.
 *
 * Two ways of counting. The cheap one adds up what each process has resident; pages that several
 * processes share are counted for each, so it is never too low, and a run below its limit by this
 * count needs no other. The exact one (memory_exact) asks the kernel for each process's share.
 *
 * Memory that no process has mapped counts, too: private directories, SysV segments, memory files
 * behind descriptors, and what only the machine's count of shared memory shows (shmem.h).
 */
#ifndef INIT_WATCH_MEMORY_H
#define INIT_WATCH_MEMORY_H

#include "init/init.h"

struct memory {
	uint64_t anon, swap, tables; /* of processes, and what the kernel keeps for each task */
	uint64_t mapped;	     /* shared memory that processes have mapped */
	uint64_t files;		     /* private directories, with their inodes */
	uint64_t segments;	     /* SysV shared memory */
	uint64_t ipc;		     /* SysV semaphores and messages */
	uint64_t shmem;		     /* outside of file systems (shmem.h) */
	uint64_t sockets;	     /* what is in their queues */
	uint64_t tasks, descriptors; /* room for the latter, rather than their number */
	uint64_t largest;	     /* anonymous memory of one process */
	uint64_t least;		     /* of all of them, whatever they share */
	uint64_t noted;		     /* by idle_note(), before anything was counted */
	int processes;
	int is_guess; /* some process cannot be looked at */
};

/* Takes the state before the run as zero. */
void memory_start(struct init *in);
/* Never too low, as far as the tree's memory can be seen. */
void memory_quick(struct init *in, struct memory *ret);
/* The same for a tree of which memory_quick() said too much. */
void memory_exact(struct init *in, struct memory *ret);
uint64_t memory_total(const struct memory *m);
/* What is used in any case, whatever is shared or guessed in the quick count. */
uint64_t memory_least(const struct memory *m);
/* The same right now, while the exact count is under way in another process. */
uint64_t memory_at_least(struct init *in);
/* Bytes in the private directories. */
uint64_t memory_disk(struct init *in);
/* May there be more files in them than before the command ran? */
int memory_has_new_files(const struct init *in);
/* What is left in them; 0 if there are none that have a limit. */
int memory_room(struct init *in, uint64_t *ret_bytes, uint64_t *ret_inodes);
/* Free memory of the whole machine, at next to no cost; *ret_total: all there is. */
uint64_t memory_free(uint64_t *ret_total);

#endif

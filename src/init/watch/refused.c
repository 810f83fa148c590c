/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks. In a pid namespace the newest pid says how many tasks were made since the last look: as
 * many as there were then, and all of these, may have been there at once. If that reaches the limit
 * although no look saw it, the limit may have been reached. The supervisor tells that only of a run
 * that failed; of others it does not matter, and short-lived processes make it likely.
 *
 * Room. A full tmpfs refuses, and the program may tidy up before the next look. So there is one for
 * as long as the room that is left lasts at least, from 2 ms on: one system call. Nearly full means
 * that it may have been full.
 */
#include "init/watch/refused.h"

#include "bare/wait.h"
#include "init/procfs.h"
#include "init/watch/figures.h"
#include "init/watch/memory.h"

#define WRITE_BYTES_PER_NS 4
#define INODE_NS 2000 /* to make a file in memory */
#define TICK_MIN_NS (2 * MS)
#define TICK_MAX_NS (1000 * MS)
#define IDLE_TIMES 4
#define LOW_PARTS 32 /* less than one of so many is left: nearly full */
#define SMALL 64     /* of larger limits a part must have been seen */
#define PART 4

static struct {
	uint64_t tasks, newest;		  /* at the last look */
	uint64_t made;			  /* tasks, between the last two */
	uint64_t room_bytes, room_inodes; /* of the private directories, then */
} last;

void refused_start(struct init *in)
{
	last.tasks = 1;
	last.newest = in->limits.procs ? proc_newest(in->proc_fd) : 0;
}

static int is_watched(const struct init *in)
{
	return in->limits.procs && in->plan->level == PLAN_LEVEL_NAMESPACES;
}

void refused_begin_look(struct init *in)
{
	uint64_t newest;

	if (!is_watched(in))
		return;
	newest = proc_newest(in->proc_fd);
	/* Our own helpers have pids, too, and after the last one the first comes again. */
	last.made = newest > last.newest ? above(newest - last.newest, in->n_helpers) : 0;
	last.newest = newest;
	in->n_helpers = 0;
}

void refused_note_tasks(struct init *in, uint64_t tasks)
{
	uint64_t limit = in->limits.procs;

	if (!is_watched(in))
		return;
	if (last.made && last.tasks + last.made >= limit &&
	    (limit <= SMALL || in->report.procs >= limit / PART))
		in->report.hits |= CONTROL_HIT_MAYBE_PROCS;
	last.tasks = tasks;
}

void refused_note_room(struct init *in, uint64_t free_blocks, uint64_t free_inodes, uint64_t blocks,
		       uint64_t inodes)
{
	if (free_blocks == 0 || free_inodes == 0)
		in->report.hits |= CONTROL_HIT_DISK;
	if (free_blocks < blocks / LOW_PARTS || free_inodes < inodes / LOW_PARTS)
		in->report.hits |= CONTROL_HIT_MAYBE_DISK;
}

uint64_t refused_tick(struct init *in)
{
	uint64_t free_bytes, free_inodes, ns;

	if (!memory_room(in, &free_bytes, &free_inodes))
		return TICK_MAX_NS;
	ns = least(free_bytes / WRITE_BYTES_PER_NS, free_inodes * INODE_NS) / 2;
	/* Nothing is written now, and it takes a while until something is at full speed. */
	if (free_bytes == last.room_bytes && free_inodes == last.room_inodes)
		ns = IDLE_TIMES * most(ns, TICK_MIN_NS);
	last.room_bytes = free_bytes;
	last.room_inodes = free_inodes;
	return most(least(ns, TICK_MAX_NS), TICK_MIN_NS);
}

void refused_end(struct init *in)
{
	refused_begin_look(in);
	refused_note_tasks(in, 0);
}

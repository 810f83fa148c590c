/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to count, and what the figures mean.
 *
 * Counting walks through everything that was written, so it is done as seldom as the limit allows.
 * A disk can only be filled so fast: the watch sleeps for as long as the remaining room lasts at
 * least, from 1 to 250 ms, and longer while the tree is idle. Then it asks the file system for its
 * free blocks and inodes, which costs next to nothing. It counts only if they have fallen by half
 * of the margin (the remaining room plus a sixteenth of the limit), or if 250 ms have passed in
 * which something ran: other programs may free what the run takes.
 *
 * It counts what has a name (dir_usage.c) and what was deleted but is still open (unlinked.c).
 * What can be neither seen nor ruled out shows as growth of the whole file system: unexplained
 * growth is charged to the tree as far as the tree has places for it. A directory that the guest
 * has locked, even against its owner, which we are, is such a place, without a bound: opening it
 * would change its mode, which the guest could see. Another program's growth can thus be charged to
 * a run that locks directories, but what lies in them is never forgotten.
 *
 * A helper process counts, in the same memory: a disk may be slow, and the guest can make much to
 * count. Init goes on with everything else. If the count takes more than 3 s (less while the disk
 * fills up), or the guest moves directories so that it cannot be finished, all growth of the file
 * system counts.
 */
#include "init/watch/disk.h"

#include <asm/statfs.h>
#include <asm/unistd_64.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>

#include "bare/clone.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/mount_ops.h"
#include "init/procfs.h"
#include "init/tree.h"
#include "init/watch/dir_usage.h"
#include "init/watch/figures.h"
#include "init/watch/idle.h"
#include "init/watch/unlinked.h"

#define WRITE_BYTES_PER_NS 2 /* one CPU, into the page cache */
#define WRITE_CPUS_MAX 4     /* more do not write faster to one file system */
#define INODE_NS 4000	     /* to make a file, on one CPU */
#define SLACK_MIN (16 * MIB) /* looking costs, too */
#define SLACK_INODES 4096u
#define NAME_BYTES 8192u /* dirty pages of a new name besides its data */
#define TICK_MIN_NS MS
#define TICK_IDLE_NS (50 * MS) /* while nothing runs */
#define TICK_MAX_NS (250 * MS)
#define COUNT_NS (250 * MS)	 /* at least so often ... */
#define COUNT_BLIND_NS (50 * MS) /* ... where the file system tells no inodes ... */
#define COUNT_SHARE 20		 /* ... unless counting would take more than 1/20 of the time */
#define FIND_NS (1000 * MS)	 /* look for unlinked files at least so often */
#define WAIT_NS MS		 /* for a short count */
#define CHECK_NS (2 * MS)	 /* how often a longer one is checked */
#define PATIENCE_NS (3000 * MS)
#define HURRY_NS (400 * MS) /* while the file system fills up */
#define HURRY_CPU_NS (100 * MS)
#define HURRY_MAX_NS (1500 * MS)
#define END_NS (20 * MS)
#define END_LONG_NS (400 * MS)
#define WAIT_FLAGS 0x40000001 /* WNOHANG, __WALL */

struct amount {
	uint64_t bytes, inodes;
};

/* Of the current or last count. */
static struct {
	struct init in;		 /* a copy: errors while counting are not init's */
	const struct init *live; /* the real one */
	struct amount used, total, outside, start, base, unlinked, private;
	int is_done, is_looked, is_blind, is_moving;
} work;

static struct {
	struct amount limit;
	struct amount used_start; /* of the file system, before the command ran */
	struct amount used;	  /* of the file system, at the last count */
	struct amount total;	  /* what the run is charged, by the last count */
	struct amount start;	  /* usage before the command ran */
	struct amount base;	  /* the part of it that is not charged: of a copy */
	struct amount outside;	  /* of the file system, not the run's */
	struct amount unlinked;	  /* what was found that has no name */
	struct amount private;	  /* what has one in directories that are kept */
	struct amount uncounted;  /* growth that there was no time to count at the end */
	struct amount margin;
	uint64_t counted_ns, cost_ns, found_ns, began_ns;
	uint64_t noted; /* by idle_note() */
	int is_known;	/* start is */
	int is_copy;	/* the workspace is one, or there is none */
	int has_inodes; /* the file system tells their number */
	int pid_fd;	/* of a count that is under way; 0 = none */
	int n_over;	/* counts in a row that were too high */
	int is_blind;	/* something could not be looked into */
	int is_moving;	/* the file system's use changed during the last count */
} disk;

static struct amount amount_above(struct amount a, struct amount b)
{
	return (struct amount){ above(a.bytes, b.bytes), above(a.inodes, b.inodes) };
}

static struct amount amount_sum(struct amount a, struct amount b)
{
	return (struct amount){ a.bytes + b.bytes, a.inodes + b.inodes };
}

static struct amount amount_least(struct amount a, struct amount b)
{
	return (struct amount){ least(a.bytes, b.bytes), least(a.inodes, b.inodes) };
}

static int is_same(struct amount a, struct amount b)
{
	return a.bytes == b.bytes && a.inodes == b.inodes;
}

/* Has the file system's use grown by more than one part in @n of the margin since the count? */
static int has_grown(struct amount used, unsigned n)
{
	struct amount grown = amount_above(used, disk.used);

	return grown.bytes > disk.margin.bytes / n || grown.inodes > disk.margin.inodes / n;
}

static int is_over(struct amount a)
{
	return a.bytes > disk.limit.bytes || a.inodes > disk.limit.inodes;
}

/* ---- counting ---- */

/* Does an earlier one lie on the same file system? */
static int is_seen(const struct init *in, int i)
{
	for (int k = 0; k < i; k++)
		if (in->watched[k].devs[1] == in->watched[i].devs[1])
			return 1;
	return 0;
}

/* Of all file systems that are written to. */
static long used_now(const struct init *in, struct amount *ret)
{
	struct statfs st;

	*ret = (struct amount){ 0, 0 };
	disk.has_inodes = 1;
	for (int i = 0; i < in->n_watched; i++) {
		long r;

		if (is_seen(in, i))
			continue;
		r = raw_syscall(__NR_fstatfs, in->watched[i].fd, RAW_ARG(&st), 0, 0, 0, 0);
		if (r < 0)
			return r;
		ret->bytes +=
			above((uint64_t)st.f_blocks, (uint64_t)st.f_bfree) * (uint64_t)st.f_bsize;
		ret->inodes += above((uint64_t)st.f_files, (uint64_t)st.f_ffree);
		disk.has_inodes &= st.f_files != 0;
	}
	return 0;
}

/* Usage when the run began: what there is, less the file system's growth since. */
static struct amount usage_before(struct amount named, struct amount used)
{
	if (disk.is_known)
		return disk.start;
	return amount_above(named, amount_above(used, disk.used_start));
}

/* Is it worth looking for unlinked files? Always where that decides, and now and then. */
static int must_find(struct amount named, struct amount unexplained, uint64_t now)
{
	struct amount charged = amount_above(named, work.base);

	return !is_over(charged) &&
	       (unexplained.bytes > disk.margin.bytes / 8 ||
		unexplained.inodes > disk.margin.inodes / 8 ||
		is_over(amount_sum(charged, unexplained)) || now - disk.found_ns > FIND_NS);
}

static void add_unlinked(struct amount named, struct amount before, int is_blind)
{
	struct amount unexplained = amount_above(amount_above(work.used, named), work.outside);
	struct unlinked found;

	work.unlinked = amount_least(disk.unlinked, unexplained);
	/* What is in a locked directory would be forgotten when the run is over. */
	work.is_looked = is_blind || must_find(named, unexplained, now_ns());
	if (!work.is_looked)
		return;
	unlinked_find(&work.in, work.live, &found);
	/* Dirty pages that do not belong to new names are data being copied up. */
	found.room += above(found.dirty, above(named.inodes, work.start.inodes) * NAME_BYTES);
	if (is_blind)
		found.room = found.room_inodes = UNLINKED_NO_BOUND;
	/* What a descriptor shows certainly exists, whatever the file system's count says. */
	work.unlinked.bytes = most(found.bytes, least(unexplained.bytes, found.bytes + found.room));
	work.unlinked.inodes =
		most(found.inodes, least(unexplained.inodes, found.inodes + found.room_inodes));
	/* All was seen, so what else is used is not the run's; what came during the walk may be. */
	if (found.room == 0 && found.room_inodes == 0)
		work.outside = amount_above(amount_least(before, work.used),
					    amount_sum(named, work.unlinked));
}

/* What has a name, in the workspace and in private directories. */
static long count_named(struct amount *ret_workspace, struct amount *ret_private, int *ret_is_blind)
{
	*ret_workspace = *ret_private = (struct amount){ 0, 0 };
	*ret_is_blind = 0;
	for (int i = 0; i < work.in.n_watched; i++) {
		const struct watched_dir *w = &work.in.watched[i];
		struct amount *ret = w->is_private ? ret_private : ret_workspace;
		struct dir_usage usage;
		long r = dir_usage_count(w->fd, &usage);

		if (r < 0)
			return r;
		*ret = amount_sum(*ret, (struct amount){ usage.bytes, usage.inodes });
		*ret_is_blind |= usage.is_blind;
	}
	return 0;
}

/* The content that a copy began with is not charged. Growth since then may all be in the copy. */
static struct amount base_of(struct amount workspace)
{
	if (!disk.is_copy)
		return (struct amount){ 0, 0 };
	if (disk.is_known)
		return disk.base;
	return amount_above(workspace, amount_above(work.used, disk.used_start));
}

static int count(void *arg)
{
	struct amount named, workspace, before;
	int is_blind;

	(void)arg;
	work.in.disk_pid = (int)raw_syscall(__NR_getpid, 0, 0, 0, 0, 0, 0);
	if (used_now(&work.in, &before) < 0 ||
	    count_named(&workspace, &work.private, &is_blind) < 0 ||
	    used_now(&work.in, &work.used) < 0)
		return 1;
	named = amount_sum(workspace, work.private);
	work.start = usage_before(named, work.used);
	work.outside = disk.is_known ? disk.outside : amount_above(disk.used_start, work.start);
	work.base = base_of(workspace);
	add_unlinked(named, before, is_blind);
	work.is_blind = is_blind;
	work.is_moving = !is_same(before, work.used);
	work.total = amount_above(amount_sum(named, work.unlinked), work.base);
	__atomic_store_n(&work.is_done, 1, __ATOMIC_RELEASE);
	return 0;
}

static int wait_for_count(uint64_t ns)
{
	struct poll_entry poll = { disk.pid_fd, WAIT_IN, 0 };
	const struct duration timeout = duration_of(ns);

	return poll_wait(&poll, 1, &timeout) > 0;
}

static void begin_count(struct init *in, uint64_t now)
{
	static char stack[65536] __attribute__((aligned(16)));
	static int pids[TREE_MAX];
	long pid;

	/* With a limit of memory that part of the watch keeps the notes. */
	disk.noted = in->limits.memory_bytes ? idle_noted() : idle_note(pids, tree_list(in, pids));
	disk.began_ns = now;
	work.in = *in;
	work.live = in;
	work.is_done = 0;
	pid = clone_call(VFORK_CLONE_PIDFD, stack, sizeof(stack), &disk.pid_fd, count, 0);
	if (pid < 0)
		disk.pid_fd = 0;
	else
		in->disk_pid = (int)pid;
}

/* ---- deciding ---- */

static void set_margin(void)
{
	disk.margin.bytes =
		above(disk.limit.bytes, disk.total.bytes) + most(disk.limit.bytes / 16, SLACK_MIN);
	disk.margin.inodes = above(disk.limit.inodes, disk.total.inodes) +
			     most(disk.limit.inodes / 16, SLACK_INODES);
}

/*
 * A directory that was moved while we walked may have been counted twice: the file system's own
 * growth has to agree, or a second count.
 */
static void check_total(struct init *in)
{
	struct amount grown = amount_above(disk.used, disk.used_start);

	if (!is_over(disk.total))
		disk.n_over = 0;
	else if (disk.n_over++ || is_over(amount_above(amount_sum(grown, disk.start), disk.base)))
		in->report.limit = CONTROL_LIMIT_DISK;
}

/* Without a count all growth of the file system is charged, whoever caused it. */
static void check_growth(struct init *in)
{
	struct amount used;

	if (used_now(in, &used) == 0 && has_grown(used, 1)) {
		disk.total = amount_sum(disk.total, amount_above(used, disk.used));
		in->report.limit = CONTROL_LIMIT_DISK;
	}
}

static void take_count(struct init *in, uint64_t now)
{
	disk.cost_ns = now - disk.began_ns;
	disk.counted_ns = now;
	if (__atomic_load_n(&work.is_done, __ATOMIC_ACQUIRE)) {
		disk.total = work.total;
		disk.used = work.used;
		disk.start = work.start;
		disk.base = work.base;
		disk.outside = work.outside;
		disk.unlinked = work.unlinked;
		disk.private = work.private;
		disk.is_blind = work.is_blind;
		disk.is_moving = work.is_moving;
		disk.is_known = 1;
		if (work.is_looked)
			disk.found_ns = now;
		check_total(in);
	} else {
		check_growth(in);
	}
	set_margin();
}

static void reap_count(struct init *in)
{
	if (disk.pid_fd) {
		close_fd(disk.pid_fd);
		/* Otherwise it would be taken for a process of the tree. */
		raw_syscall(__NR_wait4, in->disk_pid, 0, WAIT_FLAGS, 0, 0, 0);
	}
	disk.pid_fd = in->disk_pid = 0;
}

/* 1 = there is a result. */
static int look_after_count(struct init *in, uint64_t now, uint64_t wait_ns, uint64_t patience_ns)
{
	if (disk.pid_fd && !wait_for_count(wait_ns)) {
		if (now - disk.began_ns <= patience_ns)
			return 0;
		raw_syscall(__NR_kill, in->disk_pid, SIGKILL_NR, 0, 0, 0, 0);
		/* No other count may use the same memory until it is gone. */
		if (!wait_for_count(WAIT_NS)) {
			check_growth(in);
			return 0;
		}
	}
	reap_count(in);
	take_count(in, now_ns());
	return 1;
}

/* Could the tree be over its limit, by what is cheap to know? */
static int is_due(uint64_t now, struct amount used)
{
	uint64_t since_ns = now - disk.counted_ns,
		 often = most(COUNT_NS, disk.cost_ns * COUNT_SHARE);

	if (!disk.is_known || disk.n_over)
		return 1;
	/* Other programs fill it, too: do not count all the time because of them. */
	if (has_grown(used, 1) || (since_ns > disk.cost_ns && has_grown(used, 2)))
		return 1;
	if (!disk.has_inodes)
		often = most(COUNT_BLIND_NS, disk.cost_ns * COUNT_SHARE);
	return since_ns >= often && !idle_since(disk.noted);
}

static uint64_t interval(const struct init *in)
{
	uint64_t cpus = least(in->n_cpus, WRITE_CPUS_MAX);
	uint64_t bytes_ns = disk.margin.bytes / (WRITE_BYTES_PER_NS * cpus) / 2;
	uint64_t inodes_ns = disk.margin.inodes * INODE_NS / cpus / 2;
	uint64_t ns = least(least(bytes_ns, inodes_ns), TICK_MAX_NS);

	if (!disk.has_inodes)
		ns = least(ns, COUNT_BLIND_NS);
	/* Nothing writes: it takes a while until something does at full speed. */
	if (idle_since(disk.noted))
		return most(least(4 * ns, TICK_MAX_NS), TICK_IDLE_NS);
	return most(ns, TICK_MIN_NS);
}

void disk_start(struct init *in, uint64_t now)
{
	const struct control_limits *l = &in->limits;
	char text[64];
	long r;

	disk.limit = (struct amount){ l->disk_bytes, l->disk_inodes };
	disk.is_copy = in->upper_fd < 0;
	r = used_now(in, &disk.used_start);
	if (r < 0) {
		in->watch_error = r;
		return;
	}
	in->has_io = proc_read(in->proc_fd, in->own_pid, "io", text, sizeof(text)) > 0;
	disk.used = disk.used_start;
	/* What a copy began with has to be counted. */
	disk.is_known = l->usage_bytes != CONTROL_UNKNOWN && !(disk.is_copy && in->plan->workspace);
	if (disk.is_known) {
		disk.start = disk.total = (struct amount){ l->usage_bytes, l->usage_inodes };
		disk.outside = amount_above(disk.used_start, disk.start);
		if (!in->plan->workspace)
			disk.private = disk.start;
	}
	disk.counted_ns = disk.found_ns = now;
	set_margin();
	/* A count will tell whether that is still true. */
	disk.n_over = is_over(disk.total);
}

int disk_is_over(void)
{
	return disk.n_over > 0;
}

/* Less while the file system fills up, least if the count had CPU time and was not just waiting for
 * its turn. */
static uint64_t patience(const struct init *in, struct amount used)
{
	if (!has_grown(used, 1) || !in->disk_pid)
		return PATIENCE_NS;
	return idle_clock(in->disk_pid) > HURRY_CPU_NS ? HURRY_NS : HURRY_MAX_NS;
}

uint64_t disk_tick(struct init *in, uint64_t now)
{
	struct amount used;
	long r = used_now(in, &used);

	if (r < 0) {
		in->watch_error = r;
		return TICK_MAX_NS;
	}
	if (!disk.pid_fd && is_due(now, used))
		begin_count(in, now);
	else if (!disk.pid_fd)
		return interval(in);
	if (!look_after_count(in, now, disk.began_ns == now ? WAIT_NS : 0, patience(in, used)))
		return CHECK_NS;
	return disk.n_over ? TICK_MIN_NS : interval(in);
}

/* Ends a count under way and takes its result if there is one. */
static void stop_count(struct init *in)
{
	if (!disk.pid_fd)
		return;
	raw_syscall(__NR_kill, in->disk_pid, SIGKILL_NR, 0, 0, 0, 0);
	if (!wait_for_count(END_LONG_NS))
		return;
	reap_count(in);
	if (__atomic_load_n(&work.is_done, __ATOMIC_ACQUIRE))
		take_count(in, now_ns());
}

/*
 * The last count; longer where it decides, or nothing is known yet. What there is no time for is
 * reported as growth, whoever caused it: otherwise many short runs could fill a disk.
 */
static void count_end(struct init *in)
{
	struct amount used, grown;
	int decides;

	stop_count(in);
	if (used_now(in, &used) < 0)
		return;
	if (disk.is_known && !disk.is_moving && is_same(used, disk.used))
		return;
	grown = amount_above(used, disk.used);
	decides = !disk.is_known || is_over(amount_sum(disk.total, grown));
	if (!disk.pid_fd) {
		begin_count(in, now_ns());
		if (disk.pid_fd)
			wait_for_count(decides ? END_LONG_NS : END_NS);
		stop_count(in);
		if (__atomic_load_n(&work.is_done, __ATOMIC_ACQUIRE))
			return;
	}
	disk.uncounted = grown;
}

/* The tree is gone. Reports what it left behind. */
void disk_end(struct init *in)
{
	uint32_t limit = in->report.limit; /* what ended it, if anything did */

	if (!in->n_watched)
		return;
	count_end(in);
	in->report.limit = limit;
	if (is_over(amount_sum(disk.total, disk.uncounted)))
		in->report.hits |= CONTROL_HIT_WORKSPACE;
	if (disk.is_blind && disk.uncounted.bytes == 0 && disk.uncounted.inodes == 0)
		in->report.hits |= CONTROL_HIT_LOCKED;
	in->report.usage_bytes = in->report.usage_inodes = CONTROL_UNKNOWN;
	if (!disk.is_known)
		return;
	in->report.usage_bytes = disk.total.bytes + disk.base.bytes + disk.uncounted.bytes;
	in->report.usage_inodes = disk.total.inodes + disk.base.inodes + disk.uncounted.inodes;
	in->report.private_bytes = disk.private.bytes;
	in->report.private_inodes = disk.private.inodes;
	in->report.unnamed_bytes = disk.unlinked.bytes + disk.uncounted.bytes;
	in->report.unnamed_inodes = disk.unlinked.inodes + disk.uncounted.inodes;
}

uint64_t disk_bytes(void)
{
	return disk.total.bytes + disk.uncounted.bytes;
}

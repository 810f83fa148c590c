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
 * The run is charged what is certainly its own: what has a name (dir_usage.c), what was deleted but
 * is still open or mapped (unlinked.c), and what lay in locked directories before (the supervisor
 * could look into them). Growth of the file system proves nothing, since others write to it, too.
 *
 * So a guest can hide data: in a directory that it locks against its owner, which we are; behind
 * descriptors under way in a socket or of a process that cannot be looked at; in a file of which
 * only a part is mapped. While there is such a place, growth of the file system beyond four times
 * the limit ends the run, and the report says that this may have been another program. Whenever
 * everything could be seen, twice in a row, what else is used is known to belong to others.
 *
 * A helper process counts, in the same memory: a disk may be slow, and the guest can make much to
 * count. Init goes on with everything else. If the count takes very long, or the guest moves
 * directories so that it cannot be finished, the file system's growth decides as well.
 */
#include "init/watch/disk.h"

#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>

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
#define PATIENCE_MAX_NS (60000 * MS) /* after some that took too long */
#define LATE_CPU_NS (200 * MS)	     /* of a count that is not done by then */
#define GROWN_TIMES 4 /* the limit: growth that ends a run which may hide something */
#define END_NS (20 * MS)
#define END_LONG_NS (400 * MS)
#define REALTIME_CLOCK 0
#define WAIT_FLAGS 0x40000001 /* WNOHANG, __WALL */

struct amount {
	uint64_t bytes, inodes;
};

/* What one count found, or the last one that was finished. */
struct figures {
	struct amount used;	/* of the file system */
	struct amount total;	/* what the run is charged */
	struct amount base;	/* what is not: content that a copy began with */
	struct amount seen;	/* what has a name, and what is known of locked directories */
	struct amount unlinked; /* what has none */
	struct amount private;	/* what has a name in directories that are kept */
	struct amount outside;	/* of the file system, not the run's */
	struct amount clear;	/* the same by the last look alone, if that saw everything */
	struct amount low;	/* at most so much of it is left: others may free what they have */
	struct amount rest;	/* the same by the last look alone */
	int is_blind;		/* a directory could not be looked into */
	int is_hidden;		/* there are places where more may be */
	int is_moving;		/* the file system's use changed during the count */
};

static struct {
	struct init in;		 /* a copy: errors while counting are not init's */
	const struct init *live; /* the real one */
	struct figures now;
	int is_done, is_looked;
} work;

static struct {
	struct amount limit;
	struct amount used_start; /* of the file system, before the command ran */
	struct amount locked;	  /* in directories that nobody could enter, then */
	struct amount uncounted;  /* growth that there was no time to count at the end */
	struct amount margin;
	struct amount lowest; /* use of the file system since the last count */
	struct figures last;
	struct dir_time start; /* when the command was started */
	uint64_t counted_ns, cost_ns, found_ns, began_ns, patience_ns;
	uint64_t noted; /* by idle_note() */
	int is_known;	/* what was there at the start is */
	int is_counted; /* at least once */
	int is_ended;	/* the tree has */
	int is_copy;	/* the workspace is one, or there is none */
	int has_inodes; /* the file system tells their number */
	int pid_fd;	/* of a count that is under way; 0 = none */
	int n_over;	/* counts in a row that were too high */
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

static struct amount amount_most(struct amount a, struct amount b)
{
	return (struct amount){ most(a.bytes, b.bytes), most(a.inodes, b.inodes) };
}

static int is_same(struct amount a, struct amount b)
{
	return a.bytes == b.bytes && a.inodes == b.inodes;
}

/* Has the file system's use grown by more than one part in @n of the margin since the count, or
 * since others freed something after it? */
static int has_grown(struct amount used, unsigned n)
{
	struct amount grown = amount_above(used, disk.lowest);

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

struct named {
	struct amount workspace, private;
	struct amount old_workspace, old; /* the part that is unchanged since the start */
	int is_blind;
};

static struct amount all_named(const struct named *n)
{
	return amount_sum(n->workspace, n->private);
}

/* What has a name, in the workspace and in private directories. */
static long count_named(struct named *ret)
{
	*ret = (struct named){ 0 };
	for (int i = 0; i < work.in.n_watched; i++) {
		const struct watched_dir *w = &work.in.watched[i];
		struct amount *to = w->is_private ? &ret->private : &ret->workspace, old;
		struct dir_usage usage;
		long r = dir_usage_count(w->fd, &disk.start, &usage);

		if (r < 0)
			return r;
		*to = amount_sum(*to, (struct amount){ usage.bytes, usage.inodes });
		old = (struct amount){ usage.old_bytes, usage.old_inodes };
		ret->old = amount_sum(ret->old, old);
		if (!w->is_private)
			ret->old_workspace = amount_sum(ret->old_workspace, old);
		ret->is_blind |= usage.is_blind;
	}
	return 0;
}

/*
 * The first count also says what was there before: what has not changed since the start, by the
 * kernel's own times. A copy's content is not charged; where files of it were changed meanwhile,
 * the file system's growth says how much of them is new.
 */
static void begin_with(const struct named *n, struct figures *f)
{
	struct amount grown = amount_above(f->used, disk.used_start);

	f->base = (struct amount){ 0, 0 };
	if (disk.is_copy)
		f->base = amount_most(n->old_workspace, amount_above(n->workspace, grown));
	f->outside = f->low = amount_above(disk.used_start, amount_sum(n->old, disk.locked));
	f->clear = (struct amount){ 0, 0 };
	f->rest = f->low;
}

/* Is it worth looking for unlinked files? Always where that decides, and now and then. */
static int must_find(const struct figures *f, struct amount unexplained, uint64_t now)
{
	struct amount charged = amount_above(f->seen, f->base);

	return !is_over(charged) &&
	       (unexplained.bytes > disk.margin.bytes / 8 ||
		unexplained.inodes > disk.margin.inodes / 8 ||
		is_over(amount_sum(charged, unexplained)) || now - disk.found_ns > FIND_NS);
}

/* All was seen, so what else is used is not the run's. But what moves about can be missed once:
 * only what two looks in a row agree on is taken for others'. */
static void note_outside(struct figures *f, struct amount before)
{
	struct amount clear =
		amount_above(amount_least(before, f->used), amount_sum(f->seen, f->unlinked));

	f->outside = amount_least(clear, amount_most(f->outside, amount_least(f->clear, clear)));
	f->clear = clear;
	f->low = f->rest = f->outside;
}

/* What is certainly the run's cannot be others'. So much is sure although something may be hidden;
 * without it, what others free would make room for what is only mapped. @last: by the look before.
 */
static void note_freed(struct figures *f, struct amount before, struct amount described,
		       struct amount last)
{
	f->rest = amount_above(amount_least(before, f->used), amount_sum(f->seen, described));
	f->low = amount_least(f->low, amount_most(last, f->rest));
}

static void add_unlinked(struct figures *f, struct amount before)
{
	struct amount unexplained, described = { 0, 0 }, last = f->rest;
	struct unlinked found;

	note_freed(f, before, described, last);
	unexplained = amount_above(f->used, amount_sum(f->seen, f->low));
	if (disk.is_ended)
		f->unlinked = (struct amount){ 0, 0 };
	else
		f->unlinked = amount_least(f->unlinked, unexplained);
	work.is_looked = !disk.is_ended && (f->is_blind || must_find(f, unexplained, now_ns()));
	if (!work.is_looked)
		return;
	unlinked_find(&work.in, work.live, &found);
	/* What a descriptor shows certainly exists, whatever the file system's count says. Pages
	 * that are only mapped may be holes. */
	described = (struct amount){ found.bytes, found.inodes };
	note_freed(f, before, described, last);
	unexplained = amount_above(f->used, amount_sum(f->seen, amount_sum(described, f->low)));
	f->unlinked.bytes = found.bytes + least(found.mapped_bytes, unexplained.bytes);
	f->unlinked.inodes = found.inodes + found.mapped_inodes;
	f->is_hidden = f->is_blind || found.is_hidden;
	if (f->is_hidden)
		f->clear = (struct amount){ 0, 0 };
	else
		note_outside(f, before);
}

static int count(void *arg)
{
	struct figures *f = &work.now;
	struct amount before;
	struct named named;

	(void)arg;
	work.in.disk_pid = (int)raw_syscall(__NR_getpid, 0, 0, 0, 0, 0, 0);
	*f = disk.last;
	if (used_now(&work.in, &before) < 0 || count_named(&named) < 0 ||
	    used_now(&work.in, &f->used) < 0)
		return 1;
	if (!disk.is_counted)
		begin_with(&named, f);
	f->private = named.private;
	f->is_blind = named.is_blind;
	f->is_moving = !is_same(before, f->used);
	f->seen = all_named(&named);
	if (f->is_blind)
		f->seen = amount_sum(f->seen, disk.locked);
	add_unlinked(f, before);
	f->total = amount_above(amount_sum(f->seen, f->unlinked), f->base);
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
	pid = tree_make_helper(in, stack, sizeof(stack), &disk.pid_fd, count, &in->disk_pid);
	if (pid < 0)
		disk.pid_fd = 0;
}

/* ---- deciding ---- */

static void set_margin(void)
{
	const struct amount *total = &disk.last.total;

	disk.lowest = disk.last.used;
	disk.margin.bytes =
		above(disk.limit.bytes, total->bytes) + most(disk.limit.bytes / 16, SLACK_MIN);
	disk.margin.inodes = above(disk.limit.inodes, total->inodes) +
			     most(disk.limit.inodes / 16, SLACK_INODES);
}

/* The file system's growth that nothing explains, of which the run may have a part. */
static int is_far_over(struct amount used)
{
	const struct figures *f = &disk.last;
	struct amount explained = amount_sum(amount_sum(f->seen, f->unlinked), f->outside);
	struct amount grown = amount_above(used, explained);

	return grown.bytes / GROWN_TIMES > disk.limit.bytes ||
	       grown.inodes / GROWN_TIMES > disk.limit.inodes;
}

static void end_for_growth(struct init *in)
{
	in->report.limit = CONTROL_LIMIT_DISK;
	in->report.hits |= CONTROL_HIT_GROWN;
}

/* A directory that was moved while we walked may have been counted twice, so a second count has to
 * agree. */
static void check_total(struct init *in)
{
	if (!is_over(disk.last.total))
		disk.n_over = 0;
	else if (disk.n_over++)
		in->report.limit = CONTROL_LIMIT_DISK;
	if (!in->report.limit && disk.last.is_hidden && is_far_over(disk.last.used))
		end_for_growth(in);
}

/* What was written is not known: there is no count, or not in time. */
static void check_growth(struct init *in)
{
	struct amount used;

	if (used_now(in, &used) == 0 && is_far_over(used))
		end_for_growth(in);
}

static void take_count(struct init *in, uint64_t now)
{
	disk.cost_ns = now - disk.began_ns;
	disk.counted_ns = now;
	if (__atomic_load_n(&work.is_done, __ATOMIC_ACQUIRE)) {
		disk.last = work.now;
		disk.is_known = disk.is_counted = 1;
		disk.patience_ns = PATIENCE_NS;
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

/* Should it be done by now? On a busy machine it may only be waiting for its turn. */
static int is_late(const struct init *in, uint64_t now)
{
	return disk.last.is_hidden || now - disk.began_ns > PATIENCE_NS ||
	       idle_clock(in->disk_pid) > LATE_CPU_NS;
}

/* 1 = there is a result. */
static int look_after_count(struct init *in, uint64_t now, uint64_t wait_ns)
{
	if (disk.pid_fd && !wait_for_count(wait_ns)) {
		if (is_late(in, now))
			check_growth(in);
		if (now - disk.began_ns <= disk.patience_ns)
			return 0;
		raw_syscall(__NR_kill, in->disk_pid, SIGKILL_NR, 0, 0, 0, 0);
		/* No other count may use the same memory until it is gone. */
		if (!wait_for_count(WAIT_NS))
			return 0;
		disk.patience_ns = least(2 * disk.patience_ns, PATIENCE_MAX_NS);
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
	struct figures *f = &disk.last;
	long r;

	disk.limit = (struct amount){ l->disk_bytes, l->disk_inodes };
	disk.locked = (struct amount){ l->locked_bytes, l->locked_inodes };
	disk.is_copy = in->upper_fd < 0;
	disk.patience_ns = PATIENCE_NS;
	r = raw2(__NR_clock_gettime, REALTIME_CLOCK, &disk.start);
	if (r == 0)
		r = used_now(in, &disk.used_start);
	if (r < 0) {
		in->watch_error = r;
		return;
	}
	f->used = f->outside = f->low = f->rest = disk.used_start;
	/* What a copy began with has to be counted. */
	disk.is_known = l->usage_bytes != CONTROL_UNKNOWN && !(disk.is_copy && in->plan->workspace);
	if (disk.is_known) {
		f->seen = f->total = (struct amount){ l->usage_bytes, l->usage_inodes };
		f->outside = f->low = f->rest = amount_above(disk.used_start, f->seen);
		if (!in->plan->workspace)
			f->private = f->seen;
	}
	disk.counted_ns = disk.found_ns = now;
	set_margin();
	/* A count will tell whether that is still true. */
	disk.n_over = is_over(f->total);
}

int disk_is_over(void)
{
	return disk.n_over > 0;
}

uint64_t disk_tick(struct init *in, uint64_t now)
{
	struct amount used;
	long r = used_now(in, &used);

	if (r < 0) {
		in->watch_error = r;
		return TICK_MAX_NS;
	}
	disk.lowest = amount_least(disk.lowest, used);
	if (!disk.pid_fd && is_due(now, used))
		begin_count(in, now);
	else if (!disk.pid_fd)
		return interval(in);
	if (!look_after_count(in, now, disk.began_ns == now ? WAIT_NS : 0))
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
 * reported as growth, whatever caused it: the next run counts all the sooner, and corrects it.
 */
static void count_end(struct init *in)
{
	struct amount used, grown;
	int decides;

	stop_count(in);
	disk.is_ended = 1;
	if (used_now(in, &used) < 0)
		return;
	if (disk.is_counted && !disk.last.is_moving && is_same(used, disk.last.used))
		return;
	grown = amount_above(used, disk.last.used);
	decides = !disk.is_known || is_over(amount_sum(disk.last.total, grown));
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
	const struct figures *f = &disk.last;
	struct amount left;

	if (!in->n_watched)
		return;
	count_end(in);
	in->report.limit = limit;
	if (is_over(f->total))
		in->report.hits |= CONTROL_HIT_WORKSPACE;
	else if (disk.uncounted.bytes / GROWN_TIMES > disk.limit.bytes ||
		 disk.uncounted.inodes / GROWN_TIMES > disk.limit.inodes)
		in->report.hits |= CONTROL_HIT_WORKSPACE | CONTROL_HIT_GROWN;
	if (f->is_blind)
		in->report.hits |= CONTROL_HIT_LOCKED;
	in->report.usage_bytes = in->report.usage_inodes = CONTROL_UNKNOWN;
	if (!disk.is_known)
		return;
	left = amount_sum(f->seen, disk.uncounted);
	in->report.usage_bytes = left.bytes;
	in->report.usage_inodes = left.inodes;
	in->report.private_bytes = f->private.bytes;
	in->report.private_inodes = f->private.inodes;
	in->report.unnamed_bytes = disk.uncounted.bytes;
	in->report.unnamed_inodes = disk.uncounted.inodes;
}

uint64_t disk_bytes(void)
{
	return disk.last.total.bytes + disk.uncounted.bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to look, and what to do about what is seen.
 *
 * Looking costs time, so the watch looks as seldom as the limit allows. Memory can only be filled
 * so fast: the watch takes the room that is left plus a quarter of what the limit may be passed by
 * (a quarter of the limit, at least 64 MiB), and sleeps for as long as all CPUs would need to fill
 * it, from 1 to 50 ms. Then it asks for what costs next to nothing: the machine's free memory, and
 * the CPU time that the tree has used. It counts the tree only if free memory has fallen by half of
 * that margin, if the tree had enough CPU time to fill half of it, if processes were made while
 * little room is left, or if 20 ms have passed (more if counting is slow, 100 ms at most). An idle
 * tree (idle.h) is not counted again.
 *
 * Besides, it looks at the tree for the receipt: 4 ms after the start, then at intervals that
 * double up to 1 s, but every 16 ms while the tree has more than half of its tasks.
 */
#include "init/watch/watch.h"

#include <asm/unistd.h>
#include <linux/sched/types.h>
#include <linux/sysinfo.h>

#include "bare/raw.h"
#include "bare/wait.h"
#include "init/procfs.h"
#include "init/tree.h"
#include "init/watch/cpu.h"
#include "init/watch/disk.h"
#include "init/watch/exact_count.h"
#include "init/watch/figures.h"
#include "init/watch/idle.h"
#include "init/watch/memory.h"
#include "init/watch/refused.h"

#define FILL_BYTES_PER_NS 6  /* one CPU, with huge pages */
#define FILL_CPUS_MAX 8	     /* more do not write faster to one machine's memory */
#define WRITE_BYTES_PER_NS 4 /* by code that also computes what it writes */
#define GROWN_NS (3 * MS)
#define TICK_MIN_NS MS
#define TICK_MAX_NS (50 * MS)
#define COUNT_NS (20 * MS) /* at least so often, under a limit of memory ... */
#define COUNT_SHARE 50	   /* ... unless counting would take more than one part in so many ... */
#define COUNT_MAX_NS (100 * MS) /* ... but never less often */
#define FIRST_LOOK_NS (4 * MS)
#define LOOK_MAX_NS (1000 * MS)
#define SLACK_MIN (64 * MIB)
#define FLOOD_NS (4 * MS) /* between two looks for a flood of tasks */
#define SLICE_NS (MS / 10)
#define BLIND_MAX 5
#define NEVER (~(uint64_t)0)

static struct {
	uint64_t look_ns, look_at_ns; /* figures for the receipt: interval and next time */
	uint64_t memory_at_ns, cpu_at_ns, disk_at_ns, room_at_ns, flood_at_ns;
	uint64_t tasks_then; /* the machine's, when the tree was last counted for their sake */
	uint64_t counted_at_ns, count_cost_ns;
	uint64_t free_then;  /* the machine's free memory at the last count */
	uint64_t margin;     /* what may be added before the limit is passed by too much */
	uint64_t quick_peak; /* highest quick count that was looked at closely */
	int is_tight;	     /* so little memory is free that it says nothing */
	uint64_t noted;	     /* by idle_note(), at the last count */
	uint64_t newest;     /* pid of the newest process, then */
	int n_blind;	     /* looks in a row that saw nothing */
} watch;

/* A quarter of what the limit may be passed by: the rest is for the time it takes to notice. */
static uint64_t slack(const struct init *in)
{
	uint64_t quarter = in->limits.memory_bytes / 4;

	return (quarter > SLACK_MIN ? quarter : SLACK_MIN) / 4;
}

static void note_tasks(struct init *in, const struct memory *m)
{
	if (m->tasks > in->report.procs)
		in->report.procs = m->tasks;
	if (in->limits.procs && m->tasks >= in->limits.procs)
		in->report.hits |= CONTROL_HIT_PROCS;
	refused_note_tasks(in, m->tasks);
	if (in->limits.end_at_procs && m->tasks > in->limits.end_at_procs)
		in->report.limit = CONTROL_LIMIT_PROCS;
}

static uint64_t machine_tasks(void)
{
	struct sysinfo info;

	memset(&info, 0, sizeof(info));
	raw_syscall(__NR_sysinfo, RAW_ARG(&info), 0, 0, 0, 0, 0);
	return info.procs;
}

static void note_disk(struct init *in)
{
	uint64_t bytes = memory_disk(in) + disk_bytes();

	if (bytes > in->report.disk_bytes)
		in->report.disk_bytes = bytes;
}

/* Nothing in the quick count is shared, guessed or an upper bound. */
static int is_sure(const struct memory *m)
{
	return m->processes <= 1 && m->mapped == 0 && m->shmem == 0;
}

/* Returns an upper bound of what is used. Counts exactly at a new peak and above the limit. */
static uint64_t note_memory(struct init *in, struct memory *m)
{
	uint64_t total = memory_total(m), limit = in->limits.memory_bytes;
	int is_peak = total > watch.quick_peak + watch.quick_peak / 16 + MIB;
	/* The exact count needs a task, and must not take the command's last one for a figure.
	 * A control group knows the peak itself. */
	int has_room = in->cgroup_fds[0] < 0 &&
		       (!in->limits.procs || m->tasks + 2 < in->limits.procs);

	/* An exact count takes time, in which a run that is over its limit goes on. */
	if (limit && memory_least(m) > limit) {
		total = memory_least(m);
	} else if (!is_sure(m)) {
		if (!(is_peak && has_room) && !(limit && total > limit))
			return total;
		if (total > watch.quick_peak)
			watch.quick_peak = total;
		switch (exact_count(in, m)) {
		case EXACT_DONE:
			total = memory_total(m);
			break;
		case EXACT_LATE: /* the upper bound decides, but is no figure for the receipt */
			if (!limit || total <= limit)
				return total;
			break;
		case EXACT_INTERRUPTED:
			return limit && total > limit ? limit : total;
		}
	}
	if (total > in->report.memory_bytes)
		in->report.memory_bytes = total;
	return total;
}

static void count_tree(struct init *in, uint64_t now)
{
	/* CPU time, not elapsed time: on a busy machine counting takes longer but costs no more. */
	uint64_t began_ns = idle_clock(0), total_ram, used, limit = in->limits.memory_bytes;
	struct memory m;

	refused_begin_look(in);
	memory_quick(in, &m);
	watch.noted = m.noted;
	note_tasks(in, &m);
	used = note_memory(in, &m);
	note_disk(in);
	watch.counted_at_ns = now;
	watch.count_cost_ns = idle_clock(0) - began_ns;
	watch.free_then = memory_free(&total_ram);
	watch.is_tight = watch.free_then < total_ram / 32 + 4 * slack(in);
	if (limit && used > limit)
		in->report.limit = CONTROL_LIMIT_MEMORY;
	else if (limit)
		watch.margin = limit - used + slack(in);
}

/*
 * Free memory may stay the same while the tree grows, because other programs free some. But filling
 * memory takes CPU time, and only a new process can have used CPU time that was not seen. (Without
 * a pid namespace other programs make processes all the time, so that says nothing.)
 */
static int may_have_grown(struct init *in, uint64_t now)
{
	if (now - watch.counted_at_ns < GROWN_NS)
		return 0;
	if (idle_used_ns() * WRITE_BYTES_PER_NS > watch.margin / 2)
		return 1;
	return in->plan->level == PLAN_LEVEL_NAMESPACES && watch.margin < 4 * slack(in) &&
	       proc_newest(in->proc_fd) != watch.newest;
}

static void watch_memory(struct init *in, uint64_t now)
{
	uint64_t speed = (uint64_t)FILL_BYTES_PER_NS * least(in->n_cpus, FILL_CPUS_MAX);
	uint64_t often = watch.count_cost_ns * COUNT_SHARE, ram, free_now = memory_free(&ram);

	often = least(often < COUNT_NS ? COUNT_NS : often, COUNT_MAX_NS);
	if (free_now + watch.margin / 2 < watch.free_then ||
	    ((watch.is_tight || now - watch.counted_at_ns >= often) && !idle_since(watch.noted)) ||
	    may_have_grown(in, now)) {
		watch.newest = proc_newest(in->proc_fd);
		count_tree(in, now);
	}
	watch.memory_at_ns = watch.margin / speed;
	if (watch.memory_at_ns < TICK_MIN_NS)
		watch.memory_at_ns = TICK_MIN_NS;
	watch.memory_at_ns = now_ns() + least(watch.memory_at_ns, TICK_MAX_NS);
}

/* For the receipt: often at first, when most happens, and seldom later. */
static void look_around(struct init *in, uint64_t now)
{
	if (now - watch.counted_at_ns >= watch.look_ns / 2)
		count_tree(in, now);
	watch.look_ns = least(2 * watch.look_ns, LOOK_MAX_NS);
	/* A tree that gets near its number of tasks is about to be refused one. */
	if (in->limits.procs && in->report.procs * 2 > in->limits.procs)
		watch.look_ns = least(watch.look_ns, FIRST_LOOK_NS * 4);
	watch.look_at_ns = now + watch.look_ns;
}

/* CPUs that the tree can use. It can widen the caller's affinity mask, so that does not count. */
static uint64_t count_cpus(void)
{
	uint64_t mask[16] = { 0 }, all[16], n_cpus = 0;
	long n = raw_syscall(__NR_sched_getaffinity, 0, sizeof(mask), RAW_ARG(mask), 0, 0, 0), m;

	memset(all, 0xff, sizeof(all));
	raw_syscall(__NR_sched_setaffinity, 0, sizeof(all), RAW_ARG(all), 0, 0, 0);
	m = raw_syscall(__NR_sched_getaffinity, 0, sizeof(all), RAW_ARG(all), 0, 0, 0);
	for (long i = 0; i < m * 8; i++)
		n_cpus += all[i / 64] >> (i % 64) & 1;
	if (n > 0)
		raw_syscall(__NR_sched_setaffinity, 0, n, RAW_ARG(mask), 0, 0, 0);
	return n_cpus ? n_cpus : 1;
}

/*
 * Our turns are short and must come soon. Since Linux 6.12 a short slice means an early deadline;
 * other kernels ignore it.
 */
static void ask_for_short_slices(void)
{
	struct sched_attr attr = { .size = SCHED_ATTR_SIZE_VER0, .sched_runtime = SLICE_NS };

	raw_syscall(__NR_sched_setattr, 0, RAW_ARG(&attr), 0, 0, 0, 0);
}

void watch_prepare(struct init *in)
{
	memory_start(in);
	if (in->n_watched)
		disk_start(in, now_ns());
	if (in->watch_error)
		fail(in, STAGE_LIMITS, STEP_LIMITS_BASELINE, in->watch_error);
}

void watch_start(struct init *in)
{
	uint64_t now = now_ns();

	if (in->limits.memory_bytes || in->limits.cpu_milli || in->limits.cpu_time_ns ||
	    in->n_watched)
		in->n_cpus = count_cpus();
	in->report.procs = 1;
	if (in->limits.memory_bytes || in->n_watched)
		ask_for_short_slices();
	cpu_start();
	refused_start(in);
	watch.room_at_ns = now + FIRST_LOOK_NS;
	watch.look_ns = FIRST_LOOK_NS;
	watch.look_at_ns = now + FIRST_LOOK_NS;
	watch.flood_at_ns = NEVER;
	if (in->limits.end_at_procs && in->plan->outer_uid == 0) {
		watch.flood_at_ns = now + FLOOD_NS;
		watch.tasks_then = machine_tasks();
		ask_for_short_slices();
	}
	watch.memory_at_ns = in->limits.memory_bytes ? now + TICK_MIN_NS : ~(uint64_t)0;
	watch.cpu_at_ns = in->limits.cpu_milli || in->limits.cpu_time_ns ? now + 4 * MS
									 : ~(uint64_t)0;
	watch.disk_at_ns = in->n_watched ? now + FIRST_LOOK_NS : ~(uint64_t)0;
	/* There is too much already: check at once. */
	if (in->n_watched && disk_is_over())
		watch.disk_at_ns = now;
}

/*
 * A limit that cannot be checked is not enforced, so the run must end. A few failures are allowed:
 * the machine may be short of files or memory for a moment.
 */
static void note_blindness(struct init *in)
{
	if (!in->limits.memory_bytes && !in->limits.cpu_milli && !in->limits.cpu_time_ns &&
	    !in->limits.end_at_procs)
		return;
	if (in->proc_error && ++watch.n_blind > BLIND_MAX)
		in->watch_error = in->proc_error;
	else if (!in->proc_error && in->proc_seen)
		watch.n_blind = 0;
}

/*
 * The kernel lets uid 0 make any number of tasks. So a flood has to be seen before it fills the
 * machine's table, and before a count that takes as long as there are tasks: orphans, which are our
 * children, at every turn, and whatever makes the machine's tasks more every few milliseconds.
 */
static void watch_flood(struct init *in, uint64_t now)
{
	uint64_t tasks, limit = in->limits.end_at_procs;

	if (tree_has_more_children(in, limit)) {
		in->report.limit = CONTROL_LIMIT_PROCS;
		return;
	}
	if (now < watch.flood_at_ns)
		return;
	tasks = machine_tasks();
	if (tasks > watch.tasks_then + limit / 2) {
		count_tree(in, now);
		watch.tasks_then = tasks;
	}
	watch.tasks_then = least(watch.tasks_then, tasks);
	watch.flood_at_ns = now + FLOOD_NS;
}

uint64_t watch_tick(struct init *in)
{
	uint64_t now = now_ns(), next;

	in->proc_error = in->proc_seen = 0;
	if (watch.flood_at_ns != NEVER)
		watch_flood(in, now);
	if (in->report.limit == CONTROL_LIMIT_PROCS)
		return 0;
	if (now >= watch.memory_at_ns)
		watch_memory(in, now);
	if (in->report.limit == CONTROL_LIMIT_NONE && now >= watch.cpu_at_ns)
		watch.cpu_at_ns = now + cpu_tick(in, now);
	if (in->report.limit <= CONTROL_LIMIT_WALL && now >= watch.disk_at_ns) {
		uint64_t before = disk_bytes();

		watch.disk_at_ns = now + disk_tick(in, now);
		if (disk_bytes() > before)
			note_disk(in);
	}
	if (now >= watch.look_at_ns)
		look_around(in, now);
	if (now >= watch.room_at_ns)
		watch.room_at_ns = now + refused_tick(in);
	note_blindness(in);
	/* An early look at the CPU does no harm: one wake-up serves both. */
	if (cpu_is_idle())
		watch.cpu_at_ns = least(watch.cpu_at_ns, watch.memory_at_ns);
	next = least(least(watch.memory_at_ns, watch.cpu_at_ns),
		     least(least(watch.look_at_ns, watch.room_at_ns),
			   least(watch.disk_at_ns, watch.flood_at_ns)));
	return next > now ? next - now : 0;
}

void watch_release(struct init *in)
{
	cpu_release(in);
	watch.cpu_at_ns = ~(uint64_t)0;
}

void watch_end(struct init *in)
{
	disk_end(in);
	note_disk(in);
	refused_end(in);
}

void watch_count(struct init *in, struct control_count *count)
{
	static int pids[TREE_MAX];
	struct memory m;
	int n = tree_list(in, pids);

	for (int i = 0; i < n; i++)
		count->cpu_us += idle_clock(pids[i]) / 1000;
	memory_quick(in, &m);
	count->tasks = m.tasks;
	count->memory_bytes = memory_total(&m);
}

int watch_has_new_files(const struct init *in)
{
	return memory_has_new_files(in);
}

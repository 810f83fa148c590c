/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time of the whole tree, and its share of the CPUs.
 *
 * Two sums, neither of which counts anything twice: what living processes used from one look to the
 * next (misses the last moments of a process), and the accounts of the living plus what they and
 * init collected by waiting (misses processes that are never waited for). The larger one counts. In
 * a control group the kernel adds it up.
 *
 * The share is enforced by stopping the tree when it has used more than its due, and continuing it
 * once that is made up for. Everything stops at the same time, so nothing inside can undo it except
 * a kernel timer that sends SIGCONT: then the tree is stopped again, every 5 ms, and ended if that
 * goes on. Processes that the tree itself had stopped stay stopped.
 */
#include <asm/unistd.h>
#include <linux/resource.h>

#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/pause.h"
#include "init/tree.h"
#include "init/watch/cpu.h"
#include "init/watch/idle.h"
#include "init/watch/watch.h"

#define BUSY_NS (4 * MS)
#define QUIET_NS (20 * MS)
#define IDLE_NS (50 * MS)  /* what is used until the next look is made up for later */
#define BURST_NS (10 * MS) /* CPU time that an idle tree may have saved up */
#define UNWAITED_NS (5 * MS)
#define STOPPING_NS (40 * MS) /* until a stop has reached every process */
#define RESTLESS_NS (5 * MS)
#define RESTLESS_MAX 100
#define ACCOUNTS_NS (20 * MS)

struct seen {
	int pid;
	uint64_t used_ns;
};

/* At the last look, in the order of that look. Apart from the figures, which every run touches. */
static struct seen seen[TREE_MAX];
static struct {
	int n_seen;
	uint64_t observed_ns; /* what the living used, look by look */
	uint64_t accounts_ns; /* what accounts had, when last asked */
	uint64_t asked_ns;    /* when that was */
	uint64_t last_ns;     /* when the last look was */
	int64_t credit_ns;    /* of CPU time; below zero the tree is stopped */
	uint64_t used_last_ns;
	uint64_t used_ns; /* in all, by the last look */
	uint64_t noted;	  /* by idle_note(), at the last look */
	int is_idle;
	int is_stopped;
	int n_restless; /* how often it ran although it was */
	uint64_t stopped_ns;
} cpu;

void cpu_start(void)
{
	cpu.last_ns = now_ns();
	cpu.credit_ns = (int64_t)BURST_NS;
}

static uint64_t timeval_ns(const struct __kernel_old_timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000000u + (uint64_t)tv->tv_usec * 1000u;
}

/* What init collected by waiting. */
static uint64_t collected(void)
{
	struct rusage usage;

	memset(&usage, 0, sizeof(usage));
	raw_syscall(__NR_getrusage, RUSAGE_CHILDREN, RAW_ARG(&usage), 0, 0, 0, 0);
	return timeval_ns((const void *)&usage.ru_utime) +
	       timeval_ns((const void *)&usage.ru_stime);
}

static uint64_t seen_before(int pid, int hint)
{
	/* The kernel lists processes in one order, so it is near where it was. */
	for (int i = 0; i < cpu.n_seen; i++) {
		const struct seen *s = &seen[(hint + i) % cpu.n_seen];

		if (s->pid == pid)
			return s->used_ns;
	}
	return 0;
}

/* Takes one look; the accounts are asked now and then. Returns what the tree has used in all. */
static uint64_t look(struct init *in, int with_accounts)
{
	static int pids[TREE_MAX];
	static struct seen now[TREE_MAX];
	uint64_t accounts = 0, children;
	int n = tree_list(in, pids), parent;

	cpu.noted = idle_note(pids, n);
	for (int i = 0; i < n; i++) {
		uint64_t used = idle_clock(pids[i]), before = seen_before(pids[i], i);

		/* Less than before: the number has a new owner. */
		cpu.observed_ns += used >= before ? used - before : used;
		now[i].pid = pids[i];
		now[i].used_ns = used;
		if (with_accounts) {
			tree_stat(in, pids[i], &children, &parent);
			accounts += used + children;
		}
	}
	memcpy(seen, now, (size_t)n * sizeof(now[0]));
	cpu.n_seen = n;
	accounts += collected();
	if (accounts > cpu.accounts_ns)
		cpu.accounts_ns = accounts;
	return cpu.accounts_ns > cpu.observed_ns ? cpu.accounts_ns : cpu.observed_ns;
}

int cpu_is_idle(void)
{
	return cpu.is_idle;
}

static void stop(struct init *in)
{
	tree_pause(in, PAUSE_CPU);
	cpu.is_stopped = 1;
}

static void go_on(struct init *in)
{
	if (!cpu.is_stopped)
		return;
	tree_resume(in, PAUSE_CPU);
	cpu.is_stopped = 0;
}

void cpu_release(struct init *in)
{
	go_on(in);
	cpu.is_idle = 0;
}

/* How long the credit lasts if every CPU works for the tree. */
static uint64_t until_spent(const struct init *in)
{
	uint64_t most = in->n_cpus * 1000, credit = (uint64_t)cpu.credit_ns, lasts_ns;

	if (most <= in->limits.cpu_milli)
		return IDLE_NS;
	lasts_ns = credit * 1000 / (most - in->limits.cpu_milli);
	if (lasts_ns < BUSY_NS)
		return BUSY_NS;
	return lasts_ns < IDLE_NS ? lasts_ns : IDLE_NS;
}

/*
 * A kernel timer can continue a stopped process. It is stopped again; a tree that keeps doing so
 * breaks its limit.
 */
static void stay_stopped(struct init *in)
{
	tree_signal(in, SIGSTOP_NR);
	if (++cpu.n_restless > RESTLESS_MAX)
		in->report.limit = CONTROL_LIMIT_CPU;
}

static uint64_t hold_share(struct init *in, uint64_t used, uint64_t now)
{
	const int64_t milli = (int64_t)in->limits.cpu_milli;
	int64_t spent = (int64_t)(used - cpu.used_last_ns);

	cpu.credit_ns += (int64_t)(now - cpu.last_ns) * milli / 1000 - spent;
	if (cpu.credit_ns > (int64_t)BURST_NS)
		cpu.credit_ns = (int64_t)BURST_NS;
	cpu.used_last_ns = used;
	if (cpu.credit_ns < 0) {
		/* How long until what was used too much is made up for. */
		uint64_t debt_ns = (uint64_t)(-cpu.credit_ns * 1000 / milli) + MS / 2;

		if (!cpu.is_stopped) {
			stop(in);
			cpu.n_restless = 0;
			cpu.stopped_ns = now;
		} else if (spent > 0 && now - cpu.stopped_ns > STOPPING_NS) {
			stay_stopped(in);
		}
		return debt_ns < RESTLESS_NS ? debt_ns : RESTLESS_NS;
	}
	go_on(in);
	if (cpu.is_idle)
		return IDLE_NS;
	return spent > 0 ? until_spent(in) : QUIET_NS;
}

uint64_t cpu_observed_us(void)
{
	return cpu.observed_ns / 1000;
}

/*
 * How long the remaining time lasts at least. Less while something runs: children that are never
 * waited for are only seen as long as they live.
 */
static uint64_t until_used_up(const struct init *in, uint64_t used)
{
	uint64_t left = (in->limits.cpu_time_ns - used) / in->n_cpus;
	uint64_t most = cpu.is_idle ? IDLE_NS : UNWAITED_NS;

	left = left < MS ? MS : left;
	return left < most ? left : most;
}

uint64_t cpu_tick(struct init *in, uint64_t now)
{
	const struct control_limits *l = &in->limits;
	uint64_t user_us, system_us, used, next = IDLE_NS, until;
	int with_accounts = now - cpu.asked_ns >= ACCOUNTS_NS;

	/* A tree that we have stopped is not idle: it is about to go on. */
	cpu.is_idle = !cpu.is_stopped && idle_since(cpu.noted);
	if (cgroup_cpu_used(in, &user_us, &system_us)) {
		cpu.is_idle = 0;
		cpu.used_ns = (user_us + system_us) * 1000u;
	} else if (!cpu.is_idle) {
		cpu.used_ns = look(in, with_accounts);
		if (with_accounts)
			cpu.asked_ns = now;
	}
	used = cpu.used_ns;
	if (l->cpu_time_ns && used >= l->cpu_time_ns) {
		in->report.limit = CONTROL_LIMIT_CPU_TIME;
		return 0;
	}
	if (l->cpu_milli)
		next = hold_share(in, used, now);
	if (l->cpu_time_ns) {
		until = until_used_up(in, used);
		next = until < next ? until : next;
	}
	cpu.last_ns = now;
	return next;
}

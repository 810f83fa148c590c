/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quick count adds up what /proc/PID/status says of each process (anonymous and shared pages,
 * swap, page tables), 24 KiB for each task, the private tmpfs with 1 KiB for each inode, System V
 * objects, socket queues (sockets.c) and all growth of the machine's shared memory that these do
 * not explain (shmem.c). It is meant never to be too low. The exact count takes each process's
 * share of its pages (smaps_rollup) and shared mappings one by one (smaps) instead; a process that
 * made itself undumpable is charged in full. The page cache is not counted: the kernel reclaims it.
 */
#include "init/watch/memory.h"

#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/kcmp.h>
#include <linux/msg.h>
#include <linux/sem.h>
#include <linux/shm.h>
#include <linux/sysinfo.h>

#include "bare/raw.h"
#include "bare/wait.h"
#include "init/procfs.h"
#include "init/tree.h"
#include "init/watch/figures.h"
#include "init/watch/idle.h"
#include "init/watch/refused.h"
#include "init/watch/shmem.h"
#include "init/watch/sockets.h"

#define THREADS_MAX 64 /* that are asked in turn */
#define STATUS_MAX 4096
#define TASK_BYTES (24u << 10) /* kernel stack and descriptors of a task */
#define INODE_BYTES 1024u      /* of a tmpfs, with its name */
#define SEMAPHORE_BYTES 64u
#define MESSAGE_BYTES 64u     /* besides its text */
#define IPC_OBJECT_BYTES 512u /* a queue or a set, without what is in it */
#define UNDO_BYTES 96u	      /* besides the numbers */
#define FIND_NS 1000000000u
#define ALL_READ_NS 300000000u
#define HURRY_BYTES (8u << 20)
#define DESCRIPTORS_FREE 16384u
#define PIPE_BYTES 8192u /* the kernel makes them that small once a user has many */
#define VFORK_BYTES (1u << 20)
#define FILE_BYTES (1u << 20)
#define SHARE_BYTES (256u << 10) /* the figures are not read at the same time */
#define MAPPED_BYTES (1u << 20)
#define TABLES_FREE (16u << 20) /* page tables that many programs have ... */
#define TABLES_PART 8		/* ... besides one part in so many of their pages */

/* One list of processes and what was read of each. The exact count has one of its own. (The counts
 * come first, in one page with the first processes.) */
struct list {
	int n, n_read;
	int pids[TREE_MAX];
	struct {
		int pid;
		uint64_t pages;	    /* private and shared ones */
		uint64_t shareable; /* what its children may have in common with it */
	} read[TREE_MAX];
};

static struct list quick_list, exact_list;

static struct {
	uint64_t blocks, inodes; /* of the private file system, before the command ran */
} baseline;

static uint64_t found, found_ns; /* by shmem_find(), and when */

static int statfs_root(const struct init *in, struct statfs *ret)
{
	/* Level landlock has no file system of its own. */
	return in->plan->level == PLAN_LEVEL_NAMESPACES &&
	       raw_syscall(__NR_statfs, RAW_ARG("/"), RAW_ARG(ret), 0, 0, 0, 0) == 0;
}

void memory_start(struct init *in)
{
	struct statfs st;

	if (statfs_root(in, &st)) {
		baseline.blocks = (uint64_t)(st.f_blocks - st.f_bfree);
		baseline.inodes = (uint64_t)(st.f_files - st.f_ffree);
	}
	if (in->limits.memory_bytes)
		shmem_start(in);
}

int memory_room(struct init *in, uint64_t *ret_bytes, uint64_t *ret_inodes)
{
	struct statfs st;

	if (!statfs_root(in, &st))
		return 0;
	*ret_bytes = (uint64_t)st.f_bfree * (uint64_t)st.f_bsize;
	*ret_inodes = (uint64_t)st.f_ffree;
	refused_note_room(in, (uint64_t)st.f_bfree, (uint64_t)st.f_ffree, (uint64_t)st.f_blocks,
			  (uint64_t)st.f_files);
	return 1;
}

uint64_t memory_disk(struct init *in)
{
	struct statfs st;

	if (!statfs_root(in, &st))
		return 0;
	refused_note_room(in, (uint64_t)st.f_bfree, (uint64_t)st.f_ffree, (uint64_t)st.f_blocks,
			  (uint64_t)st.f_files);
	return above((uint64_t)(st.f_blocks - st.f_bfree), baseline.blocks) * (uint64_t)st.f_bsize;
}

int memory_has_new_files(const struct init *in)
{
	struct statfs st;

	return !statfs_root(in, &st) || (uint64_t)(st.f_files - st.f_ffree) > baseline.inodes;
}

static uint64_t private_files(struct init *in)
{
	struct statfs st;

	if (!statfs_root(in, &st))
		return 0;
	return above((uint64_t)(st.f_blocks - st.f_bfree), baseline.blocks) * (uint64_t)st.f_bsize +
	       above((uint64_t)(st.f_files - st.f_ffree), baseline.inodes) * INODE_BYTES;
}

uint64_t memory_free(uint64_t *ret_total)
{
	struct sysinfo info;

	if (raw_syscall(__NR_sysinfo, RAW_ARG(&info), 0, 0, 0, 0, 0) < 0) {
		*ret_total = 0;
		return 0;
	}
	*ret_total = info.totalram * info.mem_unit;
	return info.freeram * info.mem_unit;
}

/* What has to be undone at its end each process may keep for each set: a number per semaphore. */
static uint64_t undo_bytes(const struct seminfo *sem, uint64_t processes)
{
	return processes *
	       ((uint64_t)sem->semaem * sizeof(short) + (uint64_t)sem->semusz * UNDO_BYTES);
}

/*
 * SysV objects of the run's ipc namespace, each kind with one call; at level landlock the filter
 * leaves no way to make one. Semaphores and messages are the kernel's own memory.
 */
static void add_ipc(struct init *in, struct memory *m)
{
	struct shm_info shm = { 0 };
	struct seminfo sem = { 0 };
	struct msginfo msg = { 0 };

	if (in->plan->level != PLAN_LEVEL_NAMESPACES)
		return;
	if (raw_syscall(__NR_shmctl, 0, SHM_INFO, RAW_ARG(&shm), 0, 0, 0) >= 0)
		m->segments = ((uint64_t)shm.shm_rss + (uint64_t)shm.shm_swp) * in->page_bytes;
	if (raw_syscall(__NR_semctl, 0, 0, SEM_INFO, RAW_ARG(&sem), 0, 0) >= 0)
		m->ipc += (uint64_t)sem.semaem * SEMAPHORE_BYTES +
			  (uint64_t)sem.semusz * IPC_OBJECT_BYTES +
			  undo_bytes(&sem, (uint64_t)m->processes);
	if (raw_syscall(__NR_msgctl, 0, MSG_INFO, RAW_ARG(&msg), 0, 0, 0) >= 0)
		m->ipc += (uint64_t)msg.msgtql + (uint64_t)msg.msgmap * MESSAGE_BYTES +
			  (uint64_t)msg.msgpool * IPC_OBJECT_BYTES;
}

/* Where its parent stands among those that were read; -1 = nowhere. */
static int find_parent(const struct list *l, int parent)
{
	for (int i = l->n_read; i-- > 0;)
		if (l->read[i].pid == parent)
			return i;
	return -1;
}

/*
 * What a process has for itself in any case: it cannot share more than its parent ever had. Nothing
 * is known of one whose parent is gone; the command has no parent to share with.
 */
static uint64_t least_of(const struct init *in, const struct list *l, int pid, int at,
			 uint64_t anon)
{
	if (pid == in->payload_pid)
		return anon;
	if (at < 0 || l->read[at].shareable >= anon)
		return 0;
	return anon - l->read[at].shareable;
}

/*
 * All threads share the memory, but the first shows nothing of it once it has ended. Then one of
 * the others is asked.
 */
static long read_status(struct init *in, int pid, char text[STATUS_MAX])
{
	int threads[THREADS_MAX];
	long n, r = proc_read(in->proc_fd, pid, "status", text, STATUS_MAX);

	tree_note_error(in, r);
	if (r <= 0 || proc_field(text, "VmHWM:") || proc_field(text, "Threads:") <= 1)
		return r;
	n = proc_entries(in->proc_fd, pid, "task", threads, THREADS_MAX);
	for (long i = 0; i < n; i++) {
		char path[PROC_PATH_MAX];

		proc_path_in(pid, "task", threads[i], "status", path);
		r = threads[i] == pid ? 0 : proc_read(in->proc_fd, 0, path, text, STATUS_MAX);
		if (r > 0 && proc_field(text, "VmHWM:"))
			return r;
	}
	return proc_read(in->proc_fd, pid, "status", text, STATUS_MAX);
}

/*
 * fork() copies page tables, and nobody sees the copy until it is complete. One copy of a process
 * can be under way at a time. So what goes far beyond the needs of its pages counts twice.
 */
static uint64_t tables_of(uint64_t tables, uint64_t pages)
{
	return tables + above(tables, TABLES_FREE + pages / TABLES_PART);
}

/*
 * Adds what the kernel says of one process. Returns whether its memory is its parent's: a child of
 * vfork() has none of its own until it executes something, but the same figures. Small ones do not
 * matter.
 */
static int add_process(struct init *in, struct list *l, int pid, struct memory *m)
{
	char text[STATUS_MAX];
	uint64_t tasks, file, anon, pages, most;
	int at;
	long r;

	r = read_status(in, pid, text);
	if (r <= 0)
		return 0;
	tasks = proc_field(text, "Threads:");
	anon = proc_field(text, "RssAnon:") * KIB;
	file = proc_field(text, "RssFile:") * KIB;
	pages = anon + proc_field(text, "RssShmem:") * KIB;
	m->processes++;
	m->tasks += tasks ? tasks : 1;
	at = find_parent(l, (int)proc_field(text, "PPid:"));
	if (pages >= VFORK_BYTES && at >= 0 && l->read[at].pages > pages - pages / 8 &&
	    raw_syscall(__NR_kcmp, pid, l->read[at].pid, KCMP_VM, 0, 0, 0) == 0)
		return 1;
	most = proc_field(text, "VmHWM:") * KIB;
	if (l->n_read < TREE_MAX) {
		l->read[l->n_read].pid = pid;
		l->read[l->n_read].pages = pages;
		/* The peak includes an unknown number of file pages. */
		if (most > FILE_BYTES && file > FILE_BYTES)
			most -= FILE_BYTES;
		l->read[l->n_read++].shareable = most + SHARE_BYTES;
	}
	m->anon += anon;
	m->least += least_of(in, l, pid, at, anon);
	if (anon > m->largest)
		m->largest = anon;
	m->mapped += pages - anon;
	m->swap += proc_field(text, "VmSwap:") * KIB;
	m->tables += tables_of(proc_field(text, "VmPTE:") * KIB, pages);
	m->descriptors += proc_field(text, "FDSize:");
	if (file > in->file_bytes)
		in->file_bytes = file;
	return 0;
}

static void add_rest(struct init *in, struct memory *m)
{
	m->tables += m->tasks * TASK_BYTES;
	/* The content of pipes cannot be seen, but each takes two descriptors. */
	if (m->descriptors > DESCRIPTORS_FREE)
		m->tables += (m->descriptors - DESCRIPTORS_FREE) / 2 * PIPE_BYTES;
	m->files = private_files(in);
	if (in->limits.memory_bytes) {
		add_ipc(in, m);
		m->sockets = sockets_bytes(in);
	}
}

/* Shared memory that is accounted for. */
static uint64_t shared(const struct memory *m)
{
	return m->mapped + m->files + m->segments;
}

static void add_list(struct init *in, struct list *l, struct memory *m)
{
	l->n = tree_list(in, l->pids);
	l->n_read = 0;
	m->noted = idle_note(l->pids, l->n);
	for (int i = 0; i < l->n; i++)
		add_process(in, l, l->pids[i], m);
}

uint64_t memory_at_least(struct init *in)
{
	struct memory m = { 0 };

	add_list(in, &quick_list, &m);
	m.files = private_files(in);
	return memory_least(&m);
}

void memory_quick(struct init *in, struct memory *ret)
{
	struct memory m = { 0 };
	struct list *l = &quick_list;

	add_list(in, l, &m);
	add_rest(in, &m);
	if (in->limits.memory_bytes)
		m.shmem = shmem_most(in, shared(&m), 0);
	*ret = m;
}

/*
 * What the exact count found of each process. The figures of one that has not run since still hold,
 * and reading one with many mappings takes milliseconds. Only the number of processes that share
 * its pages may have changed, so all are read again every 300 ms.
 */
struct share {
	int pid, is_guess;
	uint64_t clock_ns, anon, mapped, swap;
};

static struct {
	struct share v[TREE_MAX];
	int n;
	uint64_t all_read_ns;
} shares;

static const struct share *known_share(int pid, uint64_t clock_ns, int hint)
{
	/* The kernel lists processes in one order, so it is near where it was. */
	for (int i = 0; i < shares.n; i++) {
		const struct share *s = &shares.v[(hint + i) % shares.n];

		if (s->pid == pid)
			return s->clock_ns == clock_ns ? s : NULL;
	}
	return NULL;
}

/* A process's share of its pages; one that cannot be read is charged with all of them. */
static void read_share(struct init *in, int pid, const struct memory *whole, struct share *ret)
{
	char text[STATUS_MAX];

	if (proc_read(in->proc_fd, pid, "smaps_rollup", text, sizeof(text)) <= 0) {
		ret->is_guess = 1;
		ret->anon = whole->anon;
		ret->mapped = whole->mapped;
		ret->swap = whole->swap;
		return;
	}
	ret->anon = proc_field(text, "Pss_Anon:") * KIB;
	ret->swap = proc_field(text, "SwapPss:") * KIB;
	/* Reading every mapping is not worth it for a small figure. */
	ret->mapped = whole->mapped;
	if (whole->mapped >= MAPPED_BYTES)
		ret->mapped = shmem_mapped(in, pid, proc_field(text, "Pss_Shmem:") * KIB);
}

static void add_share(const struct share *s, const struct memory *whole, struct memory *m)
{
	m->processes += whole->processes;
	m->tasks += whole->tasks;
	m->tables += whole->tables;
	m->is_guess |= s->is_guess;
	m->anon += s->anon;
	m->mapped += s->mapped;
	m->swap += s->swap;
}

static void add_shares(struct init *in, struct list *l, uint64_t now, struct memory *m)
{
	static struct share read[TREE_MAX];
	int read_all = now - shares.all_read_ns > ALL_READ_NS;
	uint64_t ram, free_then = memory_free(&ram);

	l->n = tree_list(in, l->pids);
	l->n_read = 0;

	for (int i = 0; i < l->n; i++) {
		uint64_t clock_ns = idle_clock(l->pids[i]);
		const struct share *known = read_all ? NULL : known_share(l->pids[i], clock_ns, i);
		struct memory whole = { 0 };

		read[i] = (struct share){ .pid = l->pids[i], .clock_ns = clock_ns };
		if (add_process(in, l, l->pids[i], &whole))
			known = &read[i];
		else if (known)
			read[i] = *known;
		if (!known)
			read_share(in, l->pids[i], &whole, &read[i]);
		add_share(&read[i], &whole, m);
		/* Memory is filling up while we read idle processes: stop that. */
		if (read_all && memory_free(&ram) + HURRY_BYTES < free_then)
			read_all = 0;
	}
	memcpy(shares.v, read, (size_t)l->n * sizeof(read[0]));
	shares.n = l->n;
	if (read_all)
		shares.all_read_ns = now;
}

/*
 * Looking into every descriptor takes time. It is needed where the upper bound would decide, and
 * once a second besides: other programs may free what the tree takes.
 */
static int must_find(struct init *in, const struct memory *m, uint64_t most, uint64_t now)
{
	uint64_t total = memory_total(m), limit = in->limits.memory_bytes;

	return total <= limit && (total + most > limit || now - found_ns > FIND_NS);
}

void memory_exact(struct init *in, struct memory *ret)
{
	struct memory m = { 0 };
	uint64_t most, now = now_ns();
	struct list *l = &exact_list;

	shmem_begin();
	add_shares(in, l, now, &m);
	add_rest(in, &m);
	if (in->limits.memory_bytes) {
		most = shmem_most(in, shared(&m), !m.is_guess);
		if (must_find(in, &m, most, now)) {
			m.shmem = shmem_find(in, l->pids, l->n, m.mapped, most);
			found = m.shmem;
			found_ns = now;
		} else {
			m.shmem = found < most ? found : most;
		}
	}
	*ret = m;
}

uint64_t memory_total(const struct memory *m)
{
	return m->anon + m->swap + m->tables + m->mapped + m->files + m->segments + m->ipc +
	       m->sockets + m->shmem;
}

uint64_t memory_least(const struct memory *m)
{
	return (m->largest > m->least ? m->largest : m->least) + m->tables + m->files +
	       m->segments + m->ipc + m->sockets;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files and shared anonymous mappings live on an internal file system of the kernel whose
 * use cannot be asked for. A memory file tells its size through any descriptor. A shared mapping
 * tells what is mapped of it, which may be less than there is; and a memory file may exist only in
 * a socket's queue. The machine's count of shared memory (Shmem in /proc/meminfo) includes all of
 * it, but for all processes of the machine.
 *
 * So unexplained growth of that count is charged to the tree as far as the tree has places for it:
 * memory files, seen now or before; mapped objects by their extent, at least 16 MiB each; without a
 * bound if descriptors are under way in a socket, a table cannot be read, or there are more than
 * 8192 descriptors. Another program's growth can thus be charged to a run, but not more of it than
 * the run has places for.
 *
 * The image that a run executes is a memory file, too. It is the caller's, sealed, and there before
 * the run: only what the run has written to is charged, which are anonymous pages.
 */
#include "init/watch/shmem.h"

#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/kcmp.h>
#include <linux/memfd.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"
#include "init/procfs.h"
#include "init/watch/figures.h"

#define OBJECTS 4096	     /* a power of two */
#define DESCRIPTORS_MAX 8192 /* looked at in one round; more take too long */
#define THREADS_MAX 4096
#define MEMINFO_MAX 4096
#define STATUS_MAX 4096
#define LINES_BYTES 65536
#define PLACE_BYTES (16u << 20) /* what may be behind a mapping at least */
#define ROUNDS_KEPT 16		/* an idle process is not read in each round */
#define NO_BOUND ((uint64_t)1 << 60)

struct object {
	uint64_t ino;
	uint64_t bytes;		    /* its size, when a descriptor told it */
	uint64_t extent;	    /* the part of it that was seen mapped */
	uint32_t described, mapped; /* the round in which it was */
};

static struct object objects[OBJECTS];
static unsigned n_objects;
static uint32_t current;    /* number of this round */
static uint64_t outside;    /* shared memory that is not the tree's, at most */
static uint64_t kernel_dev; /* device of memory files */
static uint64_t image_ino;  /* 0 = no image */

/* What one look at the descriptors found. */
struct look {
	uint64_t described; /* bytes of memory files */
	long left;	    /* descriptors that may still be looked at */
	int is_blind;	    /* something could not be looked at, or is under way */
};

static uint64_t machine_shared(struct init *in)
{
	char text[MEMINFO_MAX];

	long r = proc_read(in->proc_fd, 0, "meminfo", text, sizeof(text));

	if (r <= 0) {
		in->proc_error = r < 0 ? r : -ENODATA;
		return 0;
	}
	return proc_field(text, "Shmem:") * KIB;
}

/* As the lists of mappings write it. */
static uint64_t dev_key(uint64_t major, uint64_t minor)
{
	return major << 32 | minor;
}

void shmem_start(struct init *in)
{
	struct stat st;
	long fd = raw2(__NR_memfd_create, "cordon-init", MFD_CLOEXEC);

	outside = machine_shared(in);
	if (in->image_fd >= 0 &&
	    raw_syscall(__NR_fstat, in->image_fd, RAW_ARG(&st), 0, 0, 0, 0) == 0)
		image_ino = st.st_ino;
	/* Without it shared anonymous mappings cannot be told from other mappings. */
	if (fd < 0) {
		in->watch_error = fd;
		return;
	}
	if (raw_syscall(__NR_fstat, fd, RAW_ARG(&st), 0, 0, 0, 0) == 0)
		kernel_dev = dev_key(st.st_dev >> 8 & 0xfff,
				     (st.st_dev & 0xff) | (st.st_dev >> 12 & 0xfff00));
	close_fd(fd);
}

uint64_t shmem_most(struct init *in, uint64_t seen, int is_exact)
{
	uint64_t others = above(machine_shared(in), seen);

	if (is_exact && others < outside)
		outside = others;
	return above(others, outside);
}

void shmem_begin(void)
{
	current++;
	if (n_objects > OBJECTS / 2) {
		memset(objects, 0, sizeof(objects));
		n_objects = 0;
	}
}

/* NULL if there is no room. */
static struct object *find(uint64_t ino)
{
	unsigned at = (unsigned)(ino * 2654435761u) % OBJECTS;

	for (unsigned i = 0; i < OBJECTS; i++, at = (at + 1) % OBJECTS) {
		struct object *o = &objects[at];

		if (o->ino == ino)
			return o;
		if (o->ino == 0) {
			if (n_objects > OBJECTS * 3 / 4)
				return NULL;
			n_objects++;
			o->ino = ino;
			return o;
		}
	}
	return NULL;
}

static void look_at_memory_file(struct init *in, const char *path, struct look *look)
{
	struct object *o;
	struct stat st = { .st_ino = 0 };

	if (raw_syscall(__NR_newfstatat, in->proc_fd, RAW_ARG(path), RAW_ARG(&st), 0, 0, 0) < 0)
		return;
	if (st.st_ino == image_ino)
		return;
	o = find(st.st_ino);
	if (!o) {
		look->is_blind = 1;
		return;
	}
	if (o->described == current)
		return;
	o->described = current;
	o->bytes = (uint64_t)st.st_blocks * STAT_BLOCK;
	look->described += o->bytes;
}

/* The text of /proc/PID/fd/N comes from the kernel. It is read before the file is asked, which may
 * lie on a file system that does not answer. */
static void look_at_descriptor(struct init *in, int pid, int fd, struct look *look)
{
	char path[PROC_PATH_MAX], text[64];
	long n;

	proc_path_in(pid, "fd", fd, "", path);
	n = raw_syscall(__NR_readlinkat, in->proc_fd, RAW_ARG(path), RAW_ARG(text),
			sizeof(text) - 1, 0, 0);
	if (n <= 0)
		return;
	text[n] = 0;
	if (starts_with(text, "/memfd:")) {
		look_at_memory_file(in, path, look);
	} else if (starts_with(text, "socket:")) {
		char info[512];

		proc_path_in(pid, "fdinfo", fd, "", path);
		if (proc_read(in->proc_fd, 0, path, info, sizeof(info)) > 0 &&
		    proc_field(info, "scm_fds:") > 0)
			look->is_blind = 1;
	}
}

/*
 * It has ended, or is about to: it has no memory any more (no VmSize), and runs no code of its own
 * until it has closed everything. Its table belongs to root then and cannot be read, which must not
 * look like one that is hidden from us.
 */
static int has_ended(struct init *in, int pid)
{
	char text[STATUS_MAX];
	long n = proc_read(in->proc_fd, pid, "status", text, sizeof(text));

	if (n == -ESRCH || n == -ENOENT)
		return 1;
	/* That comes before Threads, if the text is all there. */
	return n > 0 && proc_find(text, "Threads:") && !proc_find(text, "VmSize:");
}

static void look_at_table(struct init *in, int pid, struct look *look)
{
	static int fds[DESCRIPTORS_MAX];
	long n = proc_entries(in->proc_fd, pid, "fd", fds, DESCRIPTORS_MAX);

	if (n < 0 && has_ended(in, pid))
		return;
	look->left -= n;
	if (n < 0 || look->left < 0) {
		look->is_blind = 1;
		return;
	}
	for (long i = 0; i < n; i++)
		look_at_descriptor(in, pid, fds[i], look);
}

/* A thread can have a table of descriptors of its own. */
static void look_at_process(struct init *in, int pid, struct look *look)
{
	static int threads[THREADS_MAX];
	long n = proc_entries(in->proc_fd, pid, "task", threads, THREADS_MAX);

	look_at_table(in, pid, look);
	for (long i = 0; i < n && !look->is_blind; i++)
		if (threads[i] != pid &&
		    raw_syscall(__NR_kcmp, pid, threads[i], KCMP_FILES, 0, 0, 0) != 0)
			look_at_table(in, threads[i], look);
}

/*
 * "start-end perms offset major:minor inode   path". Returns whether the pages of this mapping
 * have to be counted here, and remembers the object behind it; -1: this is no such line.
 */
static int counts_here(const char *line)
{
	uint64_t start, end, offset, major, minor, ino;
	struct object *o;
	const char *s = read_hex(line, &start);

	if (*s != '-')
		return -1;
	s = read_hex(s + 1, &end);
	if (*s != ' ' || !s[1] || !s[2] || !s[3] || !s[4] || s[5] != ' ')
		return -1;
	s = read_hex(s + 6, &offset);
	s = read_hex(s + 1, &major);
	s = read_hex(s + 1, &minor);
	if (proc_numbers(s, &ino, 1) != 1 || dev_key(major, minor) != kernel_dev || ino == 0 ||
	    ino == image_ino)
		return 0;
	while (*s && *s != '/')
		s++;
	/* Only the kernel can give this name here. These are counted as segments. */
	if (starts_with(s, "/SYSV"))
		return 0;
	o = find(ino);
	if (!o)
		return 1;
	o->mapped = current;
	if (offset + (end - start) > o->extent)
		o->extent = offset + (end - start);
	return 1;
}

struct mapping_sum {
	int counting;
	uint64_t sum;
};

static void read_line(void *arg, const char *line)
{
	struct mapping_sum *r = arg;
	int here;

	if (starts_with(line, "Pss:")) {
		if (r->counting)
			r->sum += proc_field(line, "Pss:") * KIB;
		return;
	}
	/* Fields begin with a capital letter, mappings with an address in small ones. */
	if (*line >= 'A' && *line <= 'Z')
		return;
	here = counts_here(line);
	if (here >= 0)
		r->counting = here;
}

uint64_t shmem_mapped(struct init *in, int pid, uint64_t mapped)
{
	static char text[LINES_BYTES];
	struct mapping_sum r = { 0, 0 };
	long done = proc_lines(in->proc_fd, pid, "smaps", text, sizeof(text), read_line, &r);

	return done < 0 ? mapped : r.sum;
}

/* What the tree has places for. */
static uint64_t room(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < OBJECTS; i++) {
		const struct object *o = &objects[i];
		uint64_t most = o->extent > o->bytes ? o->extent : o->bytes;

		if (o->ino && o->mapped && current - o->mapped < ROUNDS_KEPT && most < PLACE_BYTES)
			most = PLACE_BYTES;
		sum += most;
	}
	return sum;
}

uint64_t shmem_find(struct init *in, const int *pids, int n, uint64_t mapped, uint64_t most)
{
	struct look look = { .left = DESCRIPTORS_MAX };
	uint64_t bound, least;

	for (int i = 0; i < n && !look.is_blind; i++)
		look_at_process(in, pids[i], &look);
	bound = look.is_blind ? NO_BOUND : room();
	/* What is in memory files but not mapped certainly exists, whatever the machine counted. */
	least = above(look.described, mapped);
	most = most < bound ? most : bound;
	return most > least ? most : least;
}

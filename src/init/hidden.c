/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory files and shared anonymous mappings live on a file system of the kernel's own that nobody
 * can ask for its use. A memory file tells its size through any descriptor. A shared mapping tells
 * what is mapped of it, which may be less than what is there; and a memory file can be nowhere but
 * in a socket's queue. The machine's count of shared memory knows all of it, but of everybody.
 *
 * So each object that was seen is remembered, with the size it had or could have, and growth of the
 * machine's count that nothing explains is taken for the tree's as far as such objects could hold
 * it. A neighbour's growth can thus be charged to a run, but never more than the run itself
 * reserved.
 */
#include "init/hidden.h"

#include <asm/stat.h>
#include <asm/unistd_64.h>
#include <linux/fcntl.h>
#include <linux/memfd.h>

#include "init/procfs.h"
#include "init/sockets.h"
#include "sys/raw.h"

#define KIB 1024u
#define OBJECTS 4096 /* a power of two */
#define DESCRIPTORS_MAX 65536
#define MEMINFO_MAX 4096
#define CHUNK 65536
#define PLACE_BYTES (16u << 20) /* what a place to hide may hold beyond what was seen of it */
#define STAT_BLOCK 512u

struct object {
	uint64_t ino;
	uint64_t bytes;		    /* its size, when a descriptor told it */
	uint64_t extent;	    /* the part of it that was seen mapped */
	uint32_t described, mapped; /* the count in which it was */
};

static struct object objects[OBJECTS];
static unsigned n_objects;
static uint32_t count;	    /* number of the exact count that is going on */
static uint64_t outside;    /* shared memory of others, as far as it can be told */
static uint64_t kernel_dev; /* device of memory files */
static uint64_t last_described;

static uint64_t machine_shared(struct init *in)
{
	char text[MEMINFO_MAX];

	if (proc_read(in->proc_fd, 0, "meminfo", text, sizeof(text)) <= 0)
		return 0;
	return proc_field(text, "Shmem:") * KIB;
}

/* As the lists of mappings write it. */
static uint64_t dev_key(uint64_t major, uint64_t minor)
{
	return major << 32 | minor;
}

void hidden_start(struct init *in)
{
	struct stat st;
	long fd = raw2(__NR_memfd_create, "cordon-init", MFD_CLOEXEC);

	outside = machine_shared(in);
	if (fd < 0)
		return;
	if (raw_syscall(__NR_fstat, fd, RAW_ARG(&st), 0, 0, 0, 0) == 0)
		kernel_dev = dev_key(st.st_dev >> 8 & 0xfff,
				     (st.st_dev & 0xff) | (st.st_dev >> 12 & 0xfff00));
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
}

static uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t hidden_quick(struct init *in, uint64_t seen)
{
	return above(above(machine_shared(in), outside), seen);
}

/* NULL if there is no room: what cannot be remembered cannot be told apart either. */
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

void hidden_begin(struct init *in)
{
	(void)in;
	count++;
	if (n_objects > OBJECTS / 2) {
		memset(objects, 0, sizeof(objects));
		n_objects = 0;
	}
	last_described = 0;
}

/* Is the link /proc/PID/fd/N one to a memory file? Asked before the file itself is, which may lie
 * on a file system that does not answer. */
static int is_memory_file(struct init *in, const char *path)
{
	static const char prefix[] = "/memfd:";
	char text[sizeof(prefix)];
	long n = raw_syscall(__NR_readlinkat, in->proc_fd, RAW_ARG(path), RAW_ARG(text),
			     sizeof(prefix) - 1, 0, 0);

	if (n != (long)sizeof(prefix) - 1)
		return 0;
	for (long i = 0; i < n; i++)
		if (text[i] != prefix[i])
			return 0;
	return 1;
}

void hidden_descriptors(struct init *in, int pid)
{
	static int fds[DESCRIPTORS_MAX];
	long n = proc_entries(in->proc_fd, pid, "fd", fds, DESCRIPTORS_MAX);

	for (long i = 0; i < n; i++) {
		char path[PROC_PATH_MAX];
		struct object *o;
		struct stat st;

		proc_path_in(pid, "fd", fds[i], "", path);
		if (!is_memory_file(in, path) ||
		    raw_syscall(__NR_newfstatat, in->proc_fd, RAW_ARG(path), RAW_ARG(&st), 0, 0,
				0) < 0)
			continue;
		o = find(st.st_ino);
		if (o && o->described == count)
			continue;
		if (o) {
			o->described = count;
			o->bytes = (uint64_t)st.st_blocks * STAT_BLOCK;
		}
		last_described += (uint64_t)st.st_blocks * STAT_BLOCK;
	}
}

static int starts_with(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return 0;
	return 1;
}

static const char *read_hex(const char *s, uint64_t *ret)
{
	uint64_t value = 0;

	for (;; s++) {
		if (*s >= '0' && *s <= '9')
			value = value << 4 | (uint64_t)(*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			value = value << 4 | (uint64_t)(*s - 'a' + 10);
		else
			break;
	}
	*ret = value;
	return s;
}

/*
 * "start-end perms offset major:minor inode   path". Returns whether the pages of this mapping
 * have to be counted here, and remembers the object behind it.
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
	if (proc_numbers(s, &ino, 1) != 1 || dev_key(major, minor) != kernel_dev || ino == 0)
		return 0;
	while (*s && *s != '/')
		s++;
	/* Nobody but the kernel can name something so there; they are counted as segments. */
	if (starts_with(s, "/SYSV"))
		return 0;
	o = find(ino);
	if (!o)
		return 1;
	o->mapped = count;
	if (offset + (end - start) > o->extent)
		o->extent = offset + (end - start);
	return o->described != count;
}

struct mapping_reader {
	int counting;
	uint64_t sum;
};

static void read_line(struct mapping_reader *r, const char *line)
{
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

uint64_t hidden_mapped(struct init *in, int pid, uint64_t mapped)
{
	static char text[CHUNK + 1];
	struct mapping_reader r = { 0, 0 };
	char path[PROC_PATH_MAX];
	size_t have = 0;
	long fd, n;

	fd = raw_syscall(__NR_openat, in->proc_fd, RAW_ARG(proc_path(pid, "smaps", path)),
			 O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return mapped;
	while ((n = raw_syscall(__NR_read, fd, RAW_ARG(text + have), (long)(CHUNK - have), 0, 0,
				0)) > 0) {
		size_t line = 0;

		have += (size_t)n;
		for (size_t i = 0; i < have; i++) {
			if (text[i] != '\n')
				continue;
			text[i] = 0;
			read_line(&r, text + line);
			line = i + 1;
		}
		/* A path longer than the buffer cannot be: the kernel cuts them at a page. */
		have -= line;
		for (size_t i = 0; i < have; i++)
			text[i] = text[line + i];
		if (have == CHUNK)
			break;
	}
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
	return r.sum;
}

/* What the tree has places for beyond what is counted. */
static uint64_t room_to_hide(struct init *in)
{
	/* Each socket can carry memory files that nobody else has. */
	uint64_t room = sockets_count(in) * PLACE_BYTES;

	for (unsigned i = 0; i < OBJECTS; i++) {
		const struct object *o = &objects[i];
		uint64_t most = o->extent > o->bytes ? o->extent : o->bytes;

		if (o->ino == 0 || o->described == count)
			continue;
		if (o->mapped == count && most < PLACE_BYTES)
			most = PLACE_BYTES;
		room += most;
	}
	return room;
}

uint64_t hidden_end(struct init *in, uint64_t seen)
{
	uint64_t all = machine_shared(in), ours = seen + last_described, unexplained, room;

	if (above(all, ours) < outside)
		outside = above(all, ours);
	unexplained = above(above(all, outside), ours);
	if (unexplained == 0)
		return last_described;
	room = room_to_hide(in);
	return last_described + (unexplained < room ? unexplained : room);
}

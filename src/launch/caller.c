/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything here is read for the calling thread and not for the process: it is the thread that
 * clones. What cannot be read is an error, and then nothing that was made before is used.
 *
 * Not here, because init sets it anew: signal mask and dispositions, oom_score_adj, dumpable, the
 * keyring, descriptors, environment, working directory. Nor what no process can read of itself, its
 * Landlock domain: see mould.c.
 */
#include "launch/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/stat.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/macros.h"

#define ASK_PERSONALITY 0xffffffffUL
#define RESOURCES 16		/* that have a limit */
#define STATUS_BYTES (16 << 10) /* the list of groups may be long: some thousands */
#define NODE_WORDS 16		/* 1024 nodes of memory */
/* Younger than the headers. */
#define GET_NO_WRITE_EXEC 66 /* PR_GET_MDWE */
#define GET_MERGE 68	     /* PR_GET_MEMORY_MERGE */

/* struct sched_attr, which older headers lack */
struct sched_state {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* Compared byte by byte: without padding, and zeroed first. */
struct caller_fixed {
	uint64_t limits[RESOURCES][2];
	struct sched_state sched;
	uint64_t root_dev, root_ino, root_mount;
	long personality, io_priority, timer_slack, no_huge_pages, securebits;
	long no_write_exec, merge, memory_policy;
	uint64_t memory_nodes[NODE_WORDS];
	long tsc;
	long thread;	      /* 0 = another thread that looks the same has the same filters */
	struct utsname names; /* the domain name is copied into the sandbox */
	char fill[sizeof(long) - sizeof(struct utsname) % sizeof(long)];
};

struct caller_state {
	struct caller_fixed fixed;
	size_t len, status_len, cgroup_len; /* the first two parts of the text */
	char text[]; /* files of the thread in /proc, the parts that matter */
};

/* Lines of /proc/thread-self/status: ids, groups, capabilities, filters, umask, CPUs. */
static const char *const lines[] = {
	"Umask:",  "Uid:",	  "Gid:",	   "Groups:",	    "CapInh:",
	"CapPrm:", "CapEff:",	  "CapBnd:",	   "CapAmb:",	    "NoNewPrivs:",
	"Seccomp", "Speculation", "Cpus_allowed:", "Mems_allowed:",
};

static bool is_wanted(const char *line)
{
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (strncmp(line, lines[i], strlen(lines[i])) == 0)
			return true;
	return false;
}

/* The whole file: its length, or -errno; -EFBIG if it does not fit. */
static ssize_t read_proc(int dir_fd, const char *path, char *buf, size_t size)
{
	size_t done = 0;
	ssize_t n;
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	do {
		n = read(fd, buf + done, size - done);
		if (n > 0)
			done += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return n;
	return done == size ? -EFBIG : (ssize_t)done;
}

/* Leaves only the wanted lines of the text, and returns its length. */
static size_t keep_lines(char *text, size_t len)
{
	size_t kept = 0;

	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t size = end ? (size_t)(end - (text + at)) + 1 : len - at;

		if (is_wanted(text + at)) {
			memmove(text + kept, text + at, size);
			kept += size;
		}
		at += size;
	}
	return kept;
}

/* What may not be there, because the kernel has no such thing or nothing to say. */
static bool is_absent(ssize_t r)
{
	return r == -ENOENT || r == -EINVAL || r == -EOPNOTSUPP;
}

/* Adds a file to the text. */
static int add_file(int dir_fd, const char *path, struct caller_state *s)
{
	ssize_t n = read_proc(dir_fd, path, s->text + s->len, STATUS_BYTES - s->len);

	if (n < 0)
		return is_absent(n) ? 0 : (int)n;
	s->len += (size_t)n;
	return 0;
}

static int add_link(int dir_fd, const char *path, struct caller_state *s)
{
	ssize_t n = readlinkat(dir_fd, path, s->text + s->len, STATUS_BYTES - s->len);

	if (n < 0)
		return errno == ENOENT ? 0 : -errno;
	if ((size_t)n == STATUS_BYTES - s->len)
		return -EFBIG;
	s->len += (size_t)n;
	return 0;
}

/* The first two parts of the text. @dir_fd: a directory in /proc. */
static int read_status(int dir_fd, struct caller_state *s)
{
	ssize_t n = read_proc(dir_fd, "status", s->text, STATUS_BYTES);
	int r;

	if (n < 0)
		return (int)n;
	s->text[n] = '\0'; /* it did not fill the buffer */
	s->len = s->status_len = keep_lines(s->text, (size_t)n);
	r = add_file(dir_fd, "cgroup", s);
	s->cgroup_len = s->len - s->status_len;
	return r;
}

static int read_files(int dir_fd, struct caller_state *s)
{
	/* The labels of AppArmor, SELinux and their like: of this process, and of what it executes.
	 */
	static const char *const files[] = { "attr/current", "attr/exec",
					     "../../coredump_filter" }; /* of the process */
	/* Init makes a network of its own, but the gateway has the caller's. */
	static const char *const links[] = { "ns/user", "ns/mnt", "ns/net", "ns/pid_for_children",
					     "ns/time_for_children" };
	int r = read_status(dir_fd, s);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = add_file(dir_fd, files[i], s);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = add_link(dir_fd, links[i], s);
	return r;
}

/* The line of the status that begins with @name, or nothing. */
static const char *find_line(const struct caller_state *s, const char *name, size_t *ret_len)
{
	size_t len = strlen(name);

	for (size_t at = 0; at < s->status_len;) {
		const char *line = s->text + at;
		const char *end = memchr(line, '\n', s->status_len - at);
		size_t size = end ? (size_t)(end - line) + 1 : s->status_len - at;

		if (size > len && memcmp(line, name, len) == 0) {
			*ret_len = size;
			return line;
		}
		at += size;
	}
	*ret_len = 0;
	return NULL;
}

/* Kernels before 5.9 do not count them. */
static unsigned count_filters(const struct caller_state *s)
{
	size_t len;
	const char *line = find_line(s, "Seccomp_filters:", &len);

	if (line)
		return (unsigned)strtoul(line + strlen("Seccomp_filters:"), NULL, 10);
	line = find_line(s, "Seccomp:", &len);
	return line && strtoul(line + strlen("Seccomp:"), NULL, 10) == 0 ? 0 : 1;
}

static struct caller_state *new_state(void)
{
	return calloc(1, sizeof(struct caller_state) + STATUS_BYTES + 1);
}

static int read_in(const char *dir, int (*read)(int dir_fd, struct caller_state *s),
		   struct caller_state *s)
{
	int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), r;

	if (dir_fd < 0)
		return -errno;
	r = read(dir_fd, s);
	close(dir_fd);
	return r;
}

/* A new root directory shows another machine, even with the same mounts. */
static int read_root(const char *path, struct caller_fixed *ret)
{
	struct statx st;

	if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_INO | STATX_MNT_ID, &st) < 0)
		return -errno;
	ret->root_dev = ((uint64_t)st.stx_dev_major << 32) | st.stx_dev_minor;
	ret->root_ino = st.stx_ino;
	ret->root_mount = st.stx_mnt_id;
	return 0;
}

/* These cannot fail, or only where they do not exist: then they are the same every time. */
static void read_settings(struct caller_fixed *ret)
{
	int mode = 0;

	ret->personality = personality(ASK_PERSONALITY);
	ret->io_priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	ret->timer_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	ret->no_huge_pages = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	ret->securebits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	ret->no_write_exec = prctl(GET_NO_WRITE_EXEC, 0, 0, 0, 0);
	ret->merge = prctl(GET_MERGE, 0, 0, 0, 0);
	ret->tsc = prctl(PR_GET_TSC, &mode, 0, 0, 0) < 0 ? -1 : mode;
	mode = 0;
	ret->memory_policy = syscall(SYS_get_mempolicy, &mode, ret->memory_nodes,
				     sizeof(ret->memory_nodes) * 8, NULL, 0) < 0
				     ? -1
				     : mode;
}

static int read_limits(pid_t pid, uint64_t ret[RESOURCES][2])
{
	for (int i = 0; i < RESOURCES; i++)
		if (syscall(SYS_prlimit64, pid, i, NULL, ret[i]) < 0)
			return -errno;
	return 0;
}

static int read_scheduling(pid_t pid, struct sched_state *ret)
{
	return syscall(SYS_sched_getattr, pid, ret, sizeof(*ret), 0) < 0 ? -errno : 0;
}

static int read_fixed(struct caller_fixed *ret)
{
	int r = read_root("/", ret);

	if (r == 0)
		r = read_limits(0, ret->limits);
	if (r == 0)
		r = read_scheduling(0, &ret->sched);
	if (r < 0)
		return r;
	read_settings(ret);
	return uname(&ret->names) < 0 ? -errno : 0;
}

int caller_state_read(unsigned n_filters, struct caller_state **ret)
{
	struct caller_state *state = new_state();
	int r;

	if (!state)
		return -ENOMEM;
	r = read_fixed(&state->fixed);
	if (r == 0)
		r = read_in("/proc/thread-self", read_files, state);
	if (r < 0) {
		free(state);
		return r;
	}
	/* What is in them cannot be read. */
	if (count_filters(state) > n_filters)
		state->fixed.thread = syscall(SYS_gettid);
	*ret = state;
	return 0;
}

unsigned caller_filters(void)
{
	struct caller_state *s = new_state();
	unsigned n = 0;

	/* What cannot be read counts as none: then each thread is for itself. */
	if (s && read_in("/proc/thread-self", read_status, s) == 0)
		n = count_filters(s);
	free(s);
	return n;
}

bool caller_state_equals(const struct caller_state *a, const struct caller_state *b)
{
	return a->len == b->len && memcmp(&a->fixed, &b->fixed, sizeof(a->fixed)) == 0 &&
	       memcmp(a->text, b->text, a->len) == 0;
}

static bool has_same_line(const struct caller_state *a, const struct caller_state *b,
			  const char *name)
{
	size_t a_len, b_len;
	const char *in_a = find_line(a, name, &a_len), *in_b = find_line(b, name, &b_len);

	return a_len == b_len && (a_len == 0 || memcmp(in_a, in_b, a_len) == 0);
}

bool caller_state_is_of(const struct caller_state *state, pid_t pid)
{
	struct caller_fixed fixed = { .limits = { { 0 } } };
	struct caller_state *other = new_state();
	char dir[32];
	bool is_same;

	snprintf(dir, sizeof(dir), "/proc/%d", (int)pid);
	is_same = other && read_in(dir, read_status, other) == 0 &&
		  read_limits(pid, fixed.limits) == 0 && read_scheduling(pid, &fixed.sched) == 0 &&
		  memcmp(fixed.limits, state->fixed.limits, sizeof(fixed.limits)) == 0 &&
		  memcmp(&fixed.sched, &state->fixed.sched, sizeof(fixed.sched)) == 0 &&
		  has_same_line(state, other, "Umask:") &&
		  has_same_line(state, other, "Cpus_allowed:") &&
		  has_same_line(state, other, "Mems_allowed:") &&
		  state->cgroup_len == other->cgroup_len &&
		  memcmp(state->text + state->status_len, other->text + other->status_len,
			 other->cgroup_len) == 0;
	free(other);
	return is_same;
}

bool caller_state_is_like(const struct caller_state *state, pid_t pid)
{
	struct caller_state *other = new_state();
	struct caller_fixed *fixed = other ? &other->fixed : NULL;
	char dir[48];
	bool is_same;

	snprintf(dir, sizeof(dir), "/proc/%d/root", (int)pid);
	is_same = other && read_root(dir, fixed) == 0 && read_limits(pid, fixed->limits) == 0 &&
		  read_scheduling(pid, &fixed->sched) == 0;
	snprintf(dir, sizeof(dir), "/proc/%d/task/%d", (int)pid, (int)pid);
	is_same = is_same && read_in(dir, read_files, other) == 0 && other->len == state->len &&
		  memcmp(other->text, state->text, state->len) == 0 &&
		  memcmp(fixed->limits, state->fixed.limits, sizeof(fixed->limits)) == 0 &&
		  memcmp(&fixed->sched, &state->fixed.sched, sizeof(fixed->sched)) == 0 &&
		  fixed->root_dev == state->fixed.root_dev &&
		  fixed->root_ino == state->fixed.root_ino &&
		  fixed->root_mount == state->fixed.root_mount;
	free(other);
	return is_same;
}

bool caller_state_is_unfiltered(const struct caller_state *state)
{
	return count_filters(state) == 0;
}

size_t caller_state_size(const struct caller_state *state)
{
	return sizeof(*state) + state->len;
}

struct caller_state *caller_state_copy(const void *piece, size_t size)
{
	struct caller_state head, *copy;

	if (size < sizeof(head))
		return NULL;
	memcpy(&head, piece, sizeof(head));
	if (head.len > STATUS_BYTES || size != sizeof(head) + head.len ||
	    head.status_len > head.len || head.cgroup_len > head.len - head.status_len)
		return NULL;
	copy = new_state();
	if (copy)
		memcpy(copy, piece, size);
	return copy;
}

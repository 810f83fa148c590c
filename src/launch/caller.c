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
	struct utsname names; /* the domain name is copied into the sandbox */
	char fill[sizeof(long) - sizeof(struct utsname) % sizeof(long)];
};

struct caller_state {
	struct caller_fixed fixed;
	size_t len;
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

/* @dir_fd: the thread's directory in /proc. Fills @text (of STATUS_BYTES): the length, or -errno.
 */
static ssize_t read_files(int dir_fd, char *text)
{
	static const char *const links[] = { "ns/user", "ns/mnt", "ns/pid_for_children",
					     "ns/time_for_children" };
	ssize_t n = read_proc(dir_fd, "status", text, STATUS_BYTES);
	size_t len;

	if (n < 0)
		return n;
	text[n] = '\0'; /* it did not fill the buffer */
	len = keep_lines(text, (size_t)n);
	n = read_proc(dir_fd, "cgroup", text + len, STATUS_BYTES - len);
	/* ENOENT, here and below: the kernel has no such thing. */
	if (n < 0 && n != -ENOENT)
		return n;
	len += n < 0 ? 0 : (size_t)n;
	/* The label of AppArmor, SELinux and their like; without one of them it cannot be read. */
	n = read_proc(dir_fd, "attr/current", text + len, STATUS_BYTES - len);
	if (n < 0 && n != -EINVAL && n != -ENOENT && n != -EOPNOTSUPP)
		return n;
	len += n < 0 ? 0 : (size_t)n;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		n = readlinkat(dir_fd, links[i], text + len, STATUS_BYTES - len);
		if (n < 0 && errno != ENOENT)
			return -errno;
		if (n >= 0 && (size_t)n == STATUS_BYTES - len)
			return -EFBIG;
		len += n < 0 ? 0 : (size_t)n;
	}
	return (ssize_t)len;
}

static ssize_t read_text(char *text)
{
	int dir_fd = open("/proc/thread-self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ssize_t len;

	if (dir_fd < 0)
		return -errno;
	len = read_files(dir_fd, text);
	close(dir_fd);
	return len;
}

/* A new root directory shows another machine, even with the same mounts. */
static int read_root(struct caller_fixed *ret)
{
	struct statx st;

	if (syscall(SYS_statx, AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &st) < 0)
		return -errno;
	ret->root_dev = ((uint64_t)st.stx_dev_major << 32) | st.stx_dev_minor;
	ret->root_ino = st.stx_ino;
	ret->root_mount = st.stx_mnt_id;
	return 0;
}

static int read_fixed(struct caller_fixed *ret)
{
	int r = read_root(ret);

	if (r < 0)
		return r;
	for (int i = 0; i < RESOURCES; i++)
		if (syscall(SYS_prlimit64, 0, i, NULL, ret->limits[i]) < 0)
			return -errno;
	if (syscall(SYS_sched_getattr, 0, &ret->sched, sizeof(ret->sched), 0) < 0)
		return -errno;
	/* These cannot fail, or only where they do not exist: then they are the same every time. */
	ret->personality = personality(ASK_PERSONALITY);
	ret->io_priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
	ret->timer_slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
	ret->no_huge_pages = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
	ret->securebits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	return uname(&ret->names) < 0 ? -errno : 0;
}

int caller_state_read(struct caller_state **ret)
{
	struct caller_state *state = calloc(1, sizeof(*state) + STATUS_BYTES);
	ssize_t r;

	if (!state)
		return -ENOMEM;
	r = read_fixed(&state->fixed);
	if (r == 0)
		r = read_text(state->text);
	if (r < 0) {
		free(state);
		return (int)r;
	}
	state->len = (size_t)r;
	*ret = state;
	return 0;
}

bool caller_state_equals(const struct caller_state *a, const struct caller_state *b)
{
	return a->len == b->len && memcmp(&a->fixed, &b->fixed, sizeof(a->fixed)) == 0 &&
	       memcmp(a->text, b->text, a->len) == 0;
}

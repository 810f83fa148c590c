/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: keep small what the kernel remembers for the sandbox's inotify instances.
 * Mustn't: let the command run if that fails, or change anything outside: each user namespace has
 * numbers of its own below those of its parents (/proc/sys/user).
 *
 * An instance that nobody reads holds 16,384 events, of half a KiB if the names are long; a watch
 * holds an inode. Neither belongs to a process, so only a control group counts them, and the user's
 * other programs share the 128 instances that the kernel allows. Without namespaces the filter
 * refuses inotify.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/fcntl.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"

#define INSTANCES_MIN 8
#define INSTANCES_MAX 64
#define WATCHES_MAX 65536

/* A quarter of the memory limit in full queues of 8 MiB: what a run may pass its limit by. */
#define MEMORY_PER_INSTANCE ((uint64_t)32 << 20)

long quotas_open(struct init *in, int proc_fd)
{
	long fd = raw4(__NR_openat, proc_fd, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd >= 0)
		in->quotas_fd = (int)fd;
	return fd;
}

/* The kernel takes the lower of this and what the namespaces around allow. */
static long set_quota(const struct init *in, const char *name, uint64_t value)
{
	char digits[24];
	size_t len = append_number(digits, 0, sizeof(digits), value);
	long r, fd = raw4(__NR_openat, in->quotas_fd, name, O_WRONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	r = raw3(__NR_write, fd, digits, len);
	close_fd(fd);
	return r;
}

static uint64_t instances_for(uint64_t memory_bytes)
{
	uint64_t n = memory_bytes / MEMORY_PER_INSTANCE;

	if (!memory_bytes || n > INSTANCES_MAX)
		return INSTANCES_MAX;
	return n < INSTANCES_MIN ? INSTANCES_MIN : n;
}

void set_quotas(struct init *in)
{
	uint64_t memory = in->limits.memory_bytes;
	long r = set_quota(in, "max_inotify_instances", instances_for(memory));

	if (r >= 0 && memory)
		r = set_quota(in, "max_inotify_watches", WATCHES_MAX);
	if (r < 0)
		fail(in, STAGE_LIMITS, STEP_LIMITS_QUOTAS, r);
	close_fd(in->quotas_fd);
	in->quotas_fd = -1;
}

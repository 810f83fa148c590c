/* SPDX-License-Identifier: Apache-2.0 */
/* The control group of one run: making, filling, reading and removing it. */
#include "launch/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "format/control.h"
#include "launch/launch.h"
#include "sys/calls.h"

#define TEXT_MAX 8192 /* memory.stat is the longest */
#define MAKE_TRIES 8
#define TASKS_MAX 4194304 /* the kernel's maximum */

static int write_number(const struct cgroup *cgroup, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return cgroup_write(cgroup->dir_fd, name, text);
}

static int write_limits(const struct cgroup *cgroup, const struct cgroup_limits *limits)
{
	uint64_t tasks = limits->procs + limits->init_tasks;
	int r = write_number(cgroup, "pids.max", tasks < TASKS_MAX ? tasks : TASKS_MAX);

	if (r < 0 || limits->memory_bytes == 0)
		return r;
	r = write_number(cgroup, "memory.max", limits->memory_bytes);
	if (r == 0 && limits->kills_group)
		r = cgroup_write(cgroup->dir_fd, "memory.oom.group", "1");
	/* Swapped memory counts, too. A kernel without swap may not have the file. */
	if (r == 0)
		r = cgroup_write(cgroup->dir_fd, "memory.swap.max", "0");
	return r == -ENOENT ? 0 : r;
}

/* A new directory with our lock on it. */
static int make_locked(const struct cgroup_home *home, struct cgroup *c)
{
	uint64_t number;
	int r, guard_fd;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(c->name, sizeof(c->name), CGROUP_PREFIX "%d-%016" PRIx64, (int)getpid(), number);
	/* Keeps other launchers from sweeping meanwhile. If it fails, cgroup_make() tries again. */
	guard_fd = sys_openat(home->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (guard_fd < 0)
		return guard_fd;
	flock(guard_fd, LOCK_SH | LOCK_NB);
	r = sys_mkdirat(home->dir_fd, c->name, 0700);
	if (r == 0) {
		c->dir_fd =
			sys_openat(home->dir_fd, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		r = c->dir_fd < 0 ? c->dir_fd : 0;
		if (r == 0 && flock(c->dir_fd, LOCK_SH | LOCK_NB) < 0)
			r = -errno;
		if (r < 0)
			unlinkat(home->dir_fd, c->name, AT_REMOVEDIR);
	}
	close(guard_fd);
	return r;
}

static int make(const struct cgroup_home *home, const struct cgroup_limits *limits,
		struct cgroup *ret)
{
	struct cgroup c = { .dir_fd = -1,
			    .init_tasks = limits->init_tasks,
			    .has_cpu = home->has_cpu };
	int r = make_locked(home, &c);

	if (r == 0) {
		r = write_limits(&c, limits);
		if (r < 0)
			unlinkat(home->dir_fd, c.name, AT_REMOVEDIR);
	}
	if (r < 0)
		cgroup_forget(&c);
	else
		*ret = c;
	return r;
}

int cgroup_make(const struct cgroup_home *home, const struct cgroup_limits *limits,
		struct cgroup *ret)
{
	int r = 0;

	for (int i = 0; i < MAKE_TRIES; i++) {
		r = make(home, limits, ret);
		/* Another launcher's sweep was faster. */
		if (r != -EWOULDBLOCK && r != -ENOENT && r != -ENODEV)
			break;
	}
	return r;
}

int cgroup_enter(const struct cgroup *cgroup, pid_t pid)
{
	return write_number(cgroup, "cgroup.procs", (uint64_t)pid);
}

int cgroup_open_files(const struct cgroup *cgroup, bool cpu, int ret_fds[CGROUP_FILES])
{
	static const struct {
		const char *name;
		int flags;
	} files[CGROUP_FILES] = {
		{ "memory.events", O_RDONLY },
		{ "cpu.stat", O_RDONLY },
		{ "cpu.max", O_WRONLY },
	};
	int n = cpu && cgroup->has_cpu ? CGROUP_FILES : CGROUP_FILES - 1;

	for (int i = 0; i < n; i++) {
		ret_fds[i] =
			sys_openat(cgroup->dir_fd, files[i].name, files[i].flags | O_CLOEXEC, 0);
		if (ret_fds[i] < 0) {
			int r = ret_fds[i];

			while (i > 0)
				close(ret_fds[--i]);
			return r;
		}
	}
	return n;
}

int cgroup_kill(const struct cgroup *cgroup)
{
	/* A throttled task cannot exit either. */
	if (cgroup->has_cpu)
		cgroup_write(cgroup->dir_fd, "cpu.max", "max");
	return cgroup_write(cgroup->dir_fd, "cgroup.kill", "1");
}

static int64_t now_ms(void)
{
	return (int64_t)(clock_ns() / 1000000u);
}

int cgroup_wait_empty(const struct cgroup *cgroup, int timeout_ms)
{
	struct pollfd p = { .events = POLLPRI };
	int64_t end = now_ms() + timeout_ms;
	char text[256];
	int r = -ETIMEDOUT;

	p.fd = openat(cgroup->dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (p.fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = pread(p.fd, text, sizeof(text) - 1, 0);
		int64_t left = end - now_ms();

		if (n < 0) {
			r = -errno;
			break;
		}
		text[n] = '\0';
		if (cgroup_field(text, "populated") == 0) {
			r = 0;
			break;
		}
		if (left <= 0)
			break;
		poll(&p, 1, (int)left);
	}
	close(p.fd);
	return r;
}

static uint64_t read_number(const struct cgroup *cgroup, const char *name)
{
	char text[32];

	return cgroup_read(cgroup->dir_fd, name, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10)
									 : 0;
}

/*
 * The kernel's peak includes the page cache, which is given back on demand. Unless memory ran short
 * the cache only grew, so at the peak it was at most as large as now: peak minus cache is a lower
 * bound of what the tree used.
 */
static uint64_t memory_peak(const struct cgroup *cgroup, char text[TEXT_MAX])
{
	uint64_t peak = read_number(cgroup, "memory.peak"), file, shmem; /* since 5.19 */

	if (peak == 0 || cgroup_read(cgroup->dir_fd, "memory.stat", text, TEXT_MAX) < 0)
		return 0;
	file = cgroup_field(text, "file");
	shmem = cgroup_field(text, "shmem");
	file = file > shmem ? file - shmem : 0;
	return peak > file ? peak - file : 0;
}

int cgroup_account(const struct cgroup *cgroup, bool is_reported, struct control_report *report)
{
	char text[TEXT_MAX];
	uint64_t peak = memory_peak(cgroup, text), tasks = read_number(cgroup, "pids.peak");
	int killed = 0;

	if (peak > report->memory_bytes)
		report->memory_bytes = peak;
	tasks = tasks > cgroup->init_tasks ? tasks - cgroup->init_tasks : 0; /* since 6.1 */
	if (tasks > report->procs)
		report->procs = tasks;
	if (cgroup_read(cgroup->dir_fd, "pids.events", text, sizeof(text)) > 0 &&
	    cgroup_field(text, "max"))
		report->hits |= CONTROL_HIT_PROCS;
	/* "oom" counts this group's limit only; a limit above, such as the machine's, just kills.
	 */
	if (cgroup_read(cgroup->dir_fd, "memory.events", text, sizeof(text)) > 0)
		killed = cgroup_field(text, "oom") && cgroup_field(text, "oom_kill");
	if (killed && report->limit == CONTROL_LIMIT_NONE)
		report->limit = CONTROL_LIMIT_MEMORY;
	if (!is_reported && cgroup_read(cgroup->dir_fd, "cpu.stat", text, sizeof(text)) > 0) {
		report->user_us = cgroup_field(text, "user_usec");
		report->system_us = cgroup_field(text, "system_usec");
	}
	return killed;
}

int cgroup_remove(const struct cgroup_home *home, struct cgroup *cgroup)
{
	if (cgroup->dir_fd < 0)
		return 0;
	if (unlinkat(home->dir_fd, cgroup->name, AT_REMOVEDIR) < 0 && errno == EBUSY)
		return -EBUSY;
	cgroup_forget(cgroup);
	return 0;
}

void cgroup_forget(struct cgroup *cgroup)
{
	if (cgroup->dir_fd >= 0)
		close(cgroup->dir_fd);
	*cgroup = (struct cgroup)CGROUP_INIT;
}

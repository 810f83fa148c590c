/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes are the run's: those that have its init above them. Whoever loses a parent inside
 * gets init for one, so the way up from each of them leads there.
 *
 * A process that has ended cannot be asked for, and the driver tells what it did a little later. So
 * those that were found are kept.
 */
#include "meter/meter.h"

#include <asm/unistd.h>
#include <linux/fcntl.h>

#include "bare/text.h"

#define DEPTH_MAX 4096
#define KNOWN_MAX 512
#define STAT_MAX 512

static uint32_t known[KNOWN_MAX];
static unsigned n_known; /* how many there were, in a ring */

/* What the kernel says that the parent of @stat's process is; 0 = it says nothing. */
static uint32_t parent_in(const char *stat)
{
	const char *end = NULL;
	uint64_t parent;

	/* "PID (name) S PARENT": the name may have anything in it. */
	for (const char *at = stat; *at; at++)
		if (*at == ')')
			end = at;
	if (!end || end[1] != ' ' || !end[2] || end[3] != ' ')
		return 0;
	read_number(end + 4, &parent);
	return parent <= INT32_MAX ? (uint32_t)parent : 0;
}

static uint32_t parent_of(uint32_t pid)
{
	char path[64], text[STAT_MAX];
	size_t len = text_number(path, sizeof(path), "/proc/", pid);
	long fd, n;

	append_text(path, len, sizeof(path), "/stat");
	fd = raw_syscall(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return 0;
	n = raw_syscall(__NR_read, fd, (long)text, sizeof(text) - 1, 0, 0, 0);
	close_fd(fd);
	text[n > 0 ? n : 0] = '\0';
	return parent_in(text);
}

static bool is_known(uint32_t pid)
{
	unsigned n = n_known < KNOWN_MAX ? n_known : KNOWN_MAX;

	for (unsigned i = 0; i < n; i++)
		if (known[i] == pid)
			return true;
	return false;
}

bool tree_has(uint32_t init_pid, uint32_t pid)
{
	uint32_t at = pid;

	if (pid == 0 || init_pid == 0)
		return false;
	if (pid != init_pid) {
		at = parent_of(pid);
		if (at == 0) /* it has ended; a number that is in use again is another's */
			return is_known(pid);
	}
	for (int depth = 0; at > 1 && at != init_pid && depth < DEPTH_MAX; depth++)
		at = parent_of(at);
	if (at != init_pid)
		return false;
	if (!is_known(pid))
		known[n_known++ % KNOWN_MAX] = pid;
	return true;
}

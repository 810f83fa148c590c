/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workspace/store/store_dir.h"

#define STATE_SIZE 256 /* with the newline; less than a sector */
#define STATE_HEAD "run 1 "
#define STATE_FORMAT STATE_HEAD "%" PRIu64 " %jd %ld %jd %ld %d %" PRIu64 " %" PRIu64

int run_state_write(int lock_fd, const struct ws_meta *meta)
{
	char line[STATE_SIZE + 1];
	int n = snprintf(line, sizeof(line), STATE_FORMAT, meta->runs, (intmax_t)meta->used.tv_sec,
			 meta->used.tv_nsec, (intmax_t)meta->run_started.tv_sec,
			 meta->run_started.tv_nsec, meta->is_dirty, meta->usage_bytes,
			 meta->usage_inodes);
	ssize_t done;

	if (n < 0 || n >= STATE_SIZE)
		return -EOVERFLOW;
	memset(line + n, ' ', (size_t)(STATE_SIZE - n));
	line[STATE_SIZE - 1] = '\n';
	done = pwrite(lock_fd, line, STATE_SIZE, 0);
	if (done < 0)
		return -errno;
	return done == STATE_SIZE ? 0 : -ENOSPC;
}

/* The next number of the line; false: there is none. */
static bool take(const char **at, uint64_t *ret)
{
	char *end;

	*at += strspn(*at, " ");
	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*ret = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0;
}

static bool take_time(const char **at, struct timespec *ret)
{
	uint64_t s, ns;

	if (!take(at, &s) || !take(at, &ns) || s > INT64_MAX || ns >= 1000000000)
		return false;
	*ret = (struct timespec){ .tv_sec = (time_t)s, .tv_nsec = (long)ns };
	return true;
}

void run_state_read(int lock_fd, struct ws_meta *meta)
{
	char line[STATE_SIZE + 1] = "";
	const char *at = line + sizeof(STATE_HEAD) - 1;
	struct ws_meta read = *meta;
	uint64_t is_dirty;

	if (pread(lock_fd, line, STATE_SIZE, 0) != STATE_SIZE || line[STATE_SIZE - 1] != '\n' ||
	    strncmp(line, STATE_HEAD, sizeof(STATE_HEAD) - 1) != 0)
		return;
	if (!take(&at, &read.runs) || !take_time(&at, &read.used) ||
	    !take_time(&at, &read.run_started) || !take(&at, &is_dirty) ||
	    !take(&at, &read.usage_bytes) || !take(&at, &read.usage_inodes))
		return;
	read.is_dirty = is_dirty != 0;
	*meta = read;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "workspace/store_internal.h"

#define STATE_SIZE 256 /* with the newline; less than a sector */
#define STATE_FORMAT "run 1 %" PRIu64 " %jd %ld %jd %ld %d %" PRIu64 " %" PRIu64

int run_state_write(int lock_fd, const struct ws_meta *meta)
{
	char line[STATE_SIZE + 1];
	int n = snprintf(line, sizeof(line), STATE_FORMAT, meta->runs, (intmax_t)meta->used.tv_sec,
			 meta->used.tv_nsec, (intmax_t)meta->run_started.tv_sec,
			 meta->run_started.tv_nsec, meta->is_dirty, meta->held_bytes,
			 meta->held_inodes);
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

static bool is_time(intmax_t s, long ns)
{
	return s >= 0 && ns >= 0 && ns < 1000000000;
}

void run_state_read(int lock_fd, struct ws_meta *meta)
{
	char line[STATE_SIZE + 1] = "";
	intmax_t used_s, started_s;
	long used_ns, started_ns;
	int is_dirty;
	uint64_t runs, held_bytes, held_inodes;

	if (pread(lock_fd, line, STATE_SIZE, 0) != STATE_SIZE || line[STATE_SIZE - 1] != '\n' ||
	    sscanf(line, "run 1 %" SCNu64 " %jd %ld %jd %ld %d %" SCNu64 " %" SCNu64, &runs,
		   &used_s, &used_ns, &started_s, &started_ns, &is_dirty, &held_bytes,
		   &held_inodes) != 8 ||
	    !is_time(used_s, used_ns) || !is_time(started_s, started_ns))
		return;
	meta->runs = runs;
	meta->used = (struct timespec){ .tv_sec = used_s, .tv_nsec = used_ns };
	meta->run_started = (struct timespec){ .tv_sec = started_s, .tv_nsec = started_ns };
	meta->is_dirty = is_dirty != 0;
	meta->held_bytes = held_bytes;
	meta->held_inodes = held_inodes;
}

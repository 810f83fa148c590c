/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch/watch.h"

#include <asm/unistd.h>
#include <linux/resource.h>

#include "bare/raw.h"
#include "bare/text.h"
#include "init/procfs.h"
#include "init/watch/figures.h"

#define TEXT_MAX 1024
#define PERIOD_US 100000u /* the kernel's default */
#define PERIOD_MAX_US 1000000u
#define QUOTA_MIN_US 1000u

enum {
	EVENTS,
	CPU_STAT,
	CPU_MAX
};

struct used {
	uint64_t user_us, system_us;
};

static struct {
	struct used group, own; /* when the command was started */
} before;

static int read_file(struct init *in, int which, char text[TEXT_MAX])
{
	long n = -1;

	if (in->cgroup_fds[which] >= 0)
		n = raw_syscall(__NR_pread64, in->cgroup_fds[which], RAW_ARG(text), TEXT_MAX - 1, 0,
				0, 0);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

static struct used own_used(void)
{
	struct rusage usage;

	memset(&usage, 0, sizeof(usage));
	raw_syscall(__NR_getrusage, RUSAGE_SELF, RAW_ARG(&usage), 0, 0, 0, 0);
	return (struct used){
		(uint64_t)usage.ru_utime.tv_sec * 1000000u + (uint64_t)usage.ru_utime.tv_usec,
		(uint64_t)usage.ru_stime.tv_sec * 1000000u + (uint64_t)usage.ru_stime.tv_usec,
	};
}

static int group_used(struct init *in, struct used *ret)
{
	char text[TEXT_MAX];

	if (!read_file(in, CPU_STAT, text))
		return 0;
	ret->user_us = proc_field(text, "user_usec ");
	ret->system_us = proc_field(text, "system_usec ");
	return 1;
}

/* @now less what was there before and what is our own; 0 if the two clocks disagree, which are not
 * read at once. */
static uint64_t less_own(uint64_t now, uint64_t then, uint64_t own_now, uint64_t own_then)
{
	uint64_t off = then + (own_now - own_then);

	return above(now, off);
}

int cgroup_cpu_used(struct init *in, uint64_t *ret_user_us, uint64_t *ret_system_us)
{
	struct used now, own = own_used();

	if (!group_used(in, &now))
		return 0;
	*ret_user_us = less_own(now.user_us, before.group.user_us, own.user_us, before.own.user_us);
	*ret_system_us = less_own(now.system_us, before.group.system_us, own.system_us,
				  before.own.system_us);
	return 1;
}

long cgroup_begin(struct init *in)
{
	uint64_t period = PERIOD_US, quota = in->limits.cpu_milli * PERIOD_US / 1000;
	char text[48];
	size_t n;
	long r = 0;

	if (in->cgroup_fds[CPU_MAX] >= 0) {
		if (quota < QUOTA_MIN_US) {
			period = PERIOD_MAX_US;
			quota = in->limits.cpu_milli * PERIOD_MAX_US / 1000;
		}
		n = append_number(text, 0, sizeof(text), quota);
		n = append_text(text, n, sizeof(text), " ");
		n = append_number(text, n, sizeof(text), period);
		r = raw3(__NR_write, in->cgroup_fds[CPU_MAX], text, n);
		in->limits.cpu_milli = 0;
	}
	before.own = own_used();
	group_used(in, &before.group);
	return r;
}

void cgroup_release_cpu(struct init *in)
{
	if (in->cgroup_fds[CPU_MAX] >= 0)
		raw_syscall(__NR_write, in->cgroup_fds[CPU_MAX], RAW_ARG("max"), 3, 0, 0, 0);
}

void cgroup_check_memory(struct init *in)
{
	char text[TEXT_MAX];

	/* The machine may also run out of memory, which is not this limit. */
	if (in->report.limit == CONTROL_LIMIT_NONE && read_file(in, EVENTS, text) &&
	    proc_field(text, "oom ") && proc_field(text, "oom_kill "))
		in->report.limit = CONTROL_LIMIT_MEMORY;
}

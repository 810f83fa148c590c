/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: give this process the one identity it has inside, mapped to a host id that is not 0.
 * Mustn't: go on with an unmapped id, with the caller's supplementary groups (started by root), or
 * leave setgroups() open to an ordinary user's sandbox.
 *
 * An ordinary user may map only itself, which the process can do alone. For root the supervisor
 * has written the maps before it sent the plan, and this process takes the ids by setresuid.
 */
#include "init/init.h"
#include "init/tree.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/prctl.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"

static long write_file(const char *path, const char *text, size_t len)
{
	long fd = raw4(__NR_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
	long r;

	if (fd < 0)
		return fd;
	r = raw3(__NR_write, fd, text, len);
	close_fd(fd);
	if (r < 0)
		return r;
	return (size_t)r == len ? 0 : -EIO;
}

/* Runs before this process makes itself unreadable: from then on its own /proc files are shut. */
void map_self(struct init *in, const char *uid_map, const char *gid_map)
{
	long r;

	r = write_file("/proc/self/setgroups", "deny", 4);
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_SETGROUPS_FILE, r);
	r = write_file("/proc/self/uid_map", uid_map, str_len(uid_map));
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_UID_MAP, r);
	r = write_file("/proc/self/gid_map", gid_map, str_len(gid_map));
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_GID_MAP, r);
}

/* Root of a rootless container: no process in it may change groups, only root outside may. */
static int groups_are_locked(void)
{
	char text[8] = "";
	long fd = raw4(__NR_openat, AT_FDCWD, "/proc/self/setgroups", O_RDONLY | O_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	raw_syscall(__NR_read, fd, (long)text, sizeof(text) - 1, 0, 0, 0);
	close_fd(fd);
	return text[0] == 'd';
}

static void take_ids(struct init *in)
{
	const struct plan_header *plan = in->plan;
	long r;

	r = raw2(__NR_setgroups, 0, 0);
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_GROUPS, r);
	r = raw3(__NR_setresgid, plan->inner_gid, plan->inner_gid, plan->inner_gid);
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_SET_GID, r);
	r = raw3(__NR_setresuid, plan->inner_uid, plan->inner_uid, plan->inner_uid);
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_SET_UID, r);
	/* Changing ids disarms the parent-death signal and makes the process readable again. */
	if ((plan->flags & PLAN_PDEATHSIG) && plan->level == PLAN_LEVEL_NAMESPACES) {
		r = raw2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL_NR);
		if (r < 0)
			fail(in, STAGE_USERNS, STEP_USERNS_PDEATHSIG, r);
	}
	r = raw2(__NR_prctl, PR_SET_DUMPABLE, 0);
	if (r < 0)
		fail(in, STAGE_USERNS, STEP_USERNS_DUMPABLE, r);
}

void stage_userns(struct init *in)
{
	const struct plan_header *plan = in->plan;
	long r;

	if (plan->level == PLAN_LEVEL_LANDLOCK) {
		r = raw2(__NR_prctl, PR_SET_CHILD_SUBREAPER, 1);
		if (r < 0)
			fail(in, STAGE_USERNS, STEP_USERNS_SUBREAPER, r);
		r = tree_open(in);
		if (r < 0)
			fail(in, STAGE_USERNS, STEP_USERNS_PROC, r);
		if (plan->flags & PLAN_SETIDS) {
			take_ids(in);
		} else if (plan->flags & PLAN_DROP_GROUPS) {
			r = raw2(__NR_setgroups, 0, 0);
			if (r < 0 && !(r == -EPERM && groups_are_locked()))
				fail(in, STAGE_USERNS, STEP_USERNS_GROUPS, r);
		}
		return;
	}
	if (plan->outer_uid == 0)
		fail(in, STAGE_USERNS, STEP_USERNS_OUTER_ROOT, -EPERM);
	if (plan->flags & PLAN_SETIDS)
		take_ids(in);
	r = raw0(__NR_getuid);
	if (r != (long)plan->inner_uid)
		fail(in, STAGE_USERNS, STEP_USERNS_UID, r < 0 ? r : -EOVERFLOW);
	r = raw0(__NR_getgid);
	if (r != (long)plan->inner_gid)
		fail(in, STAGE_USERNS, STEP_USERNS_GID, r < 0 ? r : -EOVERFLOW);
	if (plan->hostname) {
		const char *name = str_at(in, plan->hostname);

		r = raw2(__NR_sethostname, name, str_len(name));
		if (r < 0)
			fail(in, STAGE_USERNS, STEP_USERNS_HOSTNAME, r);
	}
}

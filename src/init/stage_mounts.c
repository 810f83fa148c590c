/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: build the new root from the plan's steps and leave nothing of the old one reachable.
 * Mustn't: follow a symbolic link on the way to a mount point, use an object whose identity is not
 * the planned one, leave the root itself writable, show a file system of the kernel that is not the
 * sandbox's own, or keep a descriptor of the host's tree.
 *
 * The new root is a tmpfs attached over "/" of this process's own mount namespace; everything is
 * placed by descriptor relative to it and taken by descriptor from the old root. pivot_root puts
 * the old tree on top of the new one, from where it goes when the view is complete. At level
 * `landlock` there is no view to build: the steps are Landlock rules only.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"
#include "init/mount_ops.h"
#include "init/watch/watch.h"

#define MNT_DETACH 2

static void make_root(struct init *in)
{
	char number[24];
	long fs, r;

	fs = raw2(__NR_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_FSOPEN, fs);
	append_number(number, 0, sizeof(number), in->plan->tmpfs_bytes);
	r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, "size", number, 0);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_SIZE, r);
	append_number(number, 0, sizeof(number), in->plan->tmpfs_inodes);
	r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, "nr_inodes", number, 0);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_INODES, r);
	r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_MODE, r);
	r = raw5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_CREATE, r);
	r = raw3(__NR_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_FSMOUNT, r);
	in->root_fd = (int)r;
	close_fd(fs);
	r = raw5(__NR_move_mount, in->root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_ATTACH, r);
}

/* The old tree stays reachable through host_fd until leave_host(). */
static void enter_root(struct init *in)
{
	long r = raw1(__NR_fchdir, in->root_fd);

	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_ENTER, r);
	r = raw2(__NR_pivot_root, ".", ".");
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_PIVOT, r);
}

static void leave_host(struct init *in)
{
	const struct mount_attr read_only = { .attr_set = MOUNT_ATTR_RDONLY };
	long r;

	/* The old root lies on top of the new one: "." is it. */
	r = raw2(__NR_umount2, ".", MNT_DETACH);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_DETACH, r);
	r = cover_kernel_mounts(in);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_KERNEL, r);
	r = raw5(__NR_mount_setattr, in->root_fd, "", AT_EMPTY_PATH, &read_only, sizeof(read_only));
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_READ_ONLY, r);
	close_fd(in->root_fd);
	in->root_fd = -1;
	r = raw1(__NR_chdir, "/");
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_CHDIR, r);
}

static void carry_out(struct init *in, uint32_t from, uint32_t to)
{
	const struct plan_op *ops = (const void *)((const char *)in->plan + in->plan->ops_off);

	for (uint32_t i = from; i < to; i++) {
		long r = mount_op(in, &ops[i]);

		if (r < 0)
			fail(in, STAGE_MOUNTS, STEP_PLAN_FIRST + i, r);
	}
	leave_pins();
}

void stage_common(struct init *in)
{
	const struct plan_header *plan = in->plan;
	long r;

	/* A kernel without Landlock: the plan says so, and so will the receipt. */
	r = plan->handled_fs ? landlock_create(in) : 0;
	if (r < 0)
		fail(in, STAGE_LANDLOCK, STEP_LANDLOCK_RULESET, r);
	r = raw4(__NR_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_HOST_ROOT, r);
	in->host_fd = (int)r;
	in->caller_umask = raw_syscall(__NR_umask, 0, 0, 0, 0, 0, 0);
	if (plan->level == PLAN_LEVEL_NAMESPACES)
		make_root(in);
	carry_out(in, 0, plan->n_common_ops);
	in->common_done = plan->n_common_ops;
	if (plan->level == PLAN_LEVEL_NAMESPACES)
		enter_root(in);
}

/* Without a view of its own a link that a run left could lead anywhere. */
static long enter_cwd(struct init *in)
{
	const struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	long r, fd;

	if (in->plan->level == PLAN_LEVEL_NAMESPACES)
		return raw1(__NR_chdir, str_at(in, in->plan->cwd));
	fd = raw4(__NR_openat2, AT_FDCWD, str_at(in, in->plan->cwd), &how, sizeof(how));
	if (fd < 0)
		return fd;
	r = raw1(__NR_fchdir, fd);
	close_fd(fd);
	return r;
}

void stage_mounts(struct init *in)
{
	const struct plan_header *plan = in->plan;
	long r;

	/* The supervisor compares the plans; a mix-up must not lead to an incomplete view. */
	if (in->common_done != plan->n_common_ops)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_COMMON, -EINVAL);
	carry_out(in, in->common_done, plan->n_ops);
	if (plan->level == PLAN_LEVEL_NAMESPACES)
		leave_host(in);
	close_fd(in->host_fd);
	in->host_fd = -1;
	raw_syscall(__NR_umask, 022, 0, 0, 0, 0, 0); /* ours: the command gets the caller's */
	r = enter_cwd(in);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_CWD, r);
	r = disk_open(in);
	if (r < 0)
		fail(in, STAGE_MOUNTS, STEP_MOUNTS_WORKSPACE, r);
	reused_done();
}

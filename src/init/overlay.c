/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: show a directory of the host copy-on-write, with the upper and work directories that the
 * supervisor made.
 * Mustn't: leave these reachable from inside by any name, or let the overlay follow what it finds
 * in them.
 *
 * The kernel takes the directories by path. So they are attached to the root tmpfs for a moment,
 * under names that nothing else has, and detached again; by then the overlay has private copies of
 * those mounts. It acts in them with the credentials of its maker, which is this process: our own
 * id, and capabilities over what belongs to it in this user namespace.
 *
 * - userxattr: marks are user.* attributes. The kernel escapes what the guest sets under that name,
 *   does not follow redirects and refuses metacopy.
 * - index and metacopy off: nothing in the upper directory points anywhere.
 * - xino off: inode numbers are those of the files.
 */
#include "init/mount_ops.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/mount.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "init/watch/watch.h"

#define DETACH 2
#define LAYERS ".cordon-layers"
#define LOWER ".cordon-lower"
#define OWN_DIR                                                                                    \
	LAYERS "/work"                                                                             \
	       "/work" /* the kernel's, beside the upper directory */

static long attach(struct init *in, int mount_fd, const char *name)
{
	/* Its copies of the mounts must not be shared with other mounts. */
	const struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
					 .propagation = MS_PRIVATE };
	long r = raw3(__NR_mkdirat, in->root_fd, name, 0700);

	if (r >= 0)
		r = raw5(__NR_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", in->root_fd, name, MOVE_MOUNT_F_EMPTY_PATH);
	return r;
}

static long detach(struct init *in, const char *path)
{
	long r = raw2(__NR_umount2, path, DETACH);

	return r < 0 ? r : raw3(__NR_unlinkat, in->root_fd, path + 1, AT_REMOVEDIR);
}

long op_upper(struct init *in, const struct plan_op *op)
{
	long r, mount_fd = source_mount(in, op);

	if (mount_fd < 0)
		return mount_fd;
	r = in->limits.disk_bytes ? disk_take_upper(in, (int)mount_fd) : 0;
	if (r >= 0)
		r = attach(in, (int)mount_fd, LAYERS);
	close_fd(mount_fd);
	return r;
}

/*
 * Volatile: no syncing. Otherwise the end of every run would sync the whole file system, and the
 * first write to each file of the base would sync that file. The kernel leaves a mark so that such
 * an upper directory is not mounted again after a crash of the machine; we remove it.
 */
static void forget_volatile(struct init *in)
{
	raw3(__NR_unlinkat, in->root_fd, OWN_DIR "/incompat/volatile/dirty", 0);
	raw3(__NR_unlinkat, in->root_fd, OWN_DIR "/incompat/volatile", AT_REMOVEDIR);
	raw3(__NR_unlinkat, in->root_fd, OWN_DIR "/incompat", AT_REMOVEDIR);
}

static long make_overlay(void)
{
	static const char *const options[][2] = {
		{ "lowerdir", "/" LOWER },
		{ "upperdir", "/" LAYERS "/upper" },
		{ "workdir", "/" LAYERS "/work" },
		{ "index", "off" },
		{ "xino", "off" },
		{ "metacopy", "off" },
	};
	long r, mount_fd, fs = raw2(__NR_fsopen, "overlay", FSOPEN_CLOEXEC);

	if (fs < 0)
		return fs;
	r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", 0, 0);
	if (r >= 0)
		r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_FLAG, "volatile", 0, 0);
	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]) && r >= 0; i++)
		r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0);
	if (r >= 0)
		r = raw5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	mount_fd = r < 0 ? r : raw3(__NR_fsmount, fs, FSMOUNT_CLOEXEC, 0);
	close_fd(fs);
	return mount_fd;
}

long op_overlay(struct init *in, const struct plan_op *op)
{
	long r, lower_fd, mount_fd = make_point(in, op);

	if (mount_fd < 0)
		return mount_fd;
	lower_fd = source_mount(in, op);
	if (lower_fd < 0)
		return lower_fd;
	r = attach(in, (int)lower_fd, LOWER);
	close_fd(lower_fd);
	if (r < 0)
		return r;
	forget_volatile(in);
	mount_fd = make_overlay();
	if (mount_fd < 0)
		return mount_fd;
	r = detach(in, "/" LOWER);
	if (r >= 0)
		r = detach(in, "/" LAYERS);
	if (r >= 0)
		r = place_mount(in, (int)mount_fd, op);
	close_fd(mount_fd);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: leave nothing of the kernel's own file systems (src/uapi/kernel_fs.h) in the view but
 * what the sandbox has of its own. A grant brings everything along that is mounted below it, such
 * as the /proc of a chroot: the host's processes, and by way of /proc/PID/root its whole tree.
 * Mustn't: go on if one of them cannot be covered.
 *
 * The mounts came from a namespace with other rights, so the kernel does not let them be taken away
 * here. It does not let a directory be bound without what is mounted below it, either, which is
 * how a grant with something below it is told from one without (`has_submounts`).
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "bare/fd.h"
#include "bare/mountinfo.h"
#include "bare/raw.h"
#include "init/mount_ops.h"
#include "init/procfs.h"
#include "uapi/kernel_fs.h"

#define LINE_MAX 32768 /* a path with every byte escaped, and an overlay's options */

struct covering {
	struct init *in;
	long error;
};

static int is_below(const char *dir, const char *path)
{
	while (*dir && *dir == *path)
		dir++, path++;
	return !*dir && (!*path || *path == '/');
}

/* The sandbox's own instances, and what of a GPU's the plan puts into /sys, which is otherwise
 * missing and cannot be granted. */
static int is_own(const char *path)
{
	return is_below("/proc", path) || is_below("/dev/pts", path) || is_below("/sys", path);
}

static long cover(struct init *in, const char *path)
{
	struct statx st;
	long r, fd = open_in_root(in, path);

	if (fd == -ENOENT) /* it lies below something that is covered already */
		return 0;
	if (fd < 0)
		return fd;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
	if (r >= 0)
		r = cover_object(in, (int)fd, (st.stx_mode & S_IFMT) == S_IFDIR);
	close_fd(fd);
	return r;
}

static void look_at(void *arg, const char *line)
{
	struct covering *c = arg;
	struct mount_line mount;

	if (c->error < 0)
		return;
	/* It lies in our own buffer. */
	if (!mount_line_read((char *)(uintptr_t)line, &mount))
		c->error = -EBADMSG;
	else if (is_kernel_fs(mount.type) && !is_own(mount.point))
		c->error = cover(c->in, mount.point);
}

long cover_kernel_mounts(struct init *in)
{
	static char text[LINE_MAX];
	struct covering c = { .in = in };
	long r;

	if (!in->has_submounts)
		return 0;
	r = proc_lines(AT_FDCWD, 0, "/proc/self/mountinfo", text, sizeof(text), look_at, &c);
	return r < 0 ? r : c.error;
}

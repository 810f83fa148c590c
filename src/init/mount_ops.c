/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a plan, each a handful of system calls on descriptors. */
#include "init/mount_ops.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/random.h>
#include <linux/stat.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"
#include "init/watch/watch.h"

#define AT_RECURSIVE_TREE 0x8000
#define PROC_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define PID_FIRST 10000
#define PID_SPREAD 20000 /* stays below every kernel's kernel.pid_max */
#define STATX_WANTED (STATX_TYPE | STATX_INO)

const char *below_root(const char *path)
{
	while (*path == '/')
		path++;
	return *path ? path : ".";
}

long open_in_root(const struct init *in, const char *path)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						 RESOLVE_NO_MAGICLINKS };
	const struct spot at = spot_of(in, path);

	return raw4(__NR_openat2, at.fd, at.name, &how, sizeof(how));
}

/* Opens a host object and makes sure that it is the one the plan was made for. */
static long open_source(const struct init *in, const struct plan_op *op)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS };
	struct statx st;
	long fd, r;

	fd = raw4(__NR_openat2, in->host_fd, below_root(str_at(in, op->src)), &how, sizeof(how));
	if (fd < 0 || !(op->flags & PLAN_IDENTITY))
		return fd;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_WANTED, &st);
	if (r == 0 && (st.stx_ino != op->ino || st.stx_dev_major != op->dev_major ||
		       st.stx_dev_minor != op->dev_minor))
		r = -ESTALE;
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	return fd;
}

static unsigned recursive_flag(const struct plan_op *op)
{
	return op->flags & PLAN_FILE ? 0 : AT_RECURSIVE_TREE;
}

static long clone_tree(int fd, const char *path, unsigned flags)
{
	return raw3(__NR_open_tree, fd, path,
		    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | flags);
}

/*
 * A host's object with what is mounted below it. The kernel refuses the plain clone if there is
 * something, since all of the host's mounts are locked together here; cover_mounts.c then looks at
 * what it is. (Automounts that expire are not locked, and are mounted again when they are used.)
 */
static long clone_host(struct init *in, int fd, const char *path, unsigned flags,
		       const struct plan_op *op)
{
	long r = clone_tree(fd, path, flags);

	if (r != -EINVAL || (op->flags & PLAN_FILE))
		return r;
	in->has_submounts = 1;
	return clone_tree(fd, path, flags | AT_RECURSIVE_TREE);
}

static long set_attributes(int mount_fd, const struct plan_op *op)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID, .propagation = MS_PRIVATE };

	if (!(op->flags & PLAN_DEVICE))
		attr.attr_set |= MOUNT_ATTR_NODEV;
	else
		attr.attr_set |= MOUNT_ATTR_NOEXEC;
	if (op->flags & PLAN_RDONLY)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (op->flags & PLAN_NOEXEC)
		attr.attr_set |= MOUNT_ATTR_NOEXEC;
	return raw5(__NR_mount_setattr, mount_fd, "", AT_EMPTY_PATH | recursive_flag(op), &attr,
		    sizeof(attr));
}

long place_mount(struct init *in, int mount_fd, const struct plan_op *op)
{
	const struct spot at = spot_of(in, str_at(in, op->dst));
	long r, dst;

	r = set_attributes(mount_fd, op);
	if (r < 0)
		return r;
	r = landlock_add(in, mount_fd, op->access);
	if (r < 0)
		return r;
	/* A mount point that we just made on our own tmpfs needs no check. */
	if ((op->flags & (PLAN_MKPOINT | PLAN_REUSED)) == PLAN_MKPOINT)
		return raw5(__NR_move_mount, mount_fd, "", at.fd, at.name, MOVE_MOUNT_F_EMPTY_PATH);
	dst = open_in_root(in, str_at(in, op->dst));
	if (dst < 0)
		return dst;
	r = raw5(__NR_move_mount, mount_fd, "", dst, "",
		 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_fd(dst);
	return r >= 0 && (op->flags & PLAN_REUSED) ? reused_keep(in, op, mount_fd) : r;
}

static long make_dir(const struct init *in, const struct plan_op *op)
{
	long r;

	if (op->flags & PLAN_REUSED)
		return reused_make(in, op, 0);
	r = raw3(__NR_mkdirat, in->root_fd, below_root(str_at(in, op->dst)), op->mode);
	return r == -EEXIST ? 0 : r;
}

static long op_dir(struct init *in, const struct plan_op *op)
{
	long dir, r = make_dir(in, op);

	if (r < 0 || op->access == 0)
		return r;
	dir = open_in_root(in, str_at(in, op->dst));
	if (dir < 0)
		return dir;
	r = landlock_add(in, (int)dir, op->access);
	close_fd(dir);
	return r;
}

static long make_file(const struct init *in, const struct plan_op *op, const void *data, size_t len)
{
	long r, fd = raw4(__NR_openat, in->root_fd, below_root(str_at(in, op->dst)),
			  O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, op->mode);

	if (fd < 0)
		return fd;
	r = len ? raw3(__NR_write, fd, data, len) : 0;
	close_fd(fd);
	if (r < 0)
		return r;
	return (size_t)r == len ? 0 : -ENOSPC;
}

long make_point(const struct init *in, const struct plan_op *op)
{
	long r;

	if (!(op->flags & PLAN_MKPOINT))
		return 0;
	if (!(op->flags & PLAN_FILE))
		return make_dir(in, op);
	if (op->flags & PLAN_REUSED)
		return reused_make(in, op, 1);
	r = raw4(__NR_mknodat, in->root_fd, below_root(str_at(in, op->dst)), S_IFREG | op->mode, 0);
	return r == -EEXIST ? 0 : r;
}

long source_mount(struct init *in, const struct plan_op *op)
{
	long src, mount_fd;

	if (op->fd_index >= 0)
		return in->mount_fds[op->fd_index];
	if (!(op->flags & PLAN_IDENTITY))
		return clone_host(in, in->host_fd, below_root(str_at(in, op->src)), 0, op);
	src = open_source(in, op);
	if (src < 0)
		return src;
	mount_fd = clone_host(in, (int)src, "", AT_EMPTY_PATH, op);
	close_fd(src);
	return mount_fd;
}

static long op_bind(struct init *in, const struct plan_op *op)
{
	long mount_fd, r = make_point(in, op);

	if (r < 0)
		return r;
	mount_fd = source_mount(in, op);
	if (mount_fd < 0)
		return mount_fd;
	r = place_mount(in, (int)mount_fd, op);
	if (r >= 0 && (op->flags & PLAN_PRIVATE_DIR))
		r = disk_take_private(in, (int)mount_fd, str_at(in, op->dst));
	close_fd(mount_fd);
	return r;
}

/*
 * The directory of the last pin. Many names next to each other are pinned, and walking to each of
 * them twice by its whole path would take half of the time. It is used for steps that follow right
 * after each other, so nothing has been mounted over it since it was opened.
 */
static struct {
	int fd; /* with fd_is_open */
	int fd_is_open;
	size_t len;
	char path[PATH_MAX];
} around;

void leave_pins(void)
{
	if (around.fd_is_open)
		close_fd(around.fd);
	around.fd_is_open = 0;
}

static size_t dir_len(const char *path)
{
	size_t len = 0;

	for (size_t i = 0; path[i]; i++)
		if (path[i] == '/')
			len = i;
	return len;
}

static int is_around(const char *path, size_t len)
{
	if (!around.fd_is_open || around.len != len)
		return 0;
	while (len > 0 && around.path[len - 1] == path[len - 1])
		len--;
	return len == 0;
}

static long open_around(const struct init *in, const char *path, size_t len)
{
	long fd;

	leave_pins();
	for (size_t i = 0; i < len; i++)
		around.path[i] = path[i];
	around.path[len] = 0;
	fd = open_in_root(in, around.path);
	if (fd < 0)
		return fd;
	around.fd = (int)fd;
	around.fd_is_open = 1;
	around.len = len;
	return 0;
}

/* A pin that shows another file of the view. Takes over @object, over which that is mounted. */
static long pin_kept(struct init *in, const struct plan_op *op, int object)
{
	long r, mount_fd = clone_tree(in->root_fd, below_root(str_at(in, op->src)), 0);

	if (mount_fd < 0) {
		close_fd(object);
		return mount_fd;
	}
	r = set_attributes((int)mount_fd, op);
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", object, "",
			 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_fd(mount_fd);
	covers_keep(object);
	return r;
}

/* Like op_self(), for a name in a directory that is at hand or will be needed again. A single name
 * leads over no link and out of no directory. */
static long pin_name(struct init *in, const struct plan_op *op)
{
	const char *path = str_at(in, op->dst), *name;
	size_t len = dir_len(path);
	long mount_fd, r = is_around(path, len) ? 0 : open_around(in, path, len);

	if (r < 0)
		return r;
	name = path + len + 1;
	if (op->src) {
		r = raw4(__NR_openat, around.fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
		return r < 0 ? r : pin_kept(in, op, (int)r);
	}
	mount_fd = clone_tree(around.fd, name, AT_NO_AUTOMOUNT | recursive_flag(op));
	if (mount_fd < 0)
		return mount_fd;
	r = set_attributes((int)mount_fd, op);
	if (r >= 0)
		r = landlock_add(in, (int)mount_fd, op->access);
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", around.fd, name, MOVE_MOUNT_F_EMPTY_PATH);
	close_fd(mount_fd);
	return r;
}

static int is_plain_pin(const struct init *in, const struct plan_op *op)
{
	const char *path = str_at(in, op->dst);
	size_t len = dir_len(path);

	return op->type == PLAN_OP_PIN && !(op->flags & PLAN_REUSED) && len > 0 &&
	       len < sizeof(around.path) && spot_of(in, path).fd == in->root_fd;
}

/* PRIVATE and PIN: the object at `dst` is mounted over itself with attributes of its own. */
static long op_self(struct init *in, const struct plan_op *op)
{
	long object, mount_fd, r = op->type == PLAN_OP_PRIVATE ? make_dir(in, op) : 0;

	if (r < 0)
		return r;
	object = open_in_root(in, str_at(in, op->dst));
	if (object < 0)
		return object;
	if (op->src)
		return pin_kept(in, op, (int)object);
	mount_fd = clone_tree((int)object, "", AT_EMPTY_PATH | recursive_flag(op));
	close_fd(object);
	if (mount_fd < 0)
		return mount_fd;
	r = place_mount(in, (int)mount_fd, op);
	close_fd(mount_fd);
	return r;
}

static long new_filesystem(const char *type, const char *const (*options)[2], uint64_t attrs)
{
	long r, mount_fd, fs = raw2(__NR_fsopen, type, FSOPEN_CLOEXEC);

	if (fs < 0)
		return fs;
	for (r = 0; r >= 0 && options && (*options)[0]; options++)
		r = raw5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, (*options)[0], (*options)[1], 0);
	if (r >= 0)
		r = raw5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
	mount_fd = r < 0 ? r : raw3(__NR_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
	close_fd(fs);
	return mount_fd;
}

/*
 * Pids start at a random number: runs that share files must not take another's pid file or
 * `name.$$` for their own. Best effort: not every kernel has this setting.
 */
static void scatter_pids(int proc_fd)
{
	char digits[8];
	size_t n;
	uint16_t number = 0;
	long fd = raw_syscall(__NR_openat, proc_fd, RAW_ARG("sys/kernel/ns_last_pid"),
			      O_WRONLY | O_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return;
	raw_syscall(__NR_getrandom, RAW_ARG(&number), sizeof(number), GRND_NONBLOCK, 0, 0, 0);
	number = (uint16_t)(PID_FIRST + number % PID_SPREAD);
	n = append_number(digits, 0, sizeof(digits), number);
	raw_syscall(__NR_write, fd, RAW_ARG(digits), (long)n, 0, 0, 0);
	close_fd(fd);
}

/* /proc/sys stays readable, and is read-only whatever the ids would allow. */
static long lock_proc_sys(struct init *in, int proc_fd)
{
	const struct mount_attr attr = { .attr_set = PROC_ATTRS | MOUNT_ATTR_RDONLY };
	long r, mount_fd = clone_tree(proc_fd, "sys", AT_RECURSIVE_TREE);

	(void)in;
	if (mount_fd < 0)
		return mount_fd;
	r = raw5(__NR_mount_setattr, mount_fd, "", AT_EMPTY_PATH | AT_RECURSIVE_TREE, &attr,
		 sizeof(attr));
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", proc_fd, "sys", MOVE_MOUNT_F_EMPTY_PATH);
	close_fd(mount_fd);
	return r;
}

/* /dev/null under nodev: the name exists, cannot be opened, and git ignores it. */
static long null_node(int root_fd)
{
	struct statx st;
	long r, mount_fd = clone_tree(root_fd, "dev/null", 0);

	if (mount_fd < 0)
		return mount_fd;
	r = raw5(__NR_statx, mount_fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
	if (r == 0 &&
	    ((st.stx_mode & S_IFMT) != S_IFCHR || st.stx_rdev_major != 1 || st.stx_rdev_minor != 3))
		r = -ENODEV;
	if (r < 0) {
		close_fd(mount_fd);
		return r;
	}
	return mount_fd;
}

/*
 * The names of the user's keys. All other files of procfs tell an unprivileged process only about
 * the machine's own state.
 */
static long hide_keys(const struct init *in, int proc_fd)
{
	const struct mount_attr attr = { .attr_set = PROC_ATTRS | MOUNT_ATTR_RDONLY };
	long r, mount_fd = null_node(in->host_fd);

	if (mount_fd < 0)
		return mount_fd;
	r = raw5(__NR_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr));
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", proc_fd, "keys", MOVE_MOUNT_F_EMPTY_PATH);
	close_fd(mount_fd);
	return r == -ENOENT ? 0 : r; /* a kernel without keyrings */
}

static long op_proc(struct init *in, const struct plan_op *op)
{
	long r = make_dir(in, op), mount_fd;

	if (r < 0)
		return r;
	mount_fd = new_filesystem("proc", 0, PROC_ATTRS);
	if (mount_fd < 0)
		return mount_fd;
	r = landlock_add(in, (int)mount_fd, op->access);
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", in->root_fd,
			 below_root(str_at(in, op->dst)), MOVE_MOUNT_F_EMPTY_PATH);
	if (r >= 0)
		scatter_pids((int)mount_fd);
	if (r >= 0)
		r = quotas_open(in, (int)mount_fd);
	if (r >= 0)
		r = lock_proc_sys(in, (int)mount_fd);
	if (r >= 0)
		r = hide_keys(in, (int)mount_fd);
	close_fd(mount_fd);
	return r;
}

static long op_devpts(struct init *in, const struct plan_op *op)
{
	static const char *const options[][2] = { { "ptmxmode", "0666" },
						  { "mode", "0600" },
						  { 0, 0 } };
	long r = make_dir(in, op), mount_fd;

	if (r < 0)
		return r;
	mount_fd = new_filesystem("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (mount_fd < 0)
		return mount_fd;
	r = landlock_add(in, (int)mount_fd, op->access);
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", in->root_fd,
			 below_root(str_at(in, op->dst)), MOVE_MOUNT_F_EMPTY_PATH);
	close_fd(mount_fd);
	return r;
}

#define MASK_NAME ".cordon-mask"

/* An empty directory without permissions; its name is removed once it is mounted. */
static long empty_dir(const struct init *in)
{
	long r = raw3(__NR_mkdirat, in->root_fd, MASK_NAME, 0);

	return r < 0 ? r : clone_tree(in->root_fd, MASK_NAME, 0);
}

/* What stands for a hidden file: a socket without permissions. Programs that copy or pack a
 * directory pass over it, while they stop at a file or device that they cannot open. */
static long closed_socket(const struct init *in)
{
	long r = raw4(__NR_mknodat, in->root_fd, MASK_NAME, S_IFSOCK, 0);

	return r < 0 ? r : clone_tree(in->root_fd, MASK_NAME, 0);
}

/*
 * In a workspace the name may be missing or of another type than on the host: it is made if it is
 * missing, and covered by something of its type. 1 = it is a directory, 0 = something else.
 */
static long make_covered(const struct init *in, const struct plan_op *op)
{
	const struct spot at = spot_of(in, str_at(in, op->dst));
	long fd, r = raw4(__NR_mknodat, at.fd, at.name, S_IFREG, 0);
	struct statx st;

	if (r < 0 && r != -EEXIST)
		return r;
	fd = open_in_root(in, str_at(in, op->dst));
	if (fd < 0)
		return fd;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
	close_fd(fd);
	return r < 0 ? r : (st.stx_mode & S_IFMT) == S_IFDIR;
}

static long op_mask(struct init *in, const struct plan_op *op)
{
	struct plan_op mask = *op;
	long r, mount_fd, is_dir = !(op->flags & PLAN_FILE);

	if (op->flags & PLAN_MKPOINT) {
		is_dir = make_covered(in, op);
		if (is_dir < 0)
			return is_dir;
	}
	if (is_cover(op)) {
		r = open_in_root(in, str_at(in, op->dst));
		if (r < 0)
			return r;
		covers_keep((int)r);
	}
	mount_fd = is_dir ? empty_dir(in) : closed_socket(in);
	if (mount_fd < 0)
		return mount_fd;
	mask.flags = (uint16_t)(PLAN_RDONLY | PLAN_NOEXEC | PLAN_FILE);
	mask.access = 0;
	r = place_mount(in, (int)mount_fd, &mask);
	close_fd(mount_fd);
	if (r >= 0)
		r = raw3(__NR_unlinkat, in->root_fd, MASK_NAME, is_dir ? AT_REMOVEDIR : 0);
	return r;
}

long cover_object(struct init *in, int object_fd, int is_dir)
{
	const struct plan_op mask = { .flags = PLAN_RDONLY | PLAN_NOEXEC | PLAN_FILE };
	long r, mount_fd = is_dir ? empty_dir(in) : null_node(in->root_fd);

	if (mount_fd < 0)
		return mount_fd;
	r = set_attributes((int)mount_fd, &mask);
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", object_fd, "",
			 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_fd(mount_fd);
	if (r >= 0 && is_dir)
		r = raw3(__NR_unlinkat, in->root_fd, MASK_NAME, AT_REMOVEDIR);
	return r;
}

long cover_by_itself(int object_fd, const struct plan_op *op)
{
	long r, mount_fd = clone_tree(object_fd, "", AT_EMPTY_PATH);

	if (mount_fd < 0)
		return mount_fd;
	r = set_attributes((int)mount_fd, op);
	if (r >= 0)
		r = raw5(__NR_move_mount, mount_fd, "", object_fd, "",
			 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	close_fd(mount_fd);
	return r;
}

static long op_rule(struct init *in, const struct plan_op *op)
{
	long r, src = open_source(in, op);

	if ((src == -ENOENT || src == -ESTALE) && (op->flags & PLAN_IF_THERE))
		return 0;
	if (src < 0)
		return src;
	r = landlock_add(in, (int)src, op->access);
	if (r >= 0 && (op->flags & PLAN_PRIVATE_DIR))
		r = disk_take_private(in, (int)src, str_at(in, op->src));
	close_fd(src);
	return r;
}

static long op_symlink(struct init *in, const struct plan_op *op)
{
	if (op->flags & PLAN_REUSED)
		return reused_link(in, op);
	return raw3(__NR_symlinkat, str_at(in, op->src), in->root_fd,
		    below_root(str_at(in, op->dst)));
}

long mount_op(struct init *in, const struct plan_op *op)
{
	if (is_plain_pin(in, op))
		return pin_name(in, op);
	leave_pins();
	switch (op->type) {
	case PLAN_OP_DIR:
		return op_dir(in, op);
	case PLAN_OP_SYMLINK:
		return op_symlink(in, op);
	case PLAN_OP_FILE:
		return make_file(in, op, str_at(in, op->src), op->data_len);
	case PLAN_OP_BIND:
		return op_bind(in, op);
	case PLAN_OP_PRIVATE:
	case PLAN_OP_PIN:
		return op_self(in, op);
	case PLAN_OP_PROC:
		return op_proc(in, op);
	case PLAN_OP_DEVPTS:
		return op_devpts(in, op);
	case PLAN_OP_MASK:
		return op_mask(in, op);
	case PLAN_OP_UPPER:
		return op_upper(in, op);
	case PLAN_OP_OVERLAY:
		return op_overlay(in, op);
	case PLAN_OP_RULE:
		return op_rule(in, op);
	default:
		return -EINVAL;
	}
}

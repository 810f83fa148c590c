/* SPDX-License-Identifier: Apache-2.0 */
/* mutate: ways around the view, and things that change nothing. */
#include "mutate.h"

#include <limits.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

OP(flock, flock(must_open("file", O_RDONLY), LOCK_EX));
OP(lease, fcntl(must_open("file", O_RDONLY), F_SETLEASE, F_RDLCK));

static long op_lock(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(must_open("file", O_RDWR), F_SETLK, &lock);
}

static long op_handle(void)
{
	struct {
		struct file_handle head;
		unsigned char rest[MAX_HANDLE_SZ];
	} handle = { .head.handle_bytes = MAX_HANDLE_SZ };
	int mount_id, here = must_open(".", O_RDONLY), fd;

	if (name_to_handle_at(AT_FDCWD, "file", &handle.head, &mount_id, 0) < 0)
		return -1;
	fd = open_by_handle_at(here, &handle.head, O_RDWR);
	return fd < 0 ? -1 : write(fd, "by handle", 9);
}

/* Handles of inode numbers that were guessed, on every mount that can be opened. */
static long op_handle_guessed(void)
{
	static const char *const mounts[] = { ".", "/", "/usr", "/proc/self/cwd/.." };
	struct stat st;
	long got = -1;

	if (stat("file", &st) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		struct {
			struct file_handle head;
			uint32_t ino, generation;
		} handle = { { .handle_bytes = 8, .handle_type = 1 }, (uint32_t)st.st_ino, 0 };
		int generation = 0, mount = open(mounts[i], O_RDONLY | O_CLOEXEC), fd;

		if (ioctl(must_open("file", O_RDONLY), _IOR('v', 1, long), &generation) == 0)
			handle.generation = (uint32_t)generation;
		fd = open_by_handle_at(mount, &handle.head, O_RDWR);
		if (fd >= 0 && write(fd, "guessed", 7) == 7)
			got = 0;
	}
	return got;
}

static long own_mounts(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static long op_bind_mount(void)
{
	if (own_mounts() < 0 || mount("full", "empty", NULL, MS_BIND, NULL) < 0)
		return -1;
	return close(must_open("empty/new", O_CREAT | O_WRONLY));
}

static long op_bind_here(void)
{
	if (mount("full", "empty", NULL, MS_BIND, NULL) < 0)
		return -1;
	return umount2("empty", MNT_DETACH);
}

/* What lies below the view, once it is taken away. */
static long op_unmount_view(void)
{
	char path[PATH_MAX];
	int fd;

	if (!getcwd(path, sizeof(path)) || own_mounts() < 0)
		return -1;
	for (char *slash = path + strlen(path); slash > path; slash = strrchr(path, '/')) {
		*slash = '\0';
		umount2(path[0] ? path : "/", MNT_DETACH);
		if (!strrchr(path, '/'))
			break;
	}
	if (!getcwd(path, sizeof(path)))
		return -1;
	strncat(path, "/file", sizeof(path) - strlen(path) - 1);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -1 : write(fd, "below", 5);
}

static long op_open_tree_clone(void)
{
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, ".", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0)
		return -1;
	fd = openat(fd, "file", O_WRONLY);
	return fd < 0 ? -1 : write(fd, "clone", 5);
}

static long op_remount_rw(void)
{
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };

	return syscall(SYS_mount_setattr, AT_FDCWD, ".", AT_RECURSIVE, &attr, sizeof(attr));
}

static long op_overlay_again(void)
{
	if (own_mounts() < 0 || mkdir("empty/u", 0700) < 0 || mkdir("empty/w", 0700) < 0)
		return -1;
	if (mount("overlay", "full", "overlay", 0,
		  "userxattr,lowerdir=full,upperdir=empty/u,workdir=empty/w") < 0)
		return -1;
	return write(must_open("full/child", O_WRONLY), "x", 1);
}

/* To another process by a socket, which reopens it. */
static long op_passed_descriptor(void)
{
	int sockets[2], fd = must_open("file", O_RDONLY);
	char control[CMSG_SPACE(sizeof(int))] = "", path[64], byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) < 0 || sendmsg(sockets[0], &msg, 0) < 0 ||
	    recvmsg(sockets[1], &msg, 0) < 0)
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return write(must_open(path, O_WRONLY), "passed", 6);
}

/* The memory of a mapping, written by way of /proc: for private pages only. */
static long op_proc_mem(void)
{
	int fd = must_open("file", O_RDONLY), mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char *p = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, fd, 0);

	if (mem < 0 || p == MAP_FAILED)
		return -1;
	return pwrite(mem, "x", 1, (off_t)(uintptr_t)p);
}

static long op_proc_mem_shared(void)
{
	int fd = must_open("file", O_RDONLY), mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);

	if (mem < 0 || p == MAP_FAILED)
		return -1;
	return pwrite(mem, "x", 1, (off_t)(uintptr_t)p);
}

static long op_trim(void)
{
	struct fstrim_range range = { .start = 0, .len = 4096, .minlen = 1u << 30 };

	return ioctl(must_open(".", O_RDONLY), FITRIM, &range);
}

static long op_dedupe(void)
{
	struct {
		struct file_dedupe_range head;
		struct file_dedupe_range_info info;
	} args = { .head = { .src_length = 4096, .dest_count = 1 } };

	args.info.dest_fd = must_open("file", O_RDWR);
	if (ioctl(must_open("other", O_RDONLY), FIDEDUPERANGE, &args) < 0)
		return -1;
	return args.info.status < 0 ? fail(-args.info.status) : 0;
}

static long op_verity(void)
{
	/* struct fsverity_enable_arg, with SHA-256 and 4 KiB blocks */
	uint32_t args[32] = { 1, 1, 4096 };

	return ioctl(must_open("file", O_RDONLY), _IOC(_IOC_WRITE, 'f', 133, 128), args);
}

static const struct attempt trick_attempts[] = {
	ATTEMPT(flock),	     ATTEMPT(lease),	       ATTEMPT(lock),
	ATTEMPT(handle),     ATTEMPT(handle_guessed),  ATTEMPT(bind_mount),
	ATTEMPT(bind_here),  ATTEMPT(unmount_view),    ATTEMPT(open_tree_clone),
	ATTEMPT(remount_rw), ATTEMPT(overlay_again),   ATTEMPT(passed_descriptor),
	ATTEMPT(proc_mem),   ATTEMPT(proc_mem_shared), ATTEMPT(trim),
	ATTEMPT(dedupe),     ATTEMPT(verity),	       { NULL, NULL },
};

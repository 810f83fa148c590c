/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "bare/clone.h"
#include "bare/raw.h"

#define VFORK_STACK_BYTES 8192 /* a few frames of system calls */

#ifdef CORDON_FAULT_INJECTION
static _Thread_local long fault_left;
static _Thread_local int fault_error;
static _Thread_local long fault_init_nth;
static _Thread_local int fault_init_error;

long fault_arm(long nth, int error)
{
	long left = fault_left;

	fault_left = nth;
	fault_error = error;
	return left;
}

void fault_arm_init(long nth, int error)
{
	fault_init_nth = nth;
	fault_init_error = error;
}

void fault_init_order(int64_t *ret_nth, int64_t *ret_error)
{
	*ret_nth = fault_init_nth;
	*ret_error = fault_init_error;
}

static int fault(void)
{
	if (fault_left <= 0 || --fault_left > 0)
		return 0;
	if (fault_error == FAULT_KILL)
		kill(getpid(), SIGKILL);
	return fault_error;
}

#define FAULT_POINT()                                                                              \
	do {                                                                                       \
		int fault_ = fault();                                                              \
		if (fault_)                                                                        \
			return -fault_;                                                            \
	} while (0)
#else
#define FAULT_POINT() ((void)0)
#endif

#define RET(call)                                                                                  \
	do {                                                                                       \
		__typeof__(call) ret_;                                                             \
		FAULT_POINT();                                                                     \
		ret_ = (call);                                                                     \
		return ret_ < 0 ? -errno : ret_;                                                   \
	} while (0)

int sys_memfd_create(const char *name, unsigned flags)
{
	RET(memfd_create(name, flags));
}

ssize_t sys_write(int fd, const void *data, size_t len)
{
	RET(write(fd, data, len));
}

int sys_fcntl(int fd, int cmd, int arg)
{
	RET(fcntl(fd, cmd, arg));
}

int sys_pidfd_open(pid_t pid)
{
	RET((int)syscall(SYS_pidfd_open, pid, 0));
}

int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	RET((int)syscall(SYS_close_range, first, last, flags));
}

int sys_pidfd_send_signal(int pid_fd, int signal)
{
	RET((int)syscall(SYS_pidfd_send_signal, pid_fd, signal, NULL, 0));
}

int sys_socketpair(int fds[2])
{
	RET(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
}

int sys_socket(int domain, int type, int protocol)
{
	RET(socket(domain, type, protocol));
}

int sys_bind(int fd, const struct sockaddr *address, socklen_t len)
{
	RET(bind(fd, address, len));
}

int sys_listen(int fd, int backlog)
{
	RET(listen(fd, backlog));
}

int sys_getsockname(int fd, struct sockaddr *ret, socklen_t *len)
{
	RET(getsockname(fd, ret, len));
}

int sys_stream_pair(int fds[2])
{
	RET(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
}

int sys_pipe(int fds[2])
{
	RET(pipe2(fds, O_CLOEXEC));
}

int sys_epoll_create(void)
{
	RET(epoll_create1(EPOLL_CLOEXEC));
}

int sys_epoll_ctl(int epoll_fd, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = { .events = events, .data = { .u64 = data } };

	RET(epoll_ctl(epoll_fd, op, fd, &event));
}

int sys_timerfd(uint64_t ms)
{
	struct itimerspec spec = {
		.it_value = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000L },
	};
	int fd;

	FAULT_POINT();
	/* Not CLOCK_BOOTTIME: while the machine sleeps the command does, too. */
	fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (timerfd_settime(fd, 0, &spec, NULL) < 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

int sys_timer_fired(int fd)
{
	uint64_t times;

	return read(fd, &times, sizeof(times)) > 0;
}

ssize_t sys_sendmsg(int fd, const struct msghdr *msg)
{
	RET(sendmsg(fd, msg, MSG_NOSIGNAL));
}

int sys_openat(int dir_fd, const char *path, int flags, mode_t mode)
{
	RET(openat(dir_fd, path, flags, mode));
}

int sys_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	const struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int sys_mknodat(int dir_fd, const char *path, mode_t mode)
{
	RET(mknodat(dir_fd, path, mode, 0));
}

int sys_mkdirat(int dir_fd, const char *path, mode_t mode)
{
	RET(mkdirat(dir_fd, path, mode));
}

int sys_renameat2(int dir_fd, const char *from, const char *to, unsigned flags)
{
	/* Not the C library's: it is younger than what we build with in places. */
	RET((int)syscall(SYS_renameat2, dir_fd, from, dir_fd, to, flags));
}

int sys_exchange(int dir_fd, int other_fd, const char *name)
{
	RET((int)syscall(SYS_renameat2, dir_fd, name, other_fd, name, RENAME_EXCHANGE));
}

int sys_unlinkat(int dir_fd, const char *path, int flags)
{
	RET(unlinkat(dir_fd, path, flags));
}

int sys_symlinkat(const char *target, int dir_fd, const char *path)
{
	RET(symlinkat(target, dir_fd, path));
}

int sys_fchmod(int fd, mode_t mode)
{
	RET(fchmod(fd, mode));
}

int sys_fchown(int fd, uid_t uid, gid_t gid)
{
	RET(fchown(fd, uid, gid));
}

int sys_futimens(int fd, const struct timespec times[2])
{
	RET(futimens(fd, times));
}

int sys_fremovexattr(int fd, const char *name)
{
	RET(fremovexattr(fd, name));
}

int sys_fsync(int fd)
{
	RET(fsync(fd));
}

int sys_syncfs(int fd)
{
	RET(syncfs(fd));
}

int sys_open_tree(int dir_fd, const char *path, unsigned flags)
{
	RET((int)syscall(SYS_open_tree, dir_fd, path, flags));
}

int sys_mount_setattr(int dir_fd, const char *path, unsigned flags, struct mount_attr *attr)
{
	RET((int)syscall(SYS_mount_setattr, dir_fd, path, flags, attr, sizeof(*attr)));
}

/*
 * All signals are blocked around the clone: the child shares this thread's memory, and a handler of
 * the host running in it would be a disaster (the raw call, since the C library's leaves two of its
 * own signals out). The child keeps the mask; init wants it that way.
 */
static int clone_blocked(int cgroup_fd, uint64_t flags, int *ret_pid_fd, int (*fn)(void *),
			 void *arg)
{
	void *stack;
	const uint64_t all = ~(uint64_t)0;
	uint64_t old = 0;
	long pid;

	stack = malloc(VFORK_STACK_BYTES);
	if (!stack)
		return -ENOMEM;
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all));
	flags |= VFORK_CLONE_PIDFD;
	pid = cgroup_fd < 0 ? vfork_call(flags, stack, VFORK_STACK_BYTES, ret_pid_fd, fn, arg)
			    : vfork_call_into(cgroup_fd, flags, stack, VFORK_STACK_BYTES,
					      ret_pid_fd, fn, arg);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	free(stack);
	return (int)pid;
}

int sys_clone_vfork(uint64_t flags, int *ret_pid_fd, int (*fn)(void *), void *arg)
{
	FAULT_POINT();
	return clone_blocked(-1, flags, ret_pid_fd, fn, arg);
}

int sys_clone_vfork_into(int cgroup_fd, uint64_t flags, int *ret_pid_fd, int (*fn)(void *),
			 void *arg)
{
	FAULT_POINT();
	return clone_blocked(cgroup_fd, flags, ret_pid_fd, fn, arg);
}

long sys_call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	FAULT_POINT();
	return raw_syscall(nr, (long)a, (long)b, (long)c, (long)d, 0, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls with which a run is set up from the supervisor's side. Each returns -errno on
 * failure. In test builds the Nth of them can be made to fail (fault_arm).
 */
#ifndef SYS_CALLS_H
#define SYS_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

struct mount_attr;

int sys_memfd_create(const char *name, unsigned flags);
ssize_t sys_write(int fd, const void *data, size_t len);
int sys_fcntl(int fd, int cmd, int arg);
int sys_pidfd_open(pid_t pid);
int sys_close_range(unsigned first, unsigned last, unsigned flags);
int sys_pidfd_send_signal(int pid_fd, int signal);
int sys_socketpair(int fds[2]);
int sys_stream_pair(int fds[2]);
int sys_socket(int domain, int type, int protocol);
int sys_bind(int fd, const struct sockaddr *address, socklen_t len);
int sys_listen(int fd, int backlog);
int sys_getsockname(int fd, struct sockaddr *ret, socklen_t *len);
int sys_pipe(int fds[2]);
int sys_epoll_create(void);
int sys_epoll_ctl(int epoll_fd, int op, int fd, uint32_t events, uint64_t data);
int sys_timerfd(uint64_t ms);
int sys_timer_fired(int fd); /* since it was last asked; never blocks */
ssize_t sys_sendmsg(int fd, const struct msghdr *msg);
int sys_openat(int dir_fd, const char *path, int flags, mode_t mode);
/* O_CLOEXEC is added. Never made to fail by tests: it only looks. */
int sys_openat2(int dir_fd, const char *path, uint64_t flags, uint64_t resolve);
int sys_mknodat(int dir_fd, const char *path, mode_t mode);
int sys_mkdirat(int dir_fd, const char *path, mode_t mode);
/* Directories' entries and files' attributes, as a commit changes them (workspace/). */
int sys_renameat2(int dir_fd, const char *from, const char *to, unsigned flags); /* one directory */
/* What has this name in two directories, each in the place of the other. */
int sys_exchange(int dir_fd, int other_fd, const char *name);
int sys_unlinkat(int dir_fd, const char *path, int flags);
int sys_symlinkat(const char *target, int dir_fd, const char *path);
int sys_fchmod(int fd, mode_t mode);
int sys_fchown(int fd, uid_t uid, gid_t gid);
int sys_futimens(int fd, const struct timespec times[2]);
int sys_fremovexattr(int fd, const char *name);
int sys_fsync(int fd);
int sys_syncfs(int fd);
int sys_open_tree(int dir_fd, const char *path, unsigned flags);
int sys_mount_setattr(int dir_fd, const char *path, unsigned flags, struct mount_attr *attr);
int sys_clone_vfork(uint64_t flags, int *ret_pid_fd, int (*fn)(void *), void *arg);
/* The same, right into the control group whose directory @cgroup_fd is. -ENOSYS where a filter
 * around us refuses clone3. */
int sys_clone_vfork_into(int cgroup_fd, uint64_t flags, int *ret_pid_fd, int (*fn)(void *),
			 void *arg);
/* Any system call. Neither errno nor a lock is touched, so that a child which shares our memory can
 * make it. */
long sys_call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

#ifdef CORDON_FAULT_INJECTION
/* Per thread: the @nth call from now on fails with @error; 0 disarms. Returns what was left. With
 * FAULT_KILL the process is killed instead of making that call. */
#define FAULT_KILL (-1)
long fault_arm(long nth, int error);
/* For init: it counts its own calls. */
void fault_arm_init(long nth, int error);
void fault_init_order(int64_t *ret_nth, int64_t *ret_error);
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: leave the meter no more than NVIDIA's library needs to answer: the system's files, what
 * /proc and /sys tell everybody, and the nodes of the run's GPUs.
 * Mustn't: come after the library; go on if any part of it fails.
 *
 * The library is not ours and may change, so the filter names what is refused and not what is
 * allowed: other processes, other programs, the network, and what makes kernels fall. By Landlock
 * nothing but the nodes can be opened for writing.
 */
#include "meter/meter.h"

#include <asm/unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "bare/text.h"
#include "uapi/landlock.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_pidfd_getfd
#define __NR_pidfd_getfd 438
#endif
#ifndef __NR_process_madvise
#define __NR_process_madvise 440
#endif

#define RULE_PATH_BENEATH 1
#define O_PATH_NR 010000000
#define LIMIT_FSIZE 1 /* RLIMIT_FSIZE and so on */
#define LIMIT_DATA 2
#define LIMIT_CORE 4
#define LIMIT_NOFILE 7
#define DATA_MAX (1ull << 30)
#define FDS_MAX 256
#define NO_CORE 1 /* as a limit: no core file and no pipe to a core handler */
#define CLONE_THREAD_NR 0x10000
#define READ (LL_FS_READ_FILE | LL_FS_READ_DIR)
#define USE (LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_IOCTL_DEV)

static const struct {
	const char *path;
	uint64_t access;
} shown[] = {
	{ "/usr", READ },
	{ "/lib", READ },
	{ "/lib64", READ },
	{ "/nix/store", READ },
	{ "/gnu/store", READ },
	{ "/etc/ld.so.cache", LL_FS_READ_FILE },
	{ "/proc", READ },
	{ "/sys", READ },
	{ "/dev/null", USE },
	{ "/dev/zero", LL_FS_READ_FILE },
	{ "/dev/urandom", LL_FS_READ_FILE },
	{ "/dev/nvidiactl", USE },
	{ "/dev/nvidia-caps", USE | LL_FS_READ_DIR },
};

/* No more than there was before. */
static long set_limit(int resource, uint64_t value)
{
	struct {
		uint64_t soft, hard;
	} limit = { 0, 0 };
	long r = raw_syscall(__NR_prlimit64, 0, resource, 0, (long)&limit, 0, 0);

	if (limit.hard > value)
		limit.hard = value;
	limit.soft = limit.hard;
	return r < 0 ? r : raw_syscall(__NR_prlimit64, 0, resource, (long)&limit, 0, 0, 0);
}

static long set_limits(void)
{
	long r = set_limit(LIMIT_FSIZE, 0);

	if (r >= 0)
		r = set_limit(LIMIT_DATA, DATA_MAX);
	if (r >= 0)
		r = set_limit(LIMIT_CORE, NO_CORE);
	if (r >= 0)
		r = set_limit(LIMIT_NOFILE, FDS_MAX);
	return r;
}

static long take_ids(const struct meter_order *order)
{
	long r;

	if (order->uid == METER_NO_ID)
		return 0;
	r = raw_syscall(__NR_setgroups, 0, 0, 0, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_setresgid, order->gid, order->gid, order->gid, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_setresuid, order->uid, order->uid, order->uid, 0, 0, 0);
	return r;
}

/* Dropped and read back. */
static long drop_caps(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	long r = raw_syscall(__NR_capset, (long)&header, (long)data, 0, 0, 0, 0);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted = data[i].inheritable = ~0u;
	r = raw_syscall(__NR_capget, (long)&header, (long)data, 0, 0, 0, 0);
	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++)
		if (data[i].effective | data[i].permitted | data[i].inheritable)
			return -EPERM;
	r = raw_syscall(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
	/* After the ids: taking them would make it dumpable again. */
	if (r >= 0)
		r = raw_syscall(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
	return r;
}

/* What is not there needs no rule. */
static long show(int ruleset, const char *path, uint64_t access)
{
	struct {
		uint64_t access;
		int32_t fd;
	} __attribute__((packed)) attr = { access, -1 };
	long fd = raw_syscall(__NR_openat, AT_FDCWD, (long)path, O_PATH_NR | O_CLOEXEC, 0, 0, 0), r;

	if (fd < 0)
		return fd == -ENOENT || fd == -EACCES ? 0 : fd;
	attr.fd = (int32_t)fd;
	r = raw_syscall(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, (long)&attr, 0, 0, 0);
	close_fd(fd);
	return r;
}

static long show_all(int ruleset, const struct meter_order *order)
{
	long r = 0;

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]) && r >= 0; i++)
		r = show(ruleset, shown[i].path, shown[i].access & order->handled_fs);
	if (r >= 0)
		r = show(ruleset, order->library_dir, READ & order->handled_fs);
	for (uint32_t i = 0; i < order->n_gpus && r >= 0; i++) {
		char node[64];

		text_number(node, sizeof(node), "/dev/nvidia", order->gpus[i].number);
		r = show(ruleset, node, USE & order->handled_fs);
	}
	return r;
}

static long enter_landlock(const struct meter_order *order)
{
	const struct {
		uint64_t fs, net, scoped;
	} attr = { order->handled_fs, order->handled_net, order->scoped };
	size_t size = sizeof(attr);
	long fd, r;

	if (!order->handled_fs)
		return 0;
	if (!order->scoped)
		size = order->handled_net ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
	fd = raw_syscall(__NR_landlock_create_ruleset, (long)&attr, (long)size, 0, 0, 0, 0);
	if (fd < 0)
		return fd;
	r = show_all((int)fd, order);
	if (r >= 0)
		r = raw_syscall(__NR_landlock_restrict_self, fd, 0, 0, 0, 0, 0);
	close_fd(fd);
	return r;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define FAIL(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define REFUSE(nr) IS(nr, 0, 1), FAIL(EPERM)

static const struct sock_filter filter[] = {
	LOAD(arch),
	IS(ARCH_AUDIT, 1, 0),
	KILL,
	LOAD(nr),
	/* x86_64: numbers of the other kind of program (x32) */
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
	KILL,
	/* the network, and other programs */
	REFUSE(__NR_socket),
	REFUSE(__NR_socketpair),
	REFUSE(__NR_execve),
	REFUSE(__NR_execveat),
	/* other processes */
	REFUSE(__NR_ptrace),
	REFUSE(__NR_process_vm_readv),
	REFUSE(__NR_process_vm_writev),
	REFUSE(__NR_process_madvise),
	REFUSE(__NR_kill),
	REFUSE(__NR_tkill),
	REFUSE(__NR_rt_sigqueueinfo),
	REFUSE(__NR_rt_tgsigqueueinfo),
	REFUSE(__NR_pidfd_open),
	REFUSE(__NR_pidfd_getfd),
	REFUSE(__NR_pidfd_send_signal),
	REFUSE(__NR_setpriority),
	REFUSE(__NR_ioprio_set),
	REFUSE(__NR_sched_setaffinity),
	REFUSE(__NR_sched_setscheduler),
	REFUSE(__NR_sched_setparam),
	REFUSE(__NR_sched_setattr),
	REFUSE(__NR_migrate_pages),
	REFUSE(__NR_move_pages),
	REFUSE(__NR_kcmp),
	/* large parts of the kernel that it has no use for */
	REFUSE(__NR_unshare),
	REFUSE(__NR_setns),
	REFUSE(__NR_mount),
	REFUSE(__NR_bpf),
	REFUSE(__NR_perf_event_open),
	REFUSE(__NR_userfaultfd),
	REFUSE(__NR_io_uring_setup),
	REFUSE(__NR_keyctl),
	REFUSE(__NR_add_key),
	REFUSE(__NR_request_key),
	REFUSE(__NR_open_by_handle_at),
	REFUSE(__NR_memfd_create),
#ifdef __NR_fork
	REFUSE(__NR_fork),
	REFUSE(__NR_vfork),
#endif
	/* clone3: its flags lie in memory; C libraries then use clone, with which only threads are
	   made */
	IS(__NR_clone3, 0, 1),
	FAIL(ENOSYS),
	IS(__NR_clone, 0, 4),
	LOAD(args[0]),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD_NR, 1, 0),
	FAIL(EPERM),
	ALLOW,
	/* prlimit64: its own limits */
	IS(__NR_prlimit64, 0, 3),
	LOAD(args[0]),
	IS(0, 1, 0),
	FAIL(EPERM),
	ALLOW,
};

static long enter_filter(void)
{
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]),
					    (struct sock_filter *)(uintptr_t)filter };

	return raw_syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0, 0);
}

long meter_confine(const struct meter_order *order)
{
	long r = set_limits();

	if (r >= 0)
		r = take_ids(order);
	if (r >= 0)
		r = drop_caps();
	if (r >= 0)
		r = enter_landlock(order);
	return r < 0 ? r : enter_filter();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel interfaces that a sandbox has no use for.
 *
 * Where a call can be made to do something harmless, it is made so and outside says allowed.
 * Where it cannot (reboot, kexec, modules), the arguments are invalid: outside the kernel says so
 * (EINVAL, EFAULT ...), inside the filter must have answered before that.
 */
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/timex.h>
#include <time.h>

#include "probe.h"

static long do_bpf(void *arg)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	(void)arg;
	return syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static long do_perf(void *arg)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.exclude_kernel = 1 };

	(void)arg;
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static long do_userfault(void *arg)
{
	(void)arg;
	return syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
}

static long do_ring(void *arg)
{
	struct io_uring_params params = { 0 };

	(void)arg;
	return syscall(SYS_io_uring_setup, 2, &params);
}

static long do_handle(void *arg)
{
	struct {
		struct file_handle handle;
		char bytes[128];
	} h = { .handle = { .handle_bytes = 128 } };
	int mount_id;

	(void)arg;
	return name_to_handle_at(AT_FDCWD, "/usr", &h.handle, &mount_id, 0);
}

/* Handle of the root directory of most file systems: the inode numbered 2. */
static long do_open_handle(void *arg)
{
	struct {
		struct file_handle handle;
		unsigned int bytes[2];
	} h = { .handle = { .handle_bytes = 8, .handle_type = 1 }, .bytes = { 2, 0 } };
	int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)arg;
	return open_by_handle_at(dir, &h.handle, O_RDONLY);
}

/* pidfs and nsfs need no file system descriptor (FD_PIDFS_ROOT, FD_NSFS_ROOT). */
static long do_pidfs_handle(void *arg)
{
	struct {
		struct file_handle handle;
		unsigned long long ino;
	} h = { .handle = { .handle_bytes = 8, .handle_type = 1 }, .ino = 1 };

	(void)arg;
	if (open_by_handle_at(-10002, &h.handle, O_RDONLY) < 0 && errno != ESTALE)
		return -1;
	return 0;
}

static long do_mount(void *arg)
{
	(void)arg;
	return mount("none", "/tmp", "tmpfs", MS_NOSUID, "size=4k");
}

static long do_fsopen(void *arg)
{
	(void)arg;
	return syscall(SYS_fsopen, "tmpfs", 1);
}

static long do_open_tree(void *arg)
{
	(void)arg;
	return syscall(SYS_open_tree, AT_FDCWD, "/", O_CLOEXEC);
}

static long do_open_tree_clone(void *arg)
{
	(void)arg;
	return syscall(SYS_open_tree, AT_FDCWD, "/", 1);
}

static long do_statmount(void *arg)
{
	struct {
		uint32_t size, spare;
		uint64_t mnt_id, param, mnt_ns_id;
	} req = { .size = 24, .mnt_id = (uint64_t)-1 };
	uint64_t ids[8];

	(void)arg;
	return syscall(458, &req, ids, 8, 0); /* listmount of the root */
}

static long do_fanotify(void *arg)
{
	(void)arg;
	return fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
}

static long do_listener(void *arg)
{
	struct sock_filter code[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } };
	struct sock_fprog prog = { 1, code };

	(void)arg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		       &prog);
}

static long do_listener_high(void *arg)
{
	struct sock_filter code[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } };
	struct sock_fprog prog = { 1, code };

	(void)arg;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, 0x100000000UL | SECCOMP_SET_MODE_FILTER,
		       0x100000000UL | SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static long do_personality(void *arg)
{
	(void)arg;
	return personality(READ_IMPLIES_EXEC);
}

static long do_kcmp(void *arg)
{
	(void)arg;
	return syscall(SYS_kcmp, getpid(), getpid(), 2, 0, 0);
}

static long do_vm_read(void *arg)
{
	char a = 1, b;
	struct {
		void *base;
		size_t len;
	} local = { &b, 1 }, remote = { &a, 1 };

	(void)arg;
	return syscall(SYS_process_vm_readv, getppid(), &local, 1, &remote, 1, 0) < 0 ? -1 : 0;
}

static long do_keyctl(void *arg)
{
	(void)arg;
	return syscall(SYS_keyctl, 0, -3, 1); /* KEYCTL_GET_KEYRING_ID of the session */
}

static long do_add_key(void *arg)
{
	(void)arg;
	return syscall(SYS_add_key, "user", "cordon-probe", "x", 1L, -2L);
}

static long do_adjtime_read(void *arg)
{
	struct timex t = { 0 };

	(void)arg;
	return adjtimex(&t);
}

static long do_settime(void *arg)
{
	struct timespec bad = { .tv_sec = 0, .tv_nsec = -1 };

	(void)arg;
	return syscall(SYS_clock_settime, CLOCK_REALTIME, &bad); /* the library checks first */
}

static long do_mknod(void *arg)
{
	char path[64];
	long rc;

	snprintf(path, sizeof(path), "/tmp/node-%d", getpid());
	rc = mknod(path, *(const mode_t *)arg & S_IFMT ? *(const mode_t *)arg : S_IFCHR,
		   *(const mode_t *)arg & 1 ? 0 : 0x103);
	if (rc == 0)
		unlink(path);
	return rc;
}

static long do_umount(void *arg)
{
	(void)arg;
	return umount2("/", MNT_DETACH | UMOUNT_NOFOLLOW | 0x40000000); /* invalid flag */
}

static long do_dumpable(void *arg)
{
	(void)arg;
	return prctl(PR_SET_MM, 0, 0, 0, 0);
}

struct raw {
	const char *name;
	long nr, a, b, c, d;
};

/* Invalid on purpose: nothing happens anywhere. */
static const struct raw raws[] = {
	{ "kexec-load", SYS_kexec_load, -1, -1, -1, -1 },
	{ "kexec-file-load", SYS_kexec_file_load, -1, -1, -1, -1 },
	{ "init-module", SYS_init_module, -1, -1, -1, 0 },
	{ "finit-module", SYS_finit_module, -1, -1, -1, 0 },
	{ "delete-module", SYS_delete_module, -1, 0, 0, 0 },
	{ "reboot", SYS_reboot, -1, -1, -1, -1 },
	{ "swapon", SYS_swapon, -1, -1, 0, 0 },
	{ "swapoff", SYS_swapoff, -1, 0, 0, 0 },
	{ "acct", SYS_acct, -1, 0, 0, 0 },
	{ "quotactl", SYS_quotactl, -1, -1, -1, -1 },
	{ "quotactl-fd", 443, -1, -1, -1, -1 },
	{ "syslog", SYS_syslog, 10, 0, 0, 0 },
#ifdef SYS_iopl
	{ "iopl", SYS_iopl, 4, 0, 0, 0 },
	{ "ioperm", SYS_ioperm, -1, -1, -1, 0 },
	{ "modify-ldt", SYS_modify_ldt, 0, 0, 0, 0 },
#endif
	{ "pivot-root", SYS_pivot_root, -1, -1, 0, 0 },
	{ "move-mount", SYS_move_mount, -1, -1, -1, -1 },
	{ "mount-setattr", 442, -1, -1, -1, -1 },
	{ "fsmount", SYS_fsmount, -1, -1, -1, 0 },
	{ "fsconfig", SYS_fsconfig, -1, -1, -1, -1 },
	{ "fspick", SYS_fspick, -1, -1, -1, 0 },
	{ "io-uring-enter", SYS_io_uring_enter, -1, 0, 0, 0 },
	{ "io-uring-register", SYS_io_uring_register, -1, -1, -1, -1 },
	{ "process-madvise", SYS_process_madvise, -1, -1, -1, -1 },
	{ "process-mrelease", 448, -1, -1, 0, 0 },
	{ "settimeofday", SYS_settimeofday, -1, -1, 0, 0 },
	{ "clock-adjtime", SYS_clock_adjtime, 0, -1, 0, 0 },
	{ "sethostname", SYS_sethostname, -1, -1, 0, 0 },
	{ "setdomainname", SYS_setdomainname, -1, -1, 0, 0 },
	{ "fanotify-mark", SYS_fanotify_mark, -1, -1, -1, -1 },
	{ "lsm-set-self-attr", 460, -1, -1, -1, -1 },
	{ "lookup-dcookie", SYS_lookup_dcookie, -1, -1, -1, 0 },
	{ "migrate-pages", SYS_migrate_pages, 1, -1, -1, -1 },
	{ "move-pages", SYS_move_pages, 1, -1, -1, -1 },
	{ "pidfd-getfd", SYS_pidfd_getfd, -1, -1, -1, 0 },
	{ "setns", SYS_setns, -1, 0, 0, 0 },
	{ "vhangup-arg", SYS_vhangup, 0, 0, 0, 0 },
};

static long do_raw(void *arg)
{
	const struct raw *r = arg;

	return syscall(r->nr, r->a, r->b, r->c, r->d, -1L, -1L);
}

int main(int argc, char **argv)
{
	static const mode_t chr = S_IFCHR | 0600, blk = S_IFBLK | 0600, whiteout = S_IFCHR | 1;
	int controlled = argc > 1 && !strcmp(argv[1], "--outside");
	size_t i;

	row_child("bpf", do_bpf, NULL);
	row_child("perf-event-open", do_perf, NULL);
	row_child("userfaultfd", do_userfault, NULL);
	row_child("io-uring-setup", do_ring, NULL);
	row_child("name-to-handle", do_handle, NULL);
	row_child("open-by-handle", do_open_handle, NULL);
	row_child("pidfs-handle", do_pidfs_handle, NULL);
	if (!controlled) /* would cover a directory of the host */
		row_child("mount", do_mount, NULL);
	row_child("fsopen", do_fsopen, NULL);
	row_child("open-tree", do_open_tree, NULL);
	row_child("open-tree-clone", do_open_tree_clone, NULL);
	row_child("listmount", do_statmount, NULL);
	row_child("fanotify-init", do_fanotify, NULL);
	row_child("new-listener", do_listener, NULL);
	row_child("new-listener-high", do_listener_high, NULL);
	row_child("personality", do_personality, NULL);
	row_child("kcmp", do_kcmp, NULL);
	row_child("process-vm-readv", do_vm_read, NULL);
	row_child("keyctl", do_keyctl, NULL);
	row_child("add-key", do_add_key, NULL);
	row_child("clock-settime", do_settime, NULL);
	row_child("umount", do_umount, NULL);
	row_child("prctl-set-mm", do_dumpable, NULL);
	row_child("mknod-chr", do_mknod, (void *)(uintptr_t)&chr);
	row_child("mknod-blk", do_mknod, (void *)(uintptr_t)&blk);
	row_child("mknod-whiteout", do_mknod, (void *)(uintptr_t)&whiteout);
	for (i = 0; i < sizeof(raws) / sizeof(raws[0]); i++)
		if (!controlled || raws[i].nr != SYS_vhangup)
			row_child(raws[i].name, do_raw, (void *)(uintptr_t)&raws[i]);
	row_child("adjtimex-read", do_adjtime_read, NULL);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs in the caller's memory between clone and exec. It allocates nothing, takes no lock and
 * calls no library function; a check over the symbols of this file keeps it so.
 */
#include "launch/child.h"

#include <asm/unistd.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/prctl.h>

#include "bare/raw.h"

/* What init needs inside its user namespace, and drops before the command runs. */
static const unsigned char kept_caps[] = {
	CAP_SETGID, CAP_SETUID, CAP_SETPCAP, CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_SYS_ADMIN,
	CAP_NET_BIND_SERVICE,
	/* For the socket on which questions for names show (init/net_attempts.c). */
	CAP_NET_RAW,
	/* To lower what this user namespace may have of the kernel's objects. */
	CAP_SYS_RESOURCE,
	/* The kernel writes to an overlay's upper directory with its maker's capabilities. */
	CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_CHOWN
};

/*
 * A fresh user namespace gives every capability, but exec takes them away again, since no id is
 * mapped yet; ambient capabilities are the ones that stay.
 */
static long child_keep_caps(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	long r;

	for (unsigned i = 0; i < sizeof(kept_caps); i++)
		data[0].inheritable |= 1u << kept_caps[i];
	data[0].permitted = data[0].effective = data[0].inheritable;
	r = raw_syscall(__NR_capset, (long)&header, (long)data, 0, 0, 0, 0);
	for (unsigned i = 0; i < sizeof(kept_caps) && r >= 0; i++)
		r = raw_syscall(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept_caps[i], 0,
				0, 0);
	return r;
}

int child_exec_init(void *arg)
{
	struct child_args *child = arg;
	char *const empty[] = { 0 };
	long r;

	r = child->keep_caps ? child_keep_caps() : 0;
	/* A caller without standard streams may have it where the loop below puts the socket. */
	if (r >= 0 && child->init_fd <= 2) {
		r = raw_syscall(__NR_fcntl, child->init_fd, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
		child->init_fd = (int)r;
	}
	/* On all three, so that nothing init opens later can land where the command's stdio goes.
	 */
	for (int fd = 0; fd <= 2 && r >= 0; fd++)
		r = raw_syscall(child->ctl_fd == fd ? __NR_fcntl : __NR_dup3, child->ctl_fd,
				child->ctl_fd == fd ? F_SETFD : fd, 0, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_execveat, child->init_fd, (long)"", (long)child->argv,
				(long)empty, AT_EMPTY_PATH, 0);
	child->error = r;
	return 127;
}

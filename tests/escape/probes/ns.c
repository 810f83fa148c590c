/* SPDX-License-Identifier: Apache-2.0 */
/* New namespaces by every road, and back into others. */
#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>

#include "probe.h"

struct flag {
	const char *name;
	unsigned long bits;
};

static const struct flag flags[] = {
	{ "user", CLONE_NEWUSER },
	{ "mnt", CLONE_NEWNS },
	{ "pid", CLONE_NEWPID },
	{ "net", CLONE_NEWNET },
	{ "ipc", CLONE_NEWIPC },
	{ "uts", CLONE_NEWUTS },
	{ "cgroup", CLONE_NEWCGROUP },
	{ "time", 0x00000080UL },
	{ "user-mnt", CLONE_NEWUSER | CLONE_NEWNS },
	{ "user-net", CLONE_NEWUSER | CLONE_NEWNET },
};

static long by_unshare(void *arg)
{
	return syscall(SYS_unshare, ((const struct flag *)arg)->bits);
}

static long by_unshare_high(void *arg)
{
	return syscall(SYS_unshare, 0x100000000UL | ((const struct flag *)arg)->bits);
}

static long finish(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, __WALL);
	return pid;
}

static long by_clone(void *arg)
{
	return finish(syscall(SYS_clone, ((const struct flag *)arg)->bits | SIGCHLD, 0, 0, 0, 0));
}

static long by_clone3(void *arg)
{
	struct clone_args args = { .flags = ((const struct flag *)arg)->bits,
				   .exit_signal = SIGCHLD };

	return finish(syscall(SYS_clone3, &args, sizeof(args)));
}

static long plain_clone3(void *arg)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	(void)arg;
	return finish(syscall(SYS_clone3, &args, sizeof(args)));
}

static long enter(void *arg)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", (const char *)arg);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	return setns(fd, 0);
}

static long drop_groups(void *arg)
{
	(void)arg;
	return syscall(SYS_setgroups, 0, NULL);
}

static long newroot(void *arg)
{
	(void)arg;
	return syscall(SYS_chroot, "/");
}

static void all(const char *prefix, long (*fn)(void *))
{
	char name[64];
	size_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		snprintf(name, sizeof(name), "%s-%s", prefix, flags[i].name);
		row_child(name, fn, (void *)(uintptr_t)&flags[i]);
	}
}

int main(void)
{
	static const char *const kinds[] = { "mnt", "net", "ipc", "uts", "cgroup", "pid" };
	char name[64];
	size_t i;

	all("unshare", by_unshare);
	all("unshare-high", by_unshare_high);
	all("clone", by_clone);
	all("clone3", by_clone3);
	row_child("clone3-plain", plain_clone3, NULL);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(name, sizeof(name), "setns-%s", kinds[i]);
		row_child(name, enter, (void *)(uintptr_t)kinds[i]);
	}
	row_child("setgroups", drop_groups, NULL);
	row_child("chroot", newroot, NULL);
	return 0;
}

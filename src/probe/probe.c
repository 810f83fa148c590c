/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bare/raw.h"
#include "base/macros.h"
#include "uapi/landlock.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#endif

/* The latest version whose rights are known from a released kernel; a later mask is tried first. */
#define ABI_CERTAIN 8

#define ANCESTORS_MAX 256
#define STATUS_BYTES_MAX 4096

static int kernel_accepts(uint64_t fs, uint64_t net, uint64_t scoped)
{
	const uint64_t attr[3] = { fs, net, scoped };
	long fd =
		raw_syscall(__NR_landlock_create_ruleset, RAW_ARG(attr), sizeof(attr), 0, 0, 0, 0);

	if (fd < 0)
		return 0;
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
	return 1;
}

void probe_use_abi(struct probe_machine *machine, int abi)
{
	machine->landlock_abi = abi;
	machine->landlock_fs = landlock_fs_rights(abi);
	machine->landlock_net = landlock_net_rights(abi);
	machine->landlock_scoped = landlock_scopes(abi);
}

void probe_machine(struct probe_machine *ret)
{
	long abi =
		raw_syscall(__NR_landlock_create_ruleset, 0, 0, LL_CREATE_RULESET_VERSION, 0, 0, 0);
	int known = (int)abi;

	if (known > ABI_CERTAIN &&
	    !kernel_accepts(landlock_fs_rights(known), landlock_net_rights(known),
			    landlock_scopes(known)))
		known = ABI_CERTAIN;
	probe_use_abi(ret, known);
	ret->landlock_abi = (int)abi;
	ret->uid = geteuid();
	ret->gid = getegid();
}

int probe_can_drop_root(void)
{
	const uint32_t needed = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_CHOWN;
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	char text[64], *at = text;
	unsigned long map[3];
	int fd;
	ssize_t n;

	if (geteuid() != 0 || syscall(SYS_capget, &header, data) < 0 ||
	    (data[0].effective & needed) != needed)
		return 0;
	fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	/* Inner and outer id, and how many: only the first namespace maps all of them to
	 * themselves. */
	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		map[i] = strtoul(at, &at, 10);
	return n > 0 && map[0] == 0 && map[1] == 0 && map[2] == UINT32_MAX;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int count_threads(int proc_fd, const char *pid)
{
	char path[NAME_MAX + sizeof("/task")];
	struct stat st;

	snprintf(path, sizeof(path), "%s/task", pid);
	/* procfs counts one link for each thread, and two for the directory. */
	if (fstatat(proc_fd, path, &st, 0) < 0 || st.st_nlink < 3)
		return 1;
	return (int)(st.st_nlink - 2);
}

/* One whose namespace cannot be looked at counts as one of ours. */
static bool is_in_namespace(int proc_fd, const char *pid, const struct stat *own)
{
	char path[NAME_MAX + sizeof("/ns/user")];
	struct stat st;

	snprintf(path, sizeof(path), "%s/ns/user", pid);
	return fstatat(proc_fd, path, &st, 0) < 0 || st.st_ino == own->st_ino;
}

int probe_user_tasks(uid_t uid, bool only_here)
{
	CLEANUP(close_dir) DIR *proc = opendir("/proc");
	struct dirent *entry;
	struct stat st, own = { 0 };
	int count = 0;

	if (!proc)
		return -errno;
	if (only_here && fstatat(dirfd(proc), "self/ns/user", &own, 0) < 0)
		return -errno;
	while ((entry = readdir(proc)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (fstatat(dirfd(proc), entry->d_name, &st, 0) == 0 && st.st_uid == uid &&
		    (!only_here || is_in_namespace(dirfd(proc), entry->d_name, &own)))
			count += count_threads(dirfd(proc), entry->d_name);
	}
	return count;
}

/* The beginning of a file of /proc/@pid, as a string; its length, or -errno. */
static ssize_t read_proc(const char *pid, const char *name, char *ret, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret, size - 1);
	n = n < 0 ? -errno : n;
	close(fd);
	ret[n > 0 ? n : 0] = '\0';
	return n;
}

/* A number of /proc/@pid/status, -1 if it cannot be read. */
static long status_number(const char *pid, const char *label)
{
	char text[STATUS_BYTES_MAX];
	const char *line;

	if (read_proc(pid, "status", text, sizeof(text)) <= 0)
		return -1;
	line = strstr(text, label);
	return line ? strtol(line + strlen(label), NULL, 10) : -1;
}

bool probe_has_filter(void)
{
	return status_number("self", "\nSeccomp:") == 2; /* SECCOMP_MODE_FILTER */
}

bool probe_is_in_cordon(void)
{
	char name[16], pid[24] = "self";

	for (int i = 0; i < ANCESTORS_MAX; i++) {
		long parent = status_number(pid, "\nPPid:");

		if (parent <= 0)
			return false;
		snprintf(pid, sizeof(pid), "%ld", parent);
		/* Ends in a NUL: the first argument is the whole string. */
		if (read_proc(pid, "cmdline", name, sizeof(name)) > 0 &&
		    strcmp(name, "cordon-init") == 0)
			return true;
	}
	return false;
}

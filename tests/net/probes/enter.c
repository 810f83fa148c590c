// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a command in the namespaces of the simulated internet's "home".
 *
 *	enter PID same|nested UID GID COMMAND [ARG...]
 *
 * same: net and mount namespace, then that user. nested: the user namespace too (the caller made
 * it), and within it another one where the caller has its own ids again and no capabilities.
 */
#include <err.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void join(const char *pid, const char *kind, int type)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%s/ns/%s", pid, kind);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, type) < 0)
		err(125, "enter: %s", path);
	close(fd);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err(125, "enter: %s", path);
	close(fd);
}

static void nest(const char *uid, const char *gid)
{
	char map[64];
	if (unshare(CLONE_NEWUSER) < 0)
		err(125, "enter: nested user namespace");
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%s 0 1", uid);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%s 0 1", gid);
	put("/proc/self/gid_map", map);
}

int main(int argc, char **argv)
{
	char cwd[PATH_MAX];
	if (argc < 6 || !getcwd(cwd, sizeof(cwd)))
		errx(125, "enter: usage");
	int is_nested = !strcmp(argv[2], "nested");
	int fd = -1;
	char path[64];
	if (is_nested)
		join(argv[1], "user", CLONE_NEWUSER);
	/* Both opened before the mount namespace changes, where /proc may be another. */
	snprintf(path, sizeof(path), "/proc/%s/ns/net", argv[1]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	join(argv[1], "mnt", CLONE_NEWNS);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		err(125, "enter: %s", path);
	close(fd);
	if (chdir(cwd) < 0)
		err(125, "enter: %s", cwd);
	if (is_nested) {
		nest(argv[3], argv[4]);
	} else if (atoi(argv[3]) != 0) {
		uid_t uid = (uid_t)atoi(argv[3]);
		gid_t gid = (gid_t)atoi(argv[4]);
		if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
		    setresuid(uid, uid, uid) < 0)
			err(125, "enter: user %s", argv[3]);
	}
	execvp(argv[5], argv + 5);
	err(127, "enter: %s", argv[5]);
}

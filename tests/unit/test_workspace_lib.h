/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary trees for the tests of src/workspace. */
#ifndef TESTS_UNIT_TEST_WORKSPACE_LIB_H
#define TESTS_UNIT_TEST_WORKSPACE_LIB_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "workspace/tree/cursor.h"
#include "workspace/tree/tree.h"

#define UNUSED_OK __attribute__((unused))
#define ORDINARY_ID 65534
#define DEPTH 5000

static const char *const hostile[] = { "-rf", "new\nline", "\033[2J", "\xff\xfe", " ",	     "a b",
				       "...", "*",	   "\\",      "CON",	  "\x7f\x01" };
#define N_HOSTILE (sizeof(hostile) / sizeof(hostile[0]))

static char tmp_path[64];
static int tmp_fd = -1;

static void tmp_make_in(const char *parent)
{
	snprintf(tmp_path, sizeof(tmp_path), "%s/cordon-ws-XXXXXX", parent);
	if (!mkdtemp(tmp_path))
		abort();
	tmp_fd = open(tmp_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tmp_fd < 0)
		abort();
}

UNUSED_OK static void tmp_make(void)
{
	tmp_make_in("/tmp");
}

/* For trees of so many files that a disk under load would take minutes. */
UNUSED_OK static void tmp_make_in_memory(void)
{
	tmp_make_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

UNUSED_OK static void tmp_drop(void)
{
	const char *name = strrchr(tmp_path, '/') + 1;
	int parent = openat(tmp_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_INT(tree_remove(parent, name), 0);
	CHECK(access(tmp_path, F_OK) < 0);
	close(parent);
	close(tmp_fd);
	tmp_fd = -1;
}

UNUSED_OK static void put_dir(int dir_fd, const char *name, mode_t mode)
{
	CHECK_MSG(mkdirat(dir_fd, name, 0700) == 0 && fchmodat(dir_fd, name, mode, 0) == 0,
		  "mkdir %s: %s", name, strerror(errno));
}

UNUSED_OK static void put_text(int dir_fd, const char *name, const char *text, mode_t mode)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK_MSG(fd >= 0, "create %s: %s", name, strerror(errno));
	if (fd < 0)
		return;
	CHECK_INT(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	CHECK_INT(fchmod(fd, mode), 0);
	close(fd);
}

/* The text of a file; "" if there is none. */
UNUSED_OK static const char *text_of(int dir_fd, const char *name)
{
	static char buf[4096];
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	buf[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return buf;
}

UNUSED_OK static int open_dir(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	CHECK_MSG(fd >= 0, "open %s: %s", name, strerror(errno));
	return fd;
}

UNUSED_OK static bool is_there(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

UNUSED_OK static unsigned mode_of(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & 07777 : 0xffff;
}

/* @depth directories, each called @name, one in the other; a file called "bottom" in the last. */
UNUSED_OK static void put_deep(int dir_fd, const char *name, int depth)
{
	int at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);

	for (int i = 0; i < depth && at >= 0; i++) {
		int next;

		if (mkdirat(at, name, 0755) < 0)
			abort();
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	put_text(at, "bottom", "deep", 0644);
	close(at);
}

/* Runs a point's body as an ordinary user, also when the tests run as root. */
UNUSED_OK static void as_ordinary(void (*body)(void))
{
	int status = -1;
	pid_t pid;

	if (geteuid() != 0) {
		body();
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (setgroups(0, NULL) < 0 ||
		    setresgid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID) < 0 ||
		    setresuid(ORDINARY_ID, ORDINARY_ID, ORDINARY_ID) < 0)
			_exit(3);
		body();
		fflush(stdout);
		_exit(tap_failures ? 1 : *tap_skip_reason ? 2 : 0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		SKIP("not possible as an ordinary user here");
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "as an ordinary user: status %d",
		  status);
}

/* Runs @body in a mount namespace of its own, where it may mount. A status of 2: not possible. */
UNUSED_OK static void with_mounts(void (*body)(void))
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		char map[64];
		int fd;

		if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
			_exit(2);
		if (uid != 0) {
			fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
			if (fd < 0 || write(fd, "deny", 4) != 4)
				_exit(2);
			close(fd);
			snprintf(map, sizeof(map), "%u %u 1", uid, uid);
			fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
			if (fd < 0 || write(fd, map, strlen(map)) < 0)
				_exit(2);
			close(fd);
			snprintf(map, sizeof(map), "%u %u 1", gid, gid);
			fd = open("/proc/self/gid_map", O_WRONLY | O_CLOEXEC);
			if (fd < 0 || write(fd, map, strlen(map)) < 0)
				_exit(2);
			close(fd);
		}
		if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(2);
		body();
		fflush(stdout);
		_exit(tap_failures ? 1 : *tap_skip_reason ? 2 : 0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		SKIP("mounting is not possible here");
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "with mounts: status %d", status);
}

/* A second process that exchanges two names until it is told to end. */
UNUSED_OK static pid_t start_swapping(const char *a, const char *b)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	for (;;) {
		if (renameat2(tmp_fd, a, tmp_fd, b, RENAME_EXCHANGE) < 0 && errno != ENOENT)
			_exit(1);
		/* A test that died must not leave this behind. */
		if (getppid() == 1)
			_exit(0);
	}
}

UNUSED_OK static void stop_swapping(pid_t pid)
{
	int status = 0;

	CHECK_INT(kill(pid, SIGKILL), 0);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_MSG(WIFSIGNALED(status), "the swapping process ended by itself: %d", status);
}

#endif

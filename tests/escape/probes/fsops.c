/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to look at or change a file: fsops NAME DIR
 *
 * DIR holds `file` (with the attribute user.canary), `link` (a symbolic link to it) and `sub/`.
 * Attempts that look come first, then those that change, those that remove last, so that outside
 * every one of them can succeed.
 */
#include <dirent.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include "probe.h"

static const char *who;
static char base[PATH_MAX];

static const char *at(const char *name)
{
	static char path[8][PATH_MAX + 64];
	static unsigned next;
	char *p = path[next++ % 8];

	snprintf(p, sizeof(path[0]), "%s/%s", base, name);
	return p;
}

static void say(const char *what, long rc)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%s", who, what);
	row(name, rc);
}

static long try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);
	char byte;

	if (fd < 0)
		return -1;
	if ((flags & O_ACCMODE) == O_RDONLY && !(flags & (O_PATH | O_DIRECTORY | O_CREAT)) &&
	    read(fd, &byte, 1) < 0)
		return -1;
	close(fd);
	return 0;
}

static long try_list(void)
{
	DIR *dir = opendir(base);

	if (!dir)
		return -1;
	closedir(dir);
	return 0;
}

static long try_chdir(void)
{
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc = chdir(base), saved = errno;

	if (rc == 0 && here >= 0 && fchdir(here) < 0)
		return -1;
	errno = saved;
	return rc;
}

static long try_lease(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	long rc;

	if (fd < 0)
		return -1;
	rc = fcntl(fd, F_SETLEASE, F_RDLCK);
	close(fd); /* a lease that is kept would be broken, with a signal, by our own next open */
	return rc;
}

static long try_lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	return flock(fd, LOCK_EX | LOCK_NB);
}

/* The write-through mapping of a read-only descriptor. */
static long try_mmap_write(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0;
}

/* A descriptor opened by path only, reopened for writing through the magic link. */
static long try_reopen(const char *path)
{
	char magic[64];
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -1;
	snprintf(magic, sizeof(magic), "/proc/self/fd/%d", fd);
	return open(magic, O_WRONLY | O_CLOEXEC);
}

/* Metadata through a descriptor that was opened for reading. */
static void change_by_fd(const char *path)
{
	const struct timespec times[2] = { { .tv_sec = 2 }, { .tv_sec = 2 } };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	say("fd-chmod", fd < 0 ? -1 : fchmod(fd, 0664));
	say("fd-chown", fd < 0 ? -1 : fchown(fd, geteuid(), getegid()));
	say("fd-utime", fd < 0 ? -1 : futimens(fd, times));
	say("fd-setxattr", fd < 0 ? -1 : fsetxattr(fd, "user.by-fd", "x", 1, 0));
	if (fd >= 0)
		close(fd);
}

/* And through one that was opened by path only, which Landlock does not ask about. */
static void change_by_path_fd(const char *path)
{
	const struct timespec times[2] = { { .tv_sec = 3 }, { .tv_sec = 3 } };
	int fd = open(path, O_PATH | O_CLOEXEC), dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char magic[64];

	snprintf(magic, sizeof(magic), "/proc/self/fd/%d", fd);
	say("magic-chmod", fd < 0 ? -1 : chmod(magic, 0665));
	say("magic-utime", fd < 0 ? -1 : utimensat(AT_FDCWD, magic, times, 0));
	say("magic-setxattr", fd < 0 ? -1 : setxattr(magic, "user.magic", "x", 1, 0));
	say("empty-chmod", fd < 0 ? -1 : syscall(452, fd, "", 0666, AT_EMPTY_PATH));
	say("empty-chown", fd < 0 ? -1 : fchownat(fd, "", geteuid(), getegid(), AT_EMPTY_PATH));
	say("dir-chmod", dir < 0 ? -1 : fchmodat(dir, "file", 0664, 0));
	say("dir-utime", dir < 0 ? -1 : utimensat(dir, "file", times, 0));
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
}

static void look(void)
{
	struct statfs sfs;
	struct stat st;
	char buf[256];
	int fd = inotify_init1(IN_CLOEXEC);

	say("stat", stat(at("file"), &st));
	say("access", access(at("file"), F_OK));
	say("readlink", readlink(at("link"), buf, sizeof(buf)));
	say("statfs", statfs(base, &sfs));
	say("getxattr", getxattr(at("file"), "user.canary", buf, sizeof(buf)));
	say("listxattr", listxattr(at("file"), buf, sizeof(buf)));
	say("open-path", try_open(at("file"), O_PATH));
	say("inotify", inotify_add_watch(fd, at("file"), IN_ALL_EVENTS));
	say("chdir", try_chdir());
	say("list", try_list());
	say("read", try_open(at("file"), O_RDONLY));
	say("read-link", try_open(at("link"), O_RDONLY));
	say("lock", try_lock(at("file")));
	say("lease", try_lease(at("file")));
}

static void change(void)
{
	struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	say("write", try_open(at("file"), O_WRONLY));
	say("append", try_open(at("file"), O_WRONLY | O_APPEND));
	say("read-write", try_open(at("file"), O_RDWR));
	say("reopen", try_reopen(at("file")));
	say("mmap-write", try_mmap_write(at("file")));
	say("chmod", chmod(at("file"), 0666));
	say("fchmodat2", syscall(452, AT_FDCWD, at("file"), 0666, 0));
	say("chown", chown(at("file"), geteuid(), getegid()));
	say("utime", utimensat(AT_FDCWD, at("file"), times, 0));
	say("setxattr", setxattr(at("file"), "user.planted", "x", 1, 0));
	say("removexattr", removexattr(at("file"), "user.canary"));
	change_by_fd(at("file"));
	change_by_path_fd(at("file"));
	say("create", try_open(at("new"), O_WRONLY | O_CREAT | O_EXCL));
	say("tmpfile", try_open(base, O_WRONLY | O_TMPFILE));
	say("mkdir", mkdir(at("newdir"), 0755));
	say("symlink", symlink("file", at("newlink")));
	say("link", link(at("file"), at("hard")));
	say("fifo", mkfifo(at("pipe"), 0644));
	say("socket", mknod(at("sock"), S_IFSOCK | 0644, 0));
	say("truncate", truncate(at("file"), 1));
	say("open-trunc", try_open(at("file"), O_WRONLY | O_TRUNC));
	say("read-trunc", try_open(at("file"), O_RDONLY | O_TRUNC));
	say("rename", rename(at("file"), at("moved")));
	say("exchange", syscall(SYS_renameat2, AT_FDCWD, at("moved"), AT_FDCWD, at("link"), 2));
	say("rmdir", rmdir(at("sub")));
	say("unlink", unlink(at("link")));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	who = argv[1];
	snprintf(base, sizeof(base), "%s", argv[2]);
	look();
	change();
	return 0;
}

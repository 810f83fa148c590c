/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to start a program that is not on a list: execer PROGRAM SCRATCH
 *
 * PROGRAM is what must not run; SCRATCH is a directory that can be written. Each way runs in a
 * child; "allowed" means that the child's exec went through.
 */
#include <sys/mman.h>

#include "probe.h"

static const char *program, *scratch;
static char *const args[] = { "forbidden", NULL };
static char *const no_env[] = { NULL };

static int copy_to(int out)
{
	char buf[65536];
	ssize_t n;
	int in = open(program, O_RDONLY | O_CLOEXEC);

	if (in < 0)
		return -1;
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			return -1;
	close(in);
	return n < 0 ? -1 : 0;
}

static long by_path(void *arg)
{
	(void)arg;
	return execve(program, args, no_env);
}

static long by_copy(void *arg)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/copy-%d", (const char *)arg, getppid());
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	if (fd < 0 || copy_to(fd) < 0)
		return -1;
	close(fd);
	return execve(path, args, no_env);
}

static long by_symlink(void *arg)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/link-%d", (const char *)arg, getpid());
	unlink(path); /* a namespace counts its pids from one, so a former run used it */
	if (symlink(program, path) < 0)
		return -1;
	return execve(path, args, no_env);
}

static long by_memfd(void *arg)
{
	int fd = memfd_create("x", 0);

	(void)arg;
	if (fd < 0 || copy_to(fd) < 0)
		return -1;
	return syscall(SYS_execveat, fd, "", args, no_env, AT_EMPTY_PATH);
}

static long by_memfd_path(void *arg)
{
	int fd = memfd_create("x", 0);
	char path[64];

	(void)arg;
	if (fd < 0 || copy_to(fd) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return execve(path, args, no_env);
}

static long by_fd(void *arg)
{
	int fd = open(program, O_PATH);

	(void)arg;
	if (fd < 0)
		return -1;
	return syscall(SYS_execveat, fd, "", args, no_env, AT_EMPTY_PATH);
}

static long by_tmpfile(void *arg)
{
	int fd = open((const char *)arg, O_RDWR | O_TMPFILE, 0755), again;
	char path[64];

	if (fd < 0 || copy_to(fd) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY);
	close(fd); /* a descriptor for writing would give ETXTBSY */
	fd = again;
	return syscall(SYS_execveat, fd, "", args, no_env, AT_EMPTY_PATH);
}

/* The loader called by hand: it opens the program itself and maps it. */
static long by_loader(void *arg)
{
	char *const by_hand[] = { "ld", (char *)(uintptr_t)program, NULL };

	(void)arg;
	execve(PROBE_LOADER, by_hand, no_env);
	return -1;
}

static long by_script(void *arg)
{
	char path[512], text[600];
	int fd, len;

	snprintf(path, sizeof(path), "%s/script-%d", (const char *)arg, getpid());
	len = snprintf(text, sizeof(text), "#!%s\n", program);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		return -1;
	close(fd);
	return execve(path, args, no_env);
}

/* Mapping the program executable, as a loader of one's own would. */
static long by_mmap(void *arg)
{
	int fd = open(program, O_RDONLY | O_CLOEXEC);

	(void)arg;
	if (fd < 0)
		return -1;
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}

int main(int argc, char **argv)
{
	char left[64];
	void *where;

	if (argc != 3)
		return 2;
	program = argv[1];
	scratch = argv[2];
	where = (void *)(uintptr_t)scratch;
	row_child("path", by_path, NULL);
	row_child("fd", by_fd, NULL);
	row_child("symlink", by_symlink, where);
	row_child("copy", by_copy, where);
	row_child("copy-tmp", by_copy, (void *)(uintptr_t)"/tmp");
	snprintf(left, sizeof(left), "/tmp/copy-%d", getpid());
	unlink(left);
	row_child("tmpfile", by_tmpfile, where);
	row_child("memfd", by_memfd, NULL);
	row_child("memfd-path", by_memfd_path, NULL);
	row_child("script", by_script, where);
	row_child("loader", by_loader, NULL);
	row_child("mmap", by_mmap, NULL);
	return 0;
}

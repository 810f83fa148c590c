/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of metadata under adverse conditions, for level landlock:
 *
 *	metadata all FILE        every call that changes metadata, on FILE, as rows
 *	metadata fds FILE        the same by descriptor (FILE is opened for reading)
 *	metadata errors FILE     calls with wrong arguments; rows with the errno
 *	metadata text IN OUT N   N calls while a thread flips the path in memory between IN and OUT
 *	metadata link IN OUT N   N calls on a name that flips between a file and a link to OUT
 *	metadata dir IN OUT N    N calls through a directory that flips with a link to OUT's
 *directory metadata flood FILE N    64 threads call for ever; the main thread leaves after N
 *seconds metadata storm FILE N    N children are killed in the middle of their calls metadata hold
 *FILE       one thread keeps the file's inode busy, another changes it, for ever
 */
#include <fcntl.h>
#include <libgen.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <utime.h>

#include "probe.h"

#define THREADS 64
#define HOLD_BYTES (1l << 30)
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

static char shared[4096];
static const char *in_path, *out_path;
static volatile int stop;
static const struct timespec times[2] = { { 1, 0 }, { 2, 0 } };

static void all_rows(const char *path)
{
	const struct timeval tv[2] = { { 1, 0 }, { 2, 0 } };
	const struct utimbuf buf = { 1, 2 };

	row("chmod", syscall(SYS_chmod, path, 0666));
	row("fchmodat", syscall(SYS_fchmodat, AT_FDCWD, path, 0666));
	row("fchmodat2", syscall(452, AT_FDCWD, path, 0666, 0));
	row("chown", syscall(SYS_chown, path, geteuid(), getegid()));
	row("lchown", syscall(SYS_lchown, path, geteuid(), -1));
	row("fchownat", syscall(SYS_fchownat, AT_FDCWD, path, -1, getegid(), 0));
	row("utime", syscall(SYS_utime, path, &buf));
	row("utimes", syscall(SYS_utimes, path, tv));
	row("futimesat", syscall(SYS_futimesat, AT_FDCWD, path, tv));
	row("utimensat", syscall(SYS_utimensat, AT_FDCWD, path, times, 0));
	row("touch", syscall(SYS_utimensat, AT_FDCWD, path, NULL, 0));
	row("touch-link", syscall(SYS_utimensat, AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW));
}

static void fd_rows(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), pin = open(path, O_PATH | O_CLOEXEC);
	char alias[64];

	row("fchmod", syscall(SYS_fchmod, fd, 0666));
	row("fchown", syscall(SYS_fchown, fd, geteuid(), getegid()));
	row("futimens", syscall(SYS_utimensat, fd, NULL, times, 0));
	row("futimesat-null", syscall(SYS_futimesat, fd, NULL, NULL));
	row("fchmodat2-empty", syscall(452, fd, "", 0666, AT_EMPTY_PATH));
	row("fchownat-empty", syscall(SYS_fchownat, pin, "", geteuid(), -1, AT_EMPTY_PATH));
	row("utimensat-empty", syscall(SYS_utimensat, pin, "", times, AT_EMPTY_PATH));
	snprintf(alias, sizeof(alias), "/proc/self/fd/%d", pin);
	row("proc-alias", chmod(alias, 0666));
	snprintf(alias, sizeof(alias), "/dev/fd/%d", fd);
	row("dev-alias", chmod(alias, 0666));
}

static void error_rows(const char *path)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char name[8192];
	int fd;

	munmap(page + 4096, 4096);
	memset(page, 'x', 4096);
	memset(name, 'x', sizeof(name) - 1);
	row("low", syscall(SYS_chmod, 1, 0666));
	row("kernel", syscall(SYS_chmod, 0xffffffff81000000, 0666));
	row("null", syscall(SYS_chmod, NULL, 0666));
	row("hole", syscall(SYS_chmod, page + 4000, 0666));
	row("times-hole", syscall(SYS_utimensat, AT_FDCWD, path, page + 4090, 0));
	row("long", syscall(SYS_chmod, name, 0666));
	row("empty", syscall(SYS_chmod, "", 0666));
	row("missing", syscall(SYS_chmod, "no such file", 0666));
	row("through-file", syscall(SYS_chmod, "/etc/passwd/x", 0666));
	row("bad-fd", syscall(SYS_fchmod, 999, 0666));
	row("negative-fd", syscall(SYS_fchmod, -1, 0666));
	row("bad-dir", syscall(SYS_fchmodat, 999, "x", 0666));
	row("bad-flag", syscall(SYS_fchownat, AT_FDCWD, path, -1, -1, 0x2));
	row("bad-time",
	    syscall(SYS_utimes, path, ((struct timeval[2]){ { 1, 1000000 }, { 1, 0 } })));
	row("set-uid", syscall(SYS_chmod, path, 04755));
	row("set-gid", syscall(SYS_chmod, path, 02755));
	row("other-uid", syscall(SYS_chown, path, geteuid() + 1, -1));
	row("other-gid", syscall(SYS_chown, path, -1, getegid() + 1));
	row("magic", syscall(SYS_chmod, "/proc/self/cwd", 0777));
	row("device", syscall(SYS_chmod, "/dev/null", 0666));
	row("pipe", syscall(SYS_fchmod, 1, 0600));
	snprintf(name, sizeof(name), "%s.gone", path);
	fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	row("named", syscall(SYS_fchmod, fd, 0600));
	unlink(name);
	row("unlinked", syscall(SYS_fchmod, fd, 0600));
	/* the kernel's name for it, given to something else */
	strcat(name, " (deleted)");
	close(open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	row("decoy", syscall(SYS_fchmod, fd, 0600));
}

static void *flip_text(void *arg)
{
	while (!stop) {
		memcpy(shared, out_path, strlen(out_path) + 1);
		memcpy(shared, in_path, strlen(in_path) + 1);
	}
	return arg;
}

static void *flip_link(void *arg)
{
	while (!stop) {
		int fd;

		if (symlink(out_path, "a") < 0 || rename("a", "swap") < 0)
			unlink("a");
		fd = open("b", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		close(fd);
		rename("b", "swap");
	}
	return arg;
}

static void *flip_dir(void *arg)
{
	while (!stop)
		syscall(SYS_renameat2, AT_FDCWD, "d1", AT_FDCWD, "d2", RENAME_EXCHANGE);
	return arg;
}

static void prepare_dirs(char *path, size_t size)
{
	char *copy = strdup(out_path), *base = strdup(out_path);

	snprintf(path, size, "d1/%s", basename(base));
	if (mkdir("d1", 0700) < 0 || symlink(dirname(copy), "d2") < 0)
		perror("prepare");
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	free(copy);
	free(base);
}

static void race(const char *mode, long n)
{
	void *(*flip)(void *) = *mode == 't' ? flip_text : *mode == 'l' ? flip_link : flip_dir;
	long done = 0, refused = 0;
	char path[300] = "swap";
	pthread_t thread;

	strcpy(shared, in_path);
	if (*mode == 'd')
		prepare_dirs(path, sizeof(path));
	pthread_create(&thread, NULL, flip, NULL);
	for (long i = 0; i < n; i++) {
		const char *p = *mode == 't' ? shared : path;
		long r = i % 2 ? syscall(SYS_chmod, p, 0666)
			       : syscall(SYS_utimensat, AT_FDCWD, p, times, 0);

		if (r == 0)
			done++;
		else
			refused++;
	}
	stop = 1;
	pthread_join(thread, NULL);
	printf("%ld %ld\n", done, refused);
}

static void *hammer(void *path)
{
	for (;;)
		syscall(SYS_chmod, path, 0600);
	return NULL;
}

static void *hold(void *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char *zeros = mmap(NULL, HOLD_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);

	for (;;)
		if (pwrite(fd, zeros, HOLD_BYTES, 0) < 0 || ftruncate(fd, 0) < 0)
			usleep(1000);
	return NULL;
}

static void storm(const char *path, long n)
{
	for (long i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				syscall(SYS_chmod, path, 0600);
		if (i % 4)
			usleep((useconds_t)(i % 200));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	puts("over");
}

/* As in a container whose own filter keeps listeners to itself. */
static int without_listener(int error, char **command)
{
	const uint32_t refuse = SECCOMP_RET_ERRNO | (uint32_t)error;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, refuse),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return 3;
	execv(command[0], command);
	return 4;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 3)
		return 2;
	in_path = argv[2];
	if (!strcmp(argv[1], "nolistener")) {
		return without_listener(atoi(argv[2]), argv + 3);
	} else if (!strcmp(argv[1], "all")) {
		all_rows(argv[2]);
	} else if (!strcmp(argv[1], "fds")) {
		fd_rows(argv[2]);
	} else if (!strcmp(argv[1], "errors")) {
		error_rows(argv[2]);
	} else if (argc == 5) {
		out_path = argv[3];
		race(argv[1], atol(argv[4]));
	} else if (!strcmp(argv[1], "storm")) {
		storm(argv[2], atol(argv[3]));
	} else if (!strcmp(argv[1], "flood")) {
		for (int i = 0; i < THREADS; i++)
			pthread_create(&thread, NULL, hammer, argv[2]);
		sleep((unsigned int)atoi(argv[3]));
		_exit(0);
	} else if (!strcmp(argv[1], "hold")) {
		pthread_create(&thread, NULL, hold, argv[2]);
		hammer(argv[2]);
	}
	return 0;
}

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

/* The calls from before the *at() ones. Where they do not exist, what the C library makes of them.
 */
#ifdef SYS_chmod
#define CHMOD(path, mode) syscall(SYS_chmod, path, mode)
#define CHOWN(path, uid, gid) syscall(SYS_chown, path, uid, gid)
#define LCHOWN(path, uid, gid) syscall(SYS_lchown, path, uid, gid)
#define UTIME(path, times) syscall(SYS_utime, path, times)
#define UTIMES(path, times) syscall(SYS_utimes, path, times)
#define FUTIMESAT(fd, path, times) syscall(SYS_futimesat, fd, path, times)
#else
#define CHMOD(path, mode) syscall(SYS_fchmodat, AT_FDCWD, path, mode)
#define CHOWN(path, uid, gid) syscall(SYS_fchownat, AT_FDCWD, path, uid, gid, 0)
#define LCHOWN(path, uid, gid) syscall(SYS_fchownat, AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW)
#define UTIME(path, times) utime(path, times)
#define UTIMES(path, times) utimes(path, times)
#define FUTIMESAT(fd, path, times) futimesat(fd, path, times)
#endif

static char shared[4096];
static const char *in_path, *out_path;
static volatile int stop;
static const struct timespec times[2] = { { 1, 0 }, { 2, 0 } };

static void all_rows(const char *path)
{
	const struct timeval tv[2] = { { 1, 0 }, { 2, 0 } };
	const struct utimbuf buf = { 1, 2 };

	row("chmod", CHMOD(path, 0666));
	row("fchmodat", syscall(SYS_fchmodat, AT_FDCWD, path, 0666));
	row("fchmodat2", syscall(452, AT_FDCWD, path, 0666, 0));
	row("chown", CHOWN(path, geteuid(), getegid()));
	row("lchown", LCHOWN(path, geteuid(), -1));
	row("fchownat", syscall(SYS_fchownat, AT_FDCWD, path, -1, getegid(), 0));
	row("utime", UTIME(path, &buf));
	row("utimes", UTIMES(path, tv));
	row("futimesat", FUTIMESAT(AT_FDCWD, path, tv));
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
	row("futimesat-null", FUTIMESAT(fd, NULL, NULL));
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
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	char *page =
		mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char name[8192];
	int fd;

	munmap(page + size, size);
	memset(page, 'x', size);
	memset(name, 'x', sizeof(name) - 1);
	row("low", CHMOD(1, 0666));
	row("kernel", CHMOD(0xffffffff81000000, 0666));
	row("null", CHMOD(NULL, 0666));
	row("hole", CHMOD(page + size - 96, 0666));
	row("times-hole", syscall(SYS_utimensat, AT_FDCWD, path, page + size - 6, 0));
	row("long", CHMOD(name, 0666));
	row("empty", CHMOD("", 0666));
	row("missing", CHMOD("no such file", 0666));
	row("through-file", CHMOD("/etc/passwd/x", 0666));
	row("bad-fd", syscall(SYS_fchmod, 999, 0666));
	row("negative-fd", syscall(SYS_fchmod, -1, 0666));
	row("bad-dir", syscall(SYS_fchmodat, 999, "x", 0666));
	row("bad-flag", syscall(SYS_fchownat, AT_FDCWD, path, -1, -1, 0x2));
	row("bad-time", UTIMES(path, ((struct timeval[2]){ { 1, 1000000 }, { 1, 0 } })));
	row("set-uid", CHMOD(path, 04755));
	row("set-gid", CHMOD(path, 02755));
	row("other-uid", CHOWN(path, geteuid() + 1, -1));
	row("other-gid", CHOWN(path, -1, getegid() + 1));
	row("magic", CHMOD("/proc/self/cwd", 0777));
	row("device", CHMOD("/dev/null", 0666));
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
		long r = i % 2 ? CHMOD(p, 0666) : syscall(SYS_utimensat, AT_FDCWD, p, times, 0);

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
		CHMOD(path, 0600);
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
				CHMOD(path, 0600);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the directory it runs in: fill KIND MIB [HOLD_MS]
 *
 * Each kind takes MIB (or as many inodes as there are pages in that) in another way. Holds what it
 * has for HOLD_MS (default 1500), prints `filled` and leaves.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "../../escape/probes/probe.h"

#define MIB ((size_t)1 << 20)
#define PART (4 * MIB)
#define WRITERS 4
#define DEPTH 5000
#define NAMES 10000

static char block[MIB];

static void fail(const char *what)
{
	fprintf(stderr, "fill: %s: %s\n", what, errno_name(errno));
	_exit(3);
}

static int create(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		fail("open");
	return fd;
}

static void put(int fd, size_t size)
{
	for (size_t at = 0; at < size; at += MIB)
		if (write(fd, block, size - at < MIB ? size - at : MIB) < 0)
			fail("write");
}

static void fill_write(size_t size)
{
	put(create("big"), size);
}

/* Several at once, each a file of its own. */
static void fill_writers(size_t size)
{
	for (int i = 0; i < WRITERS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "big%d", i);
		if (fork() == 0) {
			put(create(name), size / WRITERS);
			pause();
		}
	}
	sleep(2);
}

static void fill_files(size_t size)
{
	char name[32];

	for (size_t i = 0; i < size / 4096; i++) {
		snprintf(name, sizeof(name), "f%zu", i);
		close(create(name));
	}
}

static void fill_dirs(size_t size)
{
	char name[32];

	for (size_t i = 0; i < size / 4096; i++) {
		snprintf(name, sizeof(name), "d%zu", i);
		if (mkdir(name, 0755) < 0)
			fail("mkdir");
	}
}

static void fill_small(size_t size)
{
	char name[32];

	for (size_t i = 0; i < size / 16384; i++) {
		snprintf(name, sizeof(name), "s%zu", i);
		int fd = create(name);

		put(fd, 16384);
		close(fd);
	}
}

static void dirty(int fd, size_t size, int is_private)
{
	char *p;

	if (ftruncate(fd, (off_t)size) < 0)
		fail("ftruncate");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	if (is_private)
		close(fd);
	for (size_t at = 0; at < size; at += 4096)
		p[at] = 1;
}

static void fill_mmap(size_t size)
{
	dirty(create("mapped"), size, 0);
}

static void fill_mapped_deleted(size_t size)
{
	int fd = create("mapped");

	unlink("mapped");
	dirty(fd, size, 1);
}

static void rest(void)
{
	const struct timespec moment = { 0, 100000000 };

	nanosleep(&moment, NULL);
}

/* Piece by piece, each a deleted file of which @mapped bytes are mapped, at rest in between. */
static void leave_mapped(size_t size, size_t mapped)
{
	for (size_t at = 0; at < size; at += PART) {
		int fd = create("piece");

		put(fd, PART);
		if (mmap(NULL, mapped, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
			fail("mmap");
		unlink("piece");
		close(fd);
		rest();
	}
}

/* One page of each shows. */
static void fill_barely_mapped(size_t size)
{
	leave_mapped(size, 4096);
}

/* Under a path that is longer than what is read of /proc at a time. */
static void fill_far_mapped(size_t size)
{
	static char name[251];

	memset(name, 'd', sizeof(name) - 1);
	for (int i = 0; i < 300; i++)
		if (mkdir(name, 0755) < 0 || chdir(name) < 0)
			fail("mkdir");
	leave_mapped(size, PART);
}

static void *in_thread(void *arg)
{
	rest();
	leave_mapped((size_t)arg, PART);
	sleep(2);
	puts("filled");
	fflush(stdout);
	_exit(0);
}

/* By a process whose first thread has ended and tells nothing any more. */
static void fill_headless(size_t size)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, (void *)size))
		fail("pthread_create");
	pthread_exit(NULL);
}

/* Programs that run, of which only the beginning is mapped. */
static void fill_programs(size_t size)
{
	char name[32];

	for (size_t at = 0; at < size; at += PART) {
		struct stat st;
		int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd;

		snprintf(name, sizeof(name), "p%zu", at / PART);
		fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
		if (fd < 0 || self < 0 || fstat(self, &st) < 0 ||
		    sendfile(fd, self, NULL, (size_t)st.st_size) != st.st_size)
			fail("copy");
		put(fd, PART);
		close(fd);
		close(self);
		if (fork() == 0) {
			execl(name, name, "nothing", "0", "60000", (char *)NULL);
			fail("exec");
		}
		rest();
		unlink(name);
	}
}

/* Empty directories that were full, each the current directory of a process. */
static void fill_inside(size_t size)
{
	char name[300], dir[32];

	/* Names of 250 bytes: a directory of 800 takes a quarter of a MiB. */
	for (size_t at = 0; at < size; at += MIB / 4) {
		snprintf(dir, sizeof(dir), "i%zu", at);
		if (mkdir(dir, 0755) < 0)
			fail("mkdir");
		for (int i = 0; i < 2 * 800; i++) {
			snprintf(name, sizeof(name), "%s/%0250d", dir, i % 800);
			if (i < 800)
				close(create(name));
			else
				unlink(name);
		}
		if (fork() == 0) {
			if (chdir(dir) < 0)
				fail("chdir");
			for (;;)
				pause();
		}
		rest();
		rmdir(dir);
	}
}

static void fill_nothing(size_t size)
{
	(void)size;
}

static void fill_deleted(size_t size)
{
	int fd = create("gone");

	unlink("gone");
	put(fd, size);
}

static void fill_tmpfile(size_t size)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);

	/* Overlays have none before Linux 6.1. */
	if (fd < 0)
		fill_deleted(size);
	else
		put(fd, size);
}

/* Behind descriptors of a process whose /proc cannot be read. */
static void fill_undumpable(size_t size)
{
	int fd = create("gone");

	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	unlink("gone");
	put(fd, size);
}

/* In the queue of a socket, and nowhere else. */
static void fill_passed(size_t size)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
		fail("socketpair");
	for (size_t at = 0; at < size; at += PART) {
		union {
			struct cmsghdr head;
			char room[CMSG_SPACE(sizeof(int))];
		} control = { 0 };
		struct iovec iov = { "x", 1 };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control) };
		int fd = create("gone");

		unlink("gone");
		put(fd, PART);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		/* A full queue: another one. */
		if (sendmsg(pair[0], &msg, MSG_DONTWAIT) < 0) {
			if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0)
				fail("socketpair");
			if (sendmsg(pair[0], &msg, 0) < 0)
				fail("sendmsg");
		}
		close(fd);
	}
}

static void fill_locked(size_t size)
{
	char name[64];

	for (size_t at = 0; at < size; at += PART) {
		snprintf(name, sizeof(name), "l%zu", at / PART);
		mkdir(name, 0755);
		snprintf(name, sizeof(name), "l%zu/big", at / PART);
		int fd = create(name);

		put(fd, PART);
		close(fd);
		snprintf(name, sizeof(name), "l%zu", at / PART);
		chmod(name, 0);
	}
}

static void fill_deep(size_t size)
{
	for (int i = 0; i < DEPTH; i++)
		if (mkdir("d", 0755) < 0 || chdir("d") < 0)
			fail("mkdir");
	put(create("big"), size);
}

static void fill_copy_up(size_t size)
{
	int fd = open("base", O_RDWR);

	(void)size;
	if (fd < 0)
		fail("base");
}

static void fill_sendfile(size_t size)
{
	int from = create("from"), to = create("to");

	put(from, PART);
	for (size_t at = 0; at < size; at += PART) {
		off_t off = 0;

		if (sendfile(to, from, &off, PART) < 0)
			fail("sendfile");
	}
}

static void fill_attributes(size_t size)
{
	char name[32];

	for (size_t i = 0; i < size / 4096; i++) {
		snprintf(name, sizeof(name), "a%zu", i);
		close(create(name));
		if (setxattr(name, "user.x", block, 3000, 0) < 0)
			fail("setxattr");
	}
}

/* The C library writes where the kernel does not reserve. */
static void fill_reserve(size_t size)
{
	int fd = create("big");

	if (fallocate(fd, 0, 0, (off_t)size) == 0)
		return;
	if (errno != EOPNOTSUPP)
		fail("fallocate");
	if (posix_fallocate(fd, 0, (off_t)size) != 0)
		fail("posix_fallocate");
}

/* Directories move about all the time. */
static void fill_moving(size_t size)
{
	pid_t mover;

	mkdir("x", 0755);
	mkdir("x/d", 0755);
	mkdir("y", 0755);
	mover = fork();
	if (mover == 0)
		for (;;) {
			rename("x/d", "y/d");
			rename("y/d", "x/d");
		}
	for (size_t at = 0; at < size; at += PART) {
		char name[32];
		int fd = -1;

		snprintf(name, sizeof(name), "x/d/f%zu", at / PART);
		while (fd < 0)
			fd = open(name, O_RDWR | O_CREAT, 0644);
		put(fd, PART);
		close(fd);
	}
}

/* --- what must not be ended --- */

static void fill_names(size_t size)
{
	char name[32];

	(void)size;
	put(create("one"), MIB);
	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		if (link("one", name) < 0)
			fail("link");
	}
}

static void fill_churn(size_t size)
{
	for (size_t at = 0; at < size; at += 8 * PART) {
		int fd = create("churn");

		put(fd, 8 * PART);
		close(fd);
		unlink("churn");
	}
}

static void fill_sparse(size_t size)
{
	(void)size;
	if (ftruncate(create("sparse"), (off_t)1 << 42) < 0)
		fail("truncate");
}

static const struct {
	const char *name;
	void (*fill)(size_t size);
} kinds[] = {
	{ "write", fill_write },
	{ "writers", fill_writers },
	{ "files", fill_files },
	{ "dirs", fill_dirs },
	{ "small", fill_small },
	{ "mmap", fill_mmap },
	{ "mapped-deleted", fill_mapped_deleted },
	{ "barely-mapped", fill_barely_mapped },
	{ "far-mapped", fill_far_mapped },
	{ "headless", fill_headless },
	{ "programs", fill_programs },
	{ "inside", fill_inside },
	{ "nothing", fill_nothing },
	{ "deleted", fill_deleted },
	{ "tmpfile", fill_tmpfile },
	{ "undumpable", fill_undumpable },
	{ "passed", fill_passed },
	{ "locked", fill_locked },
	{ "deep", fill_deep },
	{ "copy-up", fill_copy_up },
	{ "sendfile", fill_sendfile },
	{ "attributes", fill_attributes },
	{ "reserve", fill_reserve },
	{ "moving", fill_moving },
	{ "names", fill_names },
	{ "churn", fill_churn },
	{ "sparse", fill_sparse },
};

int main(int argc, char **argv)
{
	unsigned long hold = argc > 3 ? strtoul(argv[3], NULL, 10) : 1500;
	const struct timespec pause = { (time_t)(hold / 1000), (long)(hold % 1000) * 1000000 };

	if (argc < 3)
		return 2;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, argv[1]) != 0)
			continue;
		kinds[i].fill(strtoul(argv[2], NULL, 10) * MIB);
		nanosleep(&pause, NULL);
		puts("filled");
		fflush(stdout);
		return 0;
	}
	return 2;
}

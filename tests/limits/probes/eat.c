/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes memory in every way a program can: eat KIND MIB [HOLD_MS]
 *
 * As fast as the machine allows (one random word in each page), then holds what it has for HOLD_MS
 * (default 1500) and prints `ate N MiB`. Memory that no process maps, that no process has open or
 * whose owner cannot be looked at counts as much as any other.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/msg.h>
#include <time.h>

#include "../../escape/probes/probe.h"

#define MIB ((size_t)1 << 20)
#define PAGE 4096
#define PIECE (4 * MIB)

#define OBJECTS_MAX 40000

static unsigned hold_ms = 1500;

/* What would outlive the program outside of a namespace of its own. */
static int segments[OBJECTS_MAX], queues[OBJECTS_MAX];
static unsigned n_segments, n_queues;
static char file_path[64];

static void tidy(void)
{
	while (n_segments)
		shmctl(segments[--n_segments], IPC_RMID, NULL);
	while (n_queues)
		msgctl(queues[--n_queues], IPC_RMID, NULL);
	if (*file_path)
		unlink(file_path);
}

static void fail(const char *what)
{
	fprintf(stderr, "eat: %s: %s\n", what, errno_name(errno));
	tidy();
	_exit(3);
}

static void sleep_ms(unsigned ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static uint64_t noise(void)
{
	static __thread uint64_t state;

	if (!state)
		state = (uint64_t)getpid() << 32 | (uint64_t)time(NULL) | 1;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void touch(char *mem, size_t size)
{
	size_t at;

	for (at = 0; at < size; at += PAGE)
		*(volatile uint64_t *)(mem + at) = noise();
}

static char *map(size_t size, int flags)
{
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_NORESERVE | flags, -1, 0);

	if (mem == MAP_FAILED)
		fail("mmap");
	return mem;
}

static void eat_anon(size_t size)
{
	touch(map(size, MAP_PRIVATE | MAP_ANONYMOUS), size);
}

static void eat_huge(size_t size)
{
	char *mem = map(size + 2 * MIB, MAP_PRIVATE | MAP_ANONYMOUS);

	if (madvise(mem, size + 2 * MIB, MADV_HUGEPAGE) < 0)
		fail("madvise");
	touch(mem, size);
}

static void eat_shared(size_t size)
{
	touch(map(size, MAP_SHARED | MAP_ANONYMOUS), size);
}

/* The pages stay in the object behind the mapping; the process's own size falls to nothing. Piece
 * by piece, so that it never shows more than one piece.
 */
static void eat_dropped(size_t size)
{
	char *mem = map(size, MAP_SHARED | MAP_ANONYMOUS);
	size_t at;

	for (at = 0; at < size; at += PIECE) {
		touch(mem + at, PIECE);
		if (madvise(mem + at, PIECE, MADV_DONTNEED) < 0)
			fail("madvise");
	}
}

/* One page stays mapped and keeps the whole object; nothing tells how large that is. */
static void eat_unmapped(size_t size)
{
	size_t at;

	for (at = 0; at < size; at += PIECE) {
		char *mem = map(PIECE, MAP_SHARED | MAP_ANONYMOUS);

		touch(mem, PIECE);
		munmap(mem + PAGE, PIECE - PAGE);
	}
}

static int memfd(size_t size)
{
	int fd = memfd_create("eat", MFD_CLOEXEC | 8 /* MFD_NOEXEC_SEAL */);

	if (fd < 0)
		fail("memfd_create");
	if (size && ftruncate(fd, (off_t)size) < 0)
		fail("ftruncate");
	return fd;
}

static void fill(int fd, size_t size)
{
	static char block[256 * 1024];
	size_t at;

	for (at = 0; at < size;) {
		ssize_t put;

		touch(block, sizeof(block));
		put = write(fd, block, sizeof(block) < size - at ? sizeof(block) : size - at);
		if (put <= 0)
			fail("write");
		at += (size_t)put;
	}
}

static void eat_memfd_write(size_t size)
{
	fill(memfd(0), size);
}

static void eat_memfd_alloc(size_t size)
{
	int fd = memfd(0);
	size_t at;

	for (at = 0; at < size; at += PIECE)
		if (fallocate(fd, 0, (off_t)at, PIECE) < 0)
			fail("fallocate");
}

static void eat_memfd_mapped(size_t size)
{
	int fd = memfd(size);
	char *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (mem == MAP_FAILED)
		fail("mmap");
	close(fd);
	touch(mem, size);
	madvise(mem, size, MADV_DONTNEED);
}

static void send_fd(int sock, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} aux = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
			    .cmsg_level = SOL_SOCKET,
			    .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { "x", 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = aux.room,
			      .msg_controllen = sizeof(aux.room) };

	memcpy(CMSG_DATA(&aux.head), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) < 0)
		fail("sendmsg");
}

/* In flight: neither open nor mapped anywhere. Small pieces, each gone before it is seen. */
static void eat_memfd_flight(size_t size)
{
	int pair[2];
	size_t at;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		fail("socketpair");
	for (at = 0; at < size; at += PIECE) {
		int fd = memfd(0);

		fill(fd, PIECE);
		send_fd(pair[0], fd);
		close(fd);
	}
}

/* Open in a process whose /proc files belong to root. */
static void eat_memfd_hidden(size_t size)
{
	prctl(PR_SET_DUMPABLE, 0);
	eat_memfd_write(size);
}

static void eat_file(const char *dir, size_t size, int gone)
{
	int fd;

	snprintf(file_path, sizeof(file_path), "%s/eat-XXXXXX", dir);
	fd = mkstemp(file_path);
	if (fd < 0)
		fail("mkstemp");
	if (gone)
		unlink(file_path);
	fill(fd, size);
	if (!gone)
		close(fd);
}

static void eat_tmp(size_t size)
{
	eat_file("/tmp", size, 0);
}

static void eat_tmp_gone(size_t size)
{
	eat_file("/tmp", size, 1);
}

static void eat_devshm(size_t size)
{
	eat_file("/dev/shm", size, 1);
}

static void eat_posix(size_t size)
{
	char name[32];
	char *mem;
	int fd;

	snprintf(name, sizeof(name), "/eat-%d", getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		fail("shm_open");
	shm_unlink(name);
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		fail("mmap");
	touch(mem, size);
}

static void sysv(size_t size, size_t piece, int detach)
{
	size_t at;

	for (at = 0; at < size; at += piece) {
		int id = shmget(IPC_PRIVATE, piece, IPC_CREAT | 0600);
		char *mem;

		if (id < 0)
			fail("shmget");
		mem = shmat(id, NULL, 0);
		if (mem == (void *)-1)
			fail("shmat");
		touch(mem, piece);
		if (detach)
			shmdt(mem);
		else
			shmctl(id, IPC_RMID, NULL);
		if (detach && n_segments < OBJECTS_MAX)
			segments[n_segments++] = id;
	}
}

static void eat_sysv(size_t size)
{
	sysv(size, PIECE, 0);
}

static void eat_sysv_left(size_t size)
{
	sysv(size, PIECE, 1);
}

/* So many that a list of them is long. */
static void eat_sysv_many(size_t size)
{
	sysv(size, size / 3500 / PAGE * PAGE, 1);
}

/* A page table for each page touched, of a size of its own: read, so that the page is the one
 * page of zeros everybody shares.
 */
static void eat_tables(size_t size)
{
	size_t step = 2 * MIB, at, span = size / PAGE * step;
	char *mem = map(span, MAP_PRIVATE | MAP_ANONYMOUS);
	uint64_t sum = 0;

	for (at = 0; at < span; at += step)
		sum += *(volatile uint64_t *)(mem + at);
	if (sum)
		fail("zeros");
}

/* A child says that it has eaten, and holds it for longer than its parent. */
static int full[2];

static void eaten(void)
{
	if (write(full[1], "x", 1) != 1)
		fail("pipe");
	sleep_ms(hold_ms + 500);
	_exit(0);
}

static void wait_eaten(unsigned count)
{
	char byte;

	while (count--)
		if (read(full[0], &byte, 1) != 1)
			fail("pipe");
}

/* COUNT children take a share each and hold it. */
static void spread(size_t size, unsigned count, void (*how)(size_t))
{
	unsigned i;

	for (i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (!pid) {
			how(size / count);
			eaten();
		}
	}
	wait_eaten(count);
}

static void eat_children(size_t size)
{
	spread(size, 100, eat_anon);
}

static void eat_writers(size_t size)
{
	spread(size, 4, eat_anon);
}

static void eat_writers_huge(size_t size)
{
	spread(size, 4, eat_huge);
}

static void eat_writers_shared(size_t size)
{
	spread(size, 4, eat_shared);
}

/* Twenty processes share one part of it until each writes its own copy. */
static void eat_cow(size_t size)
{
	size_t part = size / 20;
	char *mem = map(part, MAP_PRIVATE | MAP_ANONYMOUS);
	unsigned i;

	touch(mem, part);
	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (!pid) {
			touch(mem, part);
			eaten();
		}
	}
	wait_eaten(20);
}

/* A reservation in COUNT pieces of one page each: the kernel has an entry for every second one. */
static void shred(size_t count)
{
	char *mem = map(count * PAGE, MAP_PRIVATE | MAP_ANONYMOUS);
	size_t i;

	for (i = 0; i < count; i += 2)
		if (mprotect(mem + i * PAGE, PAGE, PROT_READ) < 0)
			fail("mprotect");
}

/*
 * Makes the exact count slow: processes with very many mappings, which share so much that their
 * sizes alone tell nothing. One more process eats meanwhile.
 */
static void eat_fog(size_t size)
{
	size_t part = 40 * MIB;
	unsigned i;

	touch(map(part, MAP_PRIVATE | MAP_ANONYMOUS), part);
	shred(20000);
	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (!pid) {
			sleep_ms(hold_ms + 1500);
			_exit(0);
		}
	}
	sleep_ms(100);
	eat_huge(size);
}

/* The kernel's entries for mappings that hold nothing. */
static void eat_vmas(size_t size)
{
	size_t each = 60000;
	unsigned i;

	for (i = 0; i < size / (12 * MIB); i++) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (!pid) {
			shred(each);
			eaten();
		}
	}
	wait_eaten(i);
}

static void eat_daemon(size_t size)
{
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		setsid();
		eat_anon(size);
		eaten();
	}
	wait(NULL);
	wait_eaten(1);
}

static void *eat_in_thread(void *arg)
{
	/* Until the first thread is gone for the kernel, too. */
	sleep_ms(200);
	eat_anon((size_t)arg);
	eaten();
	return NULL;
}

/* By a process whose first thread has ended: its own figures say nothing. */
static void eat_headless(size_t size)
{
	if (!fork()) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, eat_in_thread, (void *)size))
			fail("pthread_create");
		pthread_exit(NULL);
	}
	wait_eaten(1);
}

static void eat_undumpable(size_t size)
{
	prctl(PR_SET_DUMPABLE, 0);
	eat_anon(size);
}

/* The kernel's memory behind sockets; the caller says how much it wants, the kernel how much it
 * gets. `want` is never reached where this is bounded, and that is no failure.
 */
static void eat_sockets(size_t size)
{
	static char block[128 * 1024];
	int big = 1 << 30;
	size_t got = 0;

	while (got < size) {
		int pair[2], i;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) < 0) {
			if (fork())
				break;
			/* A fresh table of descriptors, with the old one kept by the parent. */
			for (i = 3; i < 65536; i++)
				close(i);
			continue;
		}
		for (i = 0; i < 2; i++) {
			ssize_t put;

			setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &big, sizeof(big));
			while ((put = write(pair[i], block, sizeof(block))) > 0)
				got += (size_t)put;
		}
	}
	printf("sockets hold %zu MiB\n", got / MIB);
}

static void eat_pipes(size_t size)
{
	static char block[64 * 1024];
	size_t got = 0;

	while (got < size) {
		int pair[2], i;
		ssize_t put;

		if (pipe2(pair, O_NONBLOCK) < 0) {
			if (fork())
				break;
			for (i = 3; i < 65536; i++)
				close(i);
			continue;
		}
		fcntl(pair[1], F_SETPIPE_SZ, 1 << 20);
		while ((put = write(pair[1], block, sizeof(block))) > 0)
			got += (size_t)put;
	}
	printf("pipes hold %zu MiB\n", got / MIB);
}

static void eat_messages(size_t size)
{
	static struct {
		long type;
		char text[8192];
	} msg = { .type = 1 };
	size_t got = 0;

	while (got < size) {
		int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);

		if (id < 0 || n_queues == OBJECTS_MAX)
			break;
		queues[n_queues++] = id;
		while (msgsnd(id, &msg, sizeof(msg.text), IPC_NOWAIT) == 0)
			got += sizeof(msg.text);
	}
	printf("messages hold %zu MiB\n", got / MIB);
}

static void *deep(void *arg)
{
	size_t size = (size_t)arg;
	char *stack = __builtin_alloca(size);

	touch(stack, size);
	if (write(full[1], "x", 1) != 1)
		fail("pipe");
	sleep_ms(hold_ms + 500);
	return NULL;
}

/* A copy of the page tables, which nobody sees until it is complete. */
static void *fork_once(void *arg)
{
	(void)arg;
	if (fork() == 0) {
		sleep_ms(hold_ms + 500);
		_exit(0);
	}
	if (write(full[1], "x", 1) != 1)
		fail("pipe");
	return NULL;
}

/* Page tables, and several forks at once. */
static void eat_tables_forked(size_t size)
{
	enum {
		FORKS = 7
	};
	size_t step = 2 * MIB, span = size / (FORKS + 1) / PAGE * step;
	char *mem = map(span, MAP_PRIVATE | MAP_ANONYMOUS);
	pthread_t threads[FORKS];

	/* Something of its own in it, or there would be nothing to copy. */
	mem[0] = 1;
	for (size_t at = step; at < span; at += step)
		(void)*(volatile char *)(mem + at);
	for (int i = 0; i < FORKS; i++)
		if (pthread_create(&threads[i], NULL, fork_once, NULL))
			fail("pthread_create");
	wait_eaten(FORKS);
}

static void eat_threads(size_t size)
{
	size_t part = size / 40;
	pthread_attr_t attr;
	unsigned i;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, part + MIB);
	for (i = 0; i < 40; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attr, deep, (void *)part))
			fail("pthread_create");
	}
	wait_eaten(40);
}

/* No task is running when the sampler looks. */
static void eat_stopped(size_t size)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (!pid) {
		eat_anon(size);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(pid, NULL, WUNTRACED);
	sleep_ms(hold_ms);
	kill(pid, SIGKILL);
}

/* The parent waits without being interruptible while the child eats in its memory. */
static void eat_vfork(size_t size)
{
	if (!vfork()) {
		eat_anon(size);
		sleep_ms(hold_ms);
		_exit(0);
	}
}

static const struct {
	const char *name;
	void (*eat)(size_t size);
} kinds[] = {
	{ "anon", eat_anon },
	{ "huge", eat_huge },
	{ "shared", eat_shared },
	{ "dropped", eat_dropped },
	{ "unmapped", eat_unmapped },
	{ "memfd-write", eat_memfd_write },
	{ "memfd-alloc", eat_memfd_alloc },
	{ "memfd-mapped", eat_memfd_mapped },
	{ "memfd-flight", eat_memfd_flight },
	{ "memfd-hidden", eat_memfd_hidden },
	{ "tmp", eat_tmp },
	{ "tmp-gone", eat_tmp_gone },
	{ "devshm", eat_devshm },
	{ "posix", eat_posix },
	{ "sysv", eat_sysv },
	{ "sysv-left", eat_sysv_left },
	{ "sysv-many", eat_sysv_many },
	{ "tables", eat_tables },
	{ "tables-forked", eat_tables_forked },
	{ "children", eat_children },
	{ "writers", eat_writers },
	{ "writers-huge", eat_writers_huge },
	{ "writers-shared", eat_writers_shared },
	{ "cow", eat_cow },
	{ "fog", eat_fog },
	{ "vmas", eat_vmas },
	{ "daemon", eat_daemon },
	{ "headless", eat_headless },
	{ "undumpable", eat_undumpable },
	{ "sockets", eat_sockets },
	{ "pipes", eat_pipes },
	{ "messages", eat_messages },
	{ "threads", eat_threads },
	{ "stopped", eat_stopped },
	{ "vfork", eat_vfork },
};

int main(int argc, char **argv)
{
	size_t size, i;

	if (argc < 3)
		return 2;
	size = (size_t)atoi(argv[2]) * MIB;
	if (argc > 3)
		hold_ms = (unsigned)atoi(argv[3]);
	if (pipe2(full, O_CLOEXEC) < 0)
		return 2;
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kinds[i].name, argv[1]))
			continue;
		kinds[i].eat(size);
		printf("ate %zu MiB\n", size / MIB);
		fflush(stdout);
		sleep_ms(hold_ms);
		tidy();
		return 0;
	}
	return 2;
}

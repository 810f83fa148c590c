/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes what the kernel keeps for a program and counts for no process: hoard KIND [N]
 *
 * Prints `KIND had N`, the number of things it got, after `KIND denied ERRNO` if it was stopped,
 * and then holds them until its standard input ends.
 */
#include <linux/filter.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <time.h>

#include "../../escape/probes/probe.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define PORTS 65536
#define FILTER_LENGTH 2000 /* net.core.optmem_max is 20 KiB before Linux 6.8 */
#define UNDO_SETS 4
#define ROUNDS 4200 /* each makes more than three events: 16,384 and a bit */

static long has;
static int sets[UNDO_SETS], n_sets;

static void stopped(const char *kind)
{
	printf("%s denied %s\n", kind, errno_name(errno));
}

/* Rules for ports are the quickest to make: 65,536 for each ruleset, 4 MiB. */
static void landlock(long want)
{
	for (long i = 0; i < want; i++) {
		const uint64_t handled[2] = { 0, 3 };
		long fd = syscall(444, handled, sizeof(handled), 0);

		for (uint64_t port = 0; fd >= 0 && port < PORTS; port++, has++) {
			const uint64_t rule[2] = { 3, port };

			if (syscall(445, fd, 2, rule, 0) < 0)
				fd = -1;
		}
		if (fd < 0) {
			stopped("landlock");
			return;
		}
	}
}

/* Queues that nobody reads, full of events with the longest names. */
static void inotify(long want)
{
	char dir[] = "hoard-XXXXXX", name[2][300];

	if (!mkdtemp(dir))
		exit(3);
	for (; has < want; has++) {
		int fd = inotify_init1(IN_CLOEXEC);

		if (fd < 0 || inotify_add_watch(fd, dir, IN_ALL_EVENTS) < 0) {
			stopped("inotify");
			break;
		}
	}
	for (int i = 0; i < 2; i++)
		snprintf(name[i], sizeof(name[i]), "%s/%0240d", dir, i);
	close(open(name[0], O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	for (int i = 0; i < ROUNDS; i++) {
		rename(name[i & 1], name[!(i & 1)]);
		close(open(name[!(i & 1)], O_RDWR | O_CLOEXEC));
	}
	unlink(name[0]);
	unlink(name[1]);
	rmdir(dir);
}

static void watches(long want)
{
	int fd = inotify_init1(IN_CLOEXEC);
	char path[64];

	for (; has < want; has++) {
		snprintf(path, sizeof(path), "file-%ld", has);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		if (inotify_add_watch(fd, path, IN_MODIFY) < 0) {
			stopped("watches");
			break;
		}
	}
}

static void filters(long want)
{
	static struct sock_filter code[FILTER_LENGTH];
	const struct sock_fprog program = { FILTER_LENGTH, code };

	for (int i = 0; i < FILTER_LENGTH; i++)
		code[i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, (unsigned)i);
	code[FILTER_LENGTH - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	for (; has < want; has++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
		    setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) <
			    0) {
			stopped("filters");
			return;
		}
		close(pair[1]);
	}
}

/* The whole machine's asynchronous requests. */
static void aio(long want)
{
	unsigned long context;

	for (long step = 16384; step && has < want; step /= 2) {
		context = 0;
		while (has < want && syscall(SYS_io_setup, step, &context) == 0) {
			has += step;
			context = 0;
		}
	}
	if (has < want)
		stopped("aio");
}

static void huge_mmap(long want)
{
	for (; has < want; has++) {
		void *mem = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

		if (mem == MAP_FAILED) {
			stopped("huge-mmap");
			return;
		}
		*(volatile char *)mem = 1;
	}
}

static void huge_memfd(long want)
{
	for (; has < want; has++) {
		int fd = memfd_create("huge", MFD_HUGETLB | MFD_CLOEXEC);
		void *mem =
			fd < 0 ? MAP_FAILED
			       : mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (fd >= 0 && mem == MAP_FAILED)
			ftruncate(fd, HUGE_BYTES);
		if (mem == MAP_FAILED) {
			stopped("huge-memfd");
			return;
		}
		*(volatile char *)mem = 1;
	}
}

/* Outside it needs a privilege or a group, so one that is made is enough. */
static void huge_shm(long want)
{
	for (; has < want; has++) {
		int id = shmget(IPC_PRIVATE, HUGE_BYTES, IPC_CREAT | SHM_HUGETLB | 0600);

		if (id < 0) {
			stopped("huge-shm");
			return;
		}
		shmctl(id, IPC_RMID, NULL);
	}
}

/* Acknowledgements that nobody reads. */
static void netlink(long want)
{
	struct {
		struct nlmsghdr head;
		char rest[4000]; /* comes back with each */
	} message = { .head = { .nlmsg_len = sizeof(message),
				.nlmsg_type = 9999,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK } };

	for (; has < want; has++) {
		int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);

		if (fd < 0) {
			stopped("netlink");
			return;
		}
		for (int i = 0; i < 400; i++)
			if (send(fd, &message, sizeof(message), MSG_DONTWAIT) < 0)
				break;
	}
}

/* What is to be undone at the end of each of these processes: 64 KiB for each set. */
static void undo(long want)
{
	for (int i = 0; i < UNDO_SETS; i++)
		sets[i] = semget(IPC_PRIVATE, 32000, IPC_CREAT | 0600);
	for (; has < want; has++) {
		struct sembuf up = { .sem_op = 1, .sem_flg = SEM_UNDO };
		int told[2];
		char byte;

		if (pipe(told) < 0)
			exit(3);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (int i = 0; i < UNDO_SETS; i++)
				semop(sets[i], &up, 1);
			close(told[1]);
			for (;;)
				pause();
		}
		close(told[1]);
		if (read(told[0], &byte, 1) != 0)
			exit(3);
		close(told[0]);
	}
	n_sets = UNDO_SETS;
}

static void timers(long want)
{
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	timer_t timer;

	for (; has < want; has++) {
		if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0) {
			stopped("timers");
			return;
		}
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*take)(long want);
		long standard;
	} kinds[] = {
		{ "landlock", landlock, 4 },	 { "inotify", inotify, 1000 },
		{ "watches", watches, 1000000 }, { "filters", filters, 400 },
		{ "aio", aio, 10000000 },	 { "huge-mmap", huge_mmap, 2 },
		{ "huge-memfd", huge_memfd, 2 }, { "huge-shm", huge_shm, 2 },
		{ "timers", timers, 1000000 },	 { "netlink", netlink, 400 },
		{ "undo", undo, 200 },
	};
	const char *where = getenv("TMPDIR");
	char end;

	if (chdir(where ? where : "/tmp") < 0)
		return 3;
	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kinds[i].take(argc > 2 ? atol(argv[2]) : kinds[i].standard);
	printf("%s had %ld\n", argv[1], has);
	fflush(stdout);
	end = (char)read(0, &end, 1);
	while (n_sets)
		semctl(sets[--n_sets], 0, IPC_RMID);
	return end < 0;
}

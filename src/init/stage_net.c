/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: give the sandbox a net namespace with nothing in it but a raised loopback device, so
 * that programs can talk to themselves. Mustn't: add any other way out, or go on without it.
 *
 * Making a net namespace is the most expensive single thing a run needs. So a second process that
 * shares our memory makes it while this one builds the mounts, and this one then enters it.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/if.h>
#include <linux/sched.h>

#include "bare/clone.h"
#include "bare/fd.h"
#include "bare/raw.h"

#define SOCK_DGRAM_CLOEXEC (2 | 02000000)
#define SIOCSIFFLAGS 0x8914
#define WALL 0x40000000
#define BOTH_CPUS 3u /* a set of processors */

/* One builder per process; both sides see it. */
static struct {
	unsigned is_made, is_entered; /* futexes */
	int pid, pid_fd;
	unsigned step;
	long error;
} net;

static void announce(unsigned *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	raw_syscall(__NR_futex, (long)flag, FUTEX_WAKE, 1, 0, 0, 0);
}

static void await(unsigned *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		raw_syscall(__NR_futex, (long)flag, FUTEX_WAIT, 0, 0, 0, 0);
}

static long make_namespace(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	long r, fd;

	net.step = STEP_NET_UNSHARE;
	r = raw_syscall(__NR_unshare, CLONE_NEWNET, 0, 0, 0, 0, 0);
	if (r < 0)
		return r;
	net.step = STEP_NET_SOCKET;
	fd = raw_syscall(__NR_socket, AF_INET, SOCK_DGRAM_CLOEXEC, 0, 0, 0, 0);
	if (fd < 0)
		return fd;
	net.step = STEP_NET_LOOPBACK;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	r = raw_syscall(__NR_ioctl, fd, SIOCSIFFLAGS, (long)&request, 0, 0, 0);
	close_fd(fd);
	return r;
}

/*
 * Lets the command use ports below 1024 of the sandbox's own loopback device. Best effort: in a
 * container the setting may be read-only.
 */
static void open_low_ports(void)
{
	long fd = raw_syscall(__NR_openat, AT_FDCWD,
			      (long)"/proc/sys/net/ipv4/ip_unprivileged_port_start",
			      O_WRONLY | O_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return;
	raw_syscall(__NR_write, fd, (long)"0", 1, 0, 0, 0);
	close_fd(fd);
}

static int build_net(void *arg)
{
	(void)arg;
	net.error = make_namespace();
	if (net.error >= 0)
		open_low_ports();
	announce(&net.is_made);
	/* The namespace lives as long as a process is in it. */
	await(&net.is_entered);
	return 0;
}

void start_net(struct init *in)
{
	size_t size;
	char *stack = setup_stack(&size);
	long pid = clone_call(VFORK_CLONE_PIDFD, stack, size, &net.pid_fd, build_net, 0);

	if (pid < 0)
		fail(in, STAGE_NET, STEP_NET_CLONE, pid);
	net.pid = (int)pid;
}

/* The beginning of a file of the host's kernel; how many bytes, or -errno. */
static long read_start(const char *path, char *buf, long size)
{
	long n, fd = raw_syscall(__NR_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);

	if (fd < 0)
		return fd;
	n = raw_syscall(__NR_read, fd, (long)buf, size, 0, 0, 0);
	close_fd(fd);
	return n;
}

/*
 * The machine has two processors, no more can be plugged in, we may use both, and our turn comes on
 * either. So the set of both can be put back as it was.
 */
static int has_two_cpus(void)
{
	char text[8] = "";
	uint64_t cpus = 0;

	return raw_syscall(__NR_sched_getaffinity, 0, sizeof(cpus), (long)&cpus, 0, 0, 0) >= 0 &&
	       cpus == BOTH_CPUS && raw_syscall(__NR_sched_getscheduler, 0, 0, 0, 0, 0, 0) == 0 &&
	       read_start("/sys/devices/system/cpu/possible", text, sizeof(text)) == 4 &&
	       text[0] == '0' && text[1] == '-' && text[2] == '1';
}

/* Nothing wants to run but the supervisor, the builder and we: "0.12 0.34 0.56 3/78 901". */
static int is_quiet(void)
{
	char text[32] = "";
	long n = read_start("/proc/loadavg", text, sizeof(text)), at = 0;

	for (int spaces = 0; spaces < 3 && at < n; at++)
		spaces += text[at] == ' ';
	return at + 1 < n && text[at] >= '0' && text[at] <= '3' && text[at + 1] == '/';
}

/*
 * With two processors one makes the plan, and the builder waits for the other, on which we are. If
 * we slept here now, the scheduler would wake us here again, behind the builder, although the
 * supervisor goes to sleep as soon as it has sent the plan: 0.3 ms of one processor doing nothing.
 * So we move over to the supervisor's, where our turn comes at that moment. With more processors
 * the builder has one of its own from the beginning, and where others want to run nothing is won.
 * Only speed depends on moving; but the command may use both, so that moving back must succeed.
 */
void make_way_for_net(struct init *in)
{
	const uint64_t both = BOTH_CPUS;
	uint64_t other;
	unsigned cpu = 0;
	long r;

	if (!has_two_cpus() || !is_quiet() ||
	    raw_syscall(__NR_getcpu, (long)&cpu, 0, 0, 0, 0, 0) < 0)
		return;
	other = both & ~((uint64_t)1 << (cpu & 1));
	if (raw_syscall(__NR_sched_setaffinity, 0, sizeof(other), (long)&other, 0, 0, 0) < 0)
		return;
	r = raw_syscall(__NR_sched_setaffinity, 0, sizeof(both), (long)&both, 0, 0, 0);
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_CPUS, r);
}

void stage_net(struct init *in)
{
	long r;

	if (!net.pid)
		return; /* entered while parked */
	await(&net.is_made);
	if (net.error < 0)
		fail(in, STAGE_NET, net.step, net.error);
	r = raw2(__NR_setns, net.pid_fd, CLONE_NEWNET);
	announce(&net.is_entered);
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_ENTER, r);
	close_fd(net.pid_fd);
	/* It is ending; if it is not reaped it looks like a process of the guest. */
	while (raw_syscall(__NR_wait4, net.pid, 0, WALL, 0, 0, 0) == -EINTR)
		;
	net.pid = 0;
}

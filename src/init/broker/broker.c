/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker: changes of metadata at level `landlock`; connect(), see connect.c; where Landlock is
 * too old to keep them inside, signals, see signals.c; and where it knows no truncation,
 * truncate().
 *
 * Theory of operation. Landlock has no right for chmod, chown and utime. So at a level that has
 * only Landlock the filter hands these calls of the guest to us: we are outside its domain and its
 * filter, with the same ids. We copy the path out of the guest's memory once, walk it ourselves
 * from the guest's directory, pin the object that it leads to, check that the object lies inside a
 * write grant, change it through the pin, and tell the guest the outcome.
 *
 * Should: do for objects inside write grants what the kernel would have done.
 * Mustn't: let the kernel go on with the guest's call (its memory may have changed); decide by
 * anything but the identity of kernel objects; keep init from its work. Any failure is a refusal.
 *
 * It is a thread, the only one init ever has: a change waits for the lock of the file's inode,
 * which a guest that writes gigabytes at once can hold for long, and the supervisor's orders must
 * not wait for that. A thread and not a process, since the kernel's ptrace scope (Yama) lets us
 * read the memory of descendants only. It makes no system call that counts as a step of set-up, and
 * shares nothing with the main thread but struct broker: filled before it starts, two flags after.
 *
 * The task that asks is pinned by its directory in /proc, opened before the kernel is asked whether
 * the request is still valid: so the pid cannot have passed to another process. Where there is no
 * listener (a filter around us refuses it, one exists already, there is no /proc) the same filter
 * runs without it, and the kernel refuses these calls (ENOSYS). A run with a network does not start
 * there.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>

#include "bare/clone.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/socket.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "init/broker/broker.h"
#include "init/broker/parts.h"
#include "seccomp/seccomp.h"
#include "uapi/landlock.h"

#define PROC_MAGIC 0x9fa0
#define SOCKET_TYPE (5 | 02000000) /* SEQPACKET, CLOEXEC */
#define STACK_BYTES 65536
#define RLIMIT_FSIZE_NR 1
#define STOP_PAUSE_NS 1000000
#define STOP_TRIES 1000
#define WRITE_RIGHTS (LL_FS_WRITE_FILE | LL_FS_MAKE_REG)

static struct broker_root roots[BROKER_ROOTS_MAX]; /* by itself: zeroes are not in the image */
static struct broker broker = { .proc_fd = -1,
				.self_fds = -1,
				.socket_fd = -1,
				.child_socket = -1,
				.proxy_fd = -1,
				.gateway_fd = -1,
				.roots = roots };

/* /proc must be procfs, and show the pids of our pid namespace. */
static int open_proc(struct broker *b)
{
	/* struct statfs; only its first word is used, the type. */
	long fs[16];
	char own[16], seen[16];
	long n;

	b->proc_fd = (int)raw4(__NR_openat, AT_FDCWD, "/proc",
			       O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
	if (b->proc_fd < 0 || raw2(__NR_fstatfs, b->proc_fd, fs) < 0 || fs[0] != PROC_MAGIC)
		return 0;
	text_number(own, sizeof(own), "", (uint32_t)raw0(__NR_getpid));
	n = raw4(__NR_readlinkat, b->proc_fd, "self", seen, sizeof(seen));
	if (n <= 0 || (size_t)n != str_len(own))
		return 0;
	for (long i = 0; i < n; i++) {
		if (own[i] != seen[i])
			return 0;
	}
	b->self_fds =
		(int)raw4(__NR_openat, b->proc_fd, "self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	return b->self_fds >= 0;
}

/* The identity of a rule's object, as the plan gives it or else as it is now. */
static int find_root(const struct init *in, const struct plan_op *op, struct broker_root *ret)
{
	const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				      .resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS };
	struct statx st;
	int fd;
	long r;

	if (op->flags & PLAN_IDENTITY) {
		*ret = (struct broker_root){ op->ino, op->dev_major, op->dev_minor };
		return 1;
	}
	fd = (int)raw4(__NR_openat2, AT_FDCWD, str_at(in, op->src), &how, sizeof(how));
	if (fd < 0)
		return 0;
	r = broker_stat(fd, "", &st);
	drop_fd(&fd);
	if (r < 0)
		return 0;
	*ret = (struct broker_root){ st.stx_ino, st.stx_dev_major, st.stx_dev_minor };
	return 1;
}

static void find_roots(const struct init *in, struct broker *b)
{
	const struct plan_op *ops = (const void *)((const char *)in->plan + in->plan->ops_off);

	for (uint32_t i = 0; i < in->plan->n_ops && b->n_roots < BROKER_ROOTS_MAX; i++) {
		if (ops[i].type == PLAN_OP_RULE && (ops[i].access & WRITE_RIGHTS) &&
		    find_root(in, &ops[i], &b->roots[b->n_roots]))
			b->n_roots++;
	}
}

/* What connect() needs. The supervisor has bound the socket: its plan names the port. */
static void prepare_net(struct init *in, struct broker *b)
{
	uint16_t address[8] = { 0 }; /* struct sockaddr_in: family, port, ... */
	int size = sizeof(address);
	long r = raw3(__NR_getsockname, in->proxy_fd, address, &size);

	if (r == 0 && (address[0] != AF_INET_NR || address[1] == 0))
		r = -EAFNOSUPPORT;
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_PROXY_PORT, r);
	r = await_gateway(in);
	if (r < 0)
		fail(in, STAGE_NET, STEP_NET_AWAIT, r);
	b->proxy_port = (uint16_t)(address[1] << 8 | address[1] >> 8);
	b->proxy_fd = in->proxy_fd;
	b->gateway_fd = in->gateway_fd;
	b->has_unix = seccomp_variant_has_unix(in->plan->filter);
}

static uint64_t file_limit(const struct plan_header *plan)
{
	for (uint32_t i = 0; i < plan->n_rlimits; i++)
		if (plan->rlimits[i].resource == RLIMIT_FSIZE_NR)
			return plan->rlimits[i].soft;
	return ~(uint64_t)0;
}

long broker_prepare(struct init *in)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	struct broker *b = &broker;
	int pair[2];
	long r;

	if (in->plan->level != PLAN_LEVEL_LANDLOCK)
		return 0;
	if (in->proxy_fd >= 0)
		prepare_net(in, b);
	if (!open_proc(b)) {
		if (in->proxy_fd >= 0)
			fail(in, STAGE_NET, STEP_NET_PROC, -ENOENT);
		return 0;
	}
	b->in = in;
	b->is_session = !!(in->plan->flags & PLAN_SESSION);
	b->file_bytes = file_limit(in->plan);
	b->uid = (uint32_t)raw0(__NR_getuid);
	b->gid = (uint32_t)raw0(__NR_getgid);
	find_roots(in, b);
	r = raw4(__NR_socketpair, AF_UNIX_NR, SOCKET_TYPE, 0, pair);
	if (r < 0)
		return r;
	b->socket_fd = pair[0];
	b->child_socket = pair[1];
#ifdef CORDON_FAULT_INJECTION
	if (raw_fault_countdown > 0 && --raw_fault_countdown == 0)
		return -raw_fault_errno;
#endif
	r = clone_thread(stack, sizeof(stack), broker_main, b);
	return r < 0 ? r : 0;
}

long broker_move(int least)
{
	long r = 0;

	if (broker.child_socket >= 0)
		broker.child_socket =
			(int)(r = raw3(__NR_fcntl, broker.child_socket, F_DUPFD_CLOEXEC, least));
	return r;
}

int broker_socket(void)
{
	return broker.child_socket;
}

void broker_release(void)
{
	drop_fd(&broker.child_socket);
}

void broker_stop(void)
{
	__atomic_store_n(&broker.stopping, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < STOP_TRIES && __atomic_load_n(&broker.busy, __ATOMIC_SEQ_CST); i++)
		sleep_ns(STOP_PAUSE_NS);
}

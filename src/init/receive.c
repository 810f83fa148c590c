/* SPDX-License-Identifier: Apache-2.0 */
/* Taking orders and descriptors from the control socket. */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/mman.h>
#include <linux/prctl.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/socket.h"
#include "bare/wait.h"
#include "plan/plan_read.h"
#include "seccomp/seccomp.h"

#define PROT_READ_ONLY 0x1
#define SEEK_TO_END 2
#define PLAN_FDS 5
#define COMMON_FDS 2
#define TERMINAL_FDS 2 /* without standard streams, or with one more: standard error */
#define CGROUP_FDS_MIN 2
#define CGROUP_FDS_MAX 3

struct fd_control {
	size_t len;
	int level, type;
	int fds[CONTROL_FDS_MAX];
};

/* Receives one order; returns the number of descriptors, -EPIPE when the supervisor is gone. */
static long receive(struct control_order *order, struct fd_control *control, int flags)
{
	struct io_vector iov = { order, sizeof(*order) };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = control, .control_len = sizeof(*control)
	};
	long r;

	control->len = 0;
	control->level = control->type = 0;
	r = raw3(__NR_recvmsg, CTL_FD, &msg, flags | MESSAGE_CMSG_CLOEXEC);
	if (r == 0)
		return -EPIPE;
	if (r < 0)
		return r;
	if (r != sizeof(*order) || (msg.flags & (MESSAGE_CTRUNC | MESSAGE_TRUNC)))
		return -EBADMSG;
	if (msg.control_len < offsetof(struct fd_control, fds) || control->type != MESSAGE_RIGHTS ||
	    control->level != SOL_SOCKET_NR)
		return 0;
	return (long)((control->len - offsetof(struct fd_control, fds)) / sizeof(int));
}

int receive_order(struct control_order *order, int ret_fds[CONTROL_FDS_MAX], int *ret_n)
{
	struct fd_control control;
	long r = receive(order, &control, MESSAGE_DONTWAIT);

	*ret_n = 0;
	if (r == -EAGAIN || r == -EINTR)
		return 0;
	if (r < 0)
		return -1;
	memcpy(ret_fds, control.fds, (size_t)r * sizeof(*ret_fds));
	*ret_n = (int)r;
	return 1;
}

const struct plan_header *map_plan(struct init *in, int fd)
{
	long size = raw3(__NR_lseek, fd, 0, SEEK_TO_END);
	long address;

	if (size < 0)
		fail(in, STAGE_START, STEP_START_PLAN_SIZE, size);
	if (size > PLAN_SIZE_MAX)
		fail(in, STAGE_START, STEP_START_PLAN_SIZE, -EFBIG);
	address = raw6(__NR_mmap, 0, size, PROT_READ_ONLY, MAP_PRIVATE, fd, 0);
	if (address < 0 && address > -4096)
		fail(in, STAGE_START, STEP_START_PLAN_MAP, address);
	if (plan_read_check((const void *)address, (size_t)size) != 0)
		fail(in, STAGE_START, STEP_START_PLAN_CHECK, -EBADMSG);
	close_fd(fd);
	return (const struct plan_header *)address;
}

static void receive_mounts(struct init *in)
{
	struct control_order order;
	struct fd_control control;
	uint32_t have = 0;

	while (have < in->plan->n_mount_fds) {
		long n = receive(&order, &control, 0);

		if (n < 0)
			fail(in, STAGE_START, STEP_START_MOUNTS, n);
		if (order.type != CONTROL_MOUNTS || n == 0 ||
		    have + (uint32_t)n > in->plan->n_mount_fds)
			fail(in, STAGE_START, STEP_START_MOUNTS_ORDER, -EBADMSG);
		for (long i = 0; i < n; i++)
			in->mount_fds[have++] = control.fds[i];
	}
}

/*
 * The supervisor may have died before the parent-death signal was armed, and then no signal comes:
 * its pidfd, polled after arming, tells. From here on the signal, the pidfd and the socket's end
 * each suffice.
 */
static void tie_to_supervisor(struct init *in)
{
	struct poll_entry poll = { in->supervisor_fd, WAIT_IN, 0 };
	const struct duration no_time = { 0, 0 };
	long r;

	/* Without a pid namespace init must survive to end its tree: there the other two have to
	 * suffice. */
	if ((in->plan->flags & PLAN_PDEATHSIG) && in->plan->level == PLAN_LEVEL_NAMESPACES) {
		r = raw2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL_NR);
		if (r < 0)
			fail(in, STAGE_START, STEP_START_PDEATHSIG, r);
	}
	r = raw5(__NR_ppoll, &poll, 1, &no_time, 0, WAIT_SIGSET_BYTES);
	if (r != 0)
		fail(in, STAGE_START, STEP_START_SUPERVISOR, r < 0 ? r : -EOWNERDEAD);
}

/* The first thing a sandbox is told ties it to the supervisor; what comes later need not again. */
static void take_supervisor(struct init *in, int fd)
{
	if (in->supervisor_fd >= 0) {
		close_fd(fd);
		return;
	}
	in->supervisor_fd = fd;
	tie_to_supervisor(in);
}

/* From @fds on: descriptors of the workspace, the network and the channel. */
static void take_others(struct init *in, uint32_t flags, const int *fds)
{
	if (flags & CONTROL_LOCK)
		in->lock_fd = *fds++;
	if (flags & CONTROL_NET)
		in->gateway_fd = *fds++;
	if (flags & CONTROL_NET_PROXY)
		in->proxy_fd = *fds++;
	if (flags & CONTROL_IMAGE)
		in->image_fd = *fds++;
	if (flags & CONTROL_CHANNEL)
		in->channel_fd = *fds;
}

/* The filter that hands connect() to us and the listener it is done with belong together. */
static int net_is_sound(const struct init *in)
{
	if (in->proxy_fd < 0)
		return !seccomp_variant_has_net(in->plan->filter);
	return in->gateway_fd >= 0 && in->plan->level == PLAN_LEVEL_LANDLOCK &&
	       seccomp_variant_has_net(in->plan->filter);
}

static long count_others(uint32_t flags)
{
	return !!(flags & CONTROL_LOCK) + !!(flags & CONTROL_NET) + !!(flags & CONTROL_NET_PROXY) +
	       !!(flags & CONTROL_IMAGE) + !!(flags & CONTROL_CHANNEL);
}

/*
 * For the next order. A parked init may wait for a long time. The socket does not end with the
 * supervisor if a forked child of that holds a copy, and the parent-death signal is not always
 * armed.
 */
static void wait_parked(const struct init *in)
{
	struct poll_entry poll[2] = { { CTL_FD, WAIT_IN, 0 }, { in->supervisor_fd, WAIT_IN, 0 } };
	long r;

	do
		r = poll_wait(poll, 2, 0);
	while (r == -EINTR);
	if (r < 0 || poll[1].revents)
		for (;;)
			raw_syscall(__NR_exit_group, 1, 0, 0, 0, 0, 0);
}

/*
 * The pool that made this init has handed it to another process (launch/offer.c). Not before that
 * one hears of it may it count on this init: until then the end of the old supervisor is the end.
 */
static void take_new_supervisor(struct init *in, int fd)
{
	struct control_report report = { .type = CONTROL_ADOPTED };
	long r;

	close_fd(in->supervisor_fd);
	in->supervisor_fd = fd;
	r = raw3(__NR_write, CTL_FD, &report, sizeof(report));
	if (r < 0)
		fail(in, STAGE_START, STEP_START_SUPERVISOR, r);
}

/* The next order but those that are carried out here. */
static long next_order(struct init *in, struct control_order *order, struct fd_control *control)
{
	for (;;) {
		long n;

		if (in->plan)
			wait_parked(in);
		n = receive(order, control, 0);
		if (n < 0)
			fail(in, STAGE_START, STEP_START_RECEIVE, n);
		if (order->type != CONTROL_ADOPT || n != 1 || !in->plan)
			return n;
		take_new_supervisor(in, control->fds[0]);
	}
}

int receive_plan(struct init *in)
{
	struct control_order order = { .type = 0 };
	struct fd_control control;
	long n = next_order(in, &order, &control), first, all;

#ifdef CORDON_FAULT_INJECTION
	/* The count goes on from the common steps to the rest. */
	if (!in->plan) {
		raw_fault_countdown = (long)order.fault_countdown;
		raw_fault_errno = (long)order.fault_errno;
	}
#endif
	if (order.type == CONTROL_JANITOR)
		run_janitor(control.fds, (int)n);
	if (order.type == CONTROL_COVER)
		run_cover(in, order.arg, control.fds, (int)n);
	if (order.type == CONTROL_COMMON && n == COMMON_FDS && !in->plan) {
		in->plan = map_plan(in, control.fds[0]);
		take_supervisor(in, control.fds[1]);
		return 1;
	}
	first = order.flags & CONTROL_NO_STDIO ? TERMINAL_FDS + !!(order.flags & CONTROL_STDERR)
					       : PLAN_FDS;
	all = first + count_others(order.flags);
	if (order.type != CONTROL_PLAN ||
	    (n != all && (n < all + CGROUP_FDS_MIN || n > all + CGROUP_FDS_MAX)))
		fail(in, STAGE_START, STEP_START_ORDER, -EBADMSG);
	take_others(in, order.flags, control.fds + first);
	for (long i = all; i < n; i++)
		in->cgroup_fds[i - all] = control.fds[i];
	for (int i = 0; i < 3; i++)
		in->stdio[i] = first == PLAN_FDS ? control.fds[1 + i] : -1;
	if (first == TERMINAL_FDS + 1)
		in->stdio[2] = control.fds[1];
	in->term_rows = order.rows;
	in->term_cols = order.cols;
	in->limits = order.limits;
	in->keep_orphans = !!(order.flags & CONTROL_KEEP_ORPHANS);
	in->must_wait = !!(order.flags & CONTROL_WAIT);
	in->plan = map_plan(in, control.fds[0]);
	if (!(in->plan->flags & PLAN_TERMINAL) != (first == PLAN_FDS) || !net_is_sound(in))
		fail(in, STAGE_START, STEP_START_ORDER, -EBADMSG);
	take_supervisor(in, control.fds[first - 1]);
	receive_mounts(in);
	return 0;
}

void receive_go(struct init *in)
{
	struct control_order order = { .type = 0 };
	struct fd_control control;
	long n;

	wait_parked(in);
	n = receive(&order, &control, 0);
	if (n < 0)
		fail(in, STAGE_START, STEP_START_RECEIVE, n);
	if (order.type != CONTROL_GO || n != 0)
		fail(in, STAGE_START, STEP_START_ORDER, -EBADMSG);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The meter's start, and its clock. */
#include "meter/meter.h"

#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>

#include "bare/signals.h"
#include "bare/socket.h"
#include "bare/wait.h"

#define CTL_FD 0
#define O_ASYNC_NR 020000
#define PROT_RW 3
#define PERIOD_NS (200 * MS)
#define SHARE 10 /* asking takes at most one part in so many of our time */

static struct meter_order order;

static void __attribute__((noreturn)) leave(int status)
{
	for (;;)
		raw_syscall(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

/* The order and its descriptors; false = it is none. */
static bool take_order(int fds[METER_FDS])
{
	struct {
		size_t len;
		int level, type;
		int fds[METER_FDS];
	} control = { 0, 0, 0, { 0 } };
	struct io_vector iov = { &order, sizeof(order) };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = &control, .control_len = sizeof(control)
	};
	long n = raw_syscall(__NR_recvmsg, CTL_FD, (long)&msg, MESSAGE_CMSG_CLOEXEC, 0, 0, 0);

	if (n != (long)sizeof(order) || (msg.flags & (MESSAGE_TRUNC | MESSAGE_CTRUNC)) ||
	    msg.control_len < offsetof(__typeof__(control), fds) + sizeof(control.fds) ||
	    control.type != MESSAGE_RIGHTS)
		return false;
	for (int i = 0; i < METER_FDS; i++)
		fds[i] = control.fds[i];
	return order.magic == METER_MAGIC && order.n_gpus <= METER_GPUS_MAX &&
	       order.library_dir[METER_DIR_MAX - 1] == '\0';
}

/*
 * From here on the end of the supervisor's side of the socket is SIGKILL: a library that hangs
 * cannot keep us. Nothing else is ever sent.
 */
static long tie_to_supervisor(void)
{
	long r = raw_syscall(__NR_fcntl, CTL_FD, F_SETOWN,
			     raw_syscall(__NR_getpid, 0, 0, 0, 0, 0, 0), 0, 0, 0);

	if (r >= 0)
		r = raw_syscall(__NR_fcntl, CTL_FD, F_SETSIG, SIGKILL_NR, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_fcntl, CTL_FD, F_SETFL, O_ASYNC_NR, 0, 0, 0);
	return r;
}

/* It may have gone before that; then nobody is there to be told of. A child that the supervisor has
 * forked may have its side of the socket, too, so this is asked each time. */
static void check_supervisor(void)
{
	struct poll_entry ctl = { .fd = CTL_FD, .events = WAIT_IN };
	const struct duration now = { 0, 0 };

	if (raw_syscall(__NR_getppid, 0, 0, 0, 0, 0, 0) != (long)order.supervisor_pid ||
	    poll_wait(&ctl, 1, &now) != 0)
		leave(0);
}

__attribute__((noreturn, used)) void meter_main(void);
void meter_main(void)
{
	const uint64_t all = ~(uint64_t)0;
	struct meter_account *account;
	int fds[METER_FDS];
	long at;

	/* A terminal's signals are for the command. */
	raw_syscall(__NR_rt_sigprocmask, SIG_BLOCK_NR, (long)&all, 0, KERNEL_SIGSET_BYTES, 0, 0);
	raw_syscall(__NR_prctl, PR_SET_NAME, (long)"cordon-meter", 0, 0, 0, 0);
	raw_syscall(__NR_chdir, (long)"/", 0, 0, 0, 0, 0);
	if (!take_order(fds) || tie_to_supervisor() < 0)
		leave(1);
	check_supervisor();
	at = raw_syscall(__NR_mmap, 0, sizeof(*account), PROT_RW, MAP_SHARED, fds[METER_FD_ACCOUNT],
			 0);
	if (at < 0 && at > -4096)
		leave(1);
	close_fd(fds[METER_FD_ACCOUNT]);
	account = (struct meter_account *)at;
	if (meter_confine(&order) < 0)
		leave(1);
	/* A run that is shorter than this does not pay for the library. */
	sleep_ns(PERIOD_NS);
	check_supervisor();
	if (!nvml_open(&order, fds[METER_FD_LIBRARY]))
		leave(1);
	for (;;) {
		uint64_t begin = now_ns(), took;

		check_supervisor();
		nvml_sample(&order, account);
		took = now_ns() - begin;
		sleep_ns(took * SHARE > PERIOD_NS ? took * SHARE : PERIOD_NS);
	}
}

ARCH_START("", "meter_main");

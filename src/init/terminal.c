/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal for the command.
 *
 * Should: make a pty in the view that the command has (its own devpts, or the host's where there
 * is no view), so that the terminal has a name there; keep the slave, hand the master to the
 * supervisor.
 * Mustn't: keep the master. The caller's terminal is not in here: the guest can do what it likes
 * with its own.
 *
 * The session is init's, as it is a shell's outside, and the command is a job in its foreground:
 * the kernel does not stop (Ctrl-Z) a command that leads its session, since nobody could continue
 * it. Being in it harms init as little as any signal from inside: all are blocked, and it does not
 * use the terminal.
 */
#include "init/init.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/socket.h"
#include "uapi/landlock.h"

#define OPEN_FLAGS (O_RDWR | O_NOCTTY | O_CLOEXEC)

struct window_size {
	uint16_t rows, cols, x_pixels, y_pixels;
};

static long send_master(struct init *in)
{
	struct one_fd control = ONE_FD(in->master_fd);
	struct io_vector iov = { &in->report, sizeof(in->report) };
	struct message msg = {
		.iov = &iov, .n_iov = 1, .control = &control, .control_len = sizeof(control)
	};
	long r;

	in->report.type = CONTROL_TERMINAL;
	r = raw3(__NR_sendmsg, CTL_FD, &msg, 0);
	in->report.type = 0;
	return r < 0 ? r : 0;
}

/* Its size, and erasing of whole UTF-8 characters. */
static long set_up(const struct init *in, int slave_fd)
{
	const struct window_size size = { in->term_rows, in->term_cols, 0, 0 };
	struct termios modes = { 0 };
	long r = raw3(__NR_ioctl, slave_fd, TIOCSWINSZ, &size);

	if (r >= 0)
		r = raw3(__NR_ioctl, slave_fd, TCGETS, &modes);
	if (r < 0)
		return r;
	modes.c_iflag |= IUTF8;
	return raw3(__NR_ioctl, slave_fd, TCSETS, &modes);
}

/* Without a view of its own the command may open this one terminal by name, and no other. */
static long allow_name(struct init *in, int slave_fd)
{
	const uint64_t rights = LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_IOCTL_DEV;

	if (in->plan->level == PLAN_LEVEL_NAMESPACES)
		return 0;
	return landlock_add(in, slave_fd, rights & in->plan->handled_fs);
}

void open_terminal(struct init *in)
{
	const char *path = in->plan->level == PLAN_LEVEL_NAMESPACES ? "/dev/pts/ptmx" : "/dev/ptmx";
	const int unlocked = 0;
	long master_fd, slave_fd, r;

	if (!(in->plan->flags & PLAN_TERMINAL))
		return;
	master_fd = raw4(__NR_openat, AT_FDCWD, path, OPEN_FLAGS, 0);
	if (master_fd < 0)
		fail(in, STAGE_EXEC, STEP_EXEC_PTMX, master_fd);
	slave_fd = raw3(__NR_ioctl, master_fd, TIOCSPTLCK, &unlocked);
	if (slave_fd >= 0)
		slave_fd = raw3(__NR_ioctl, master_fd, TIOCGPTPEER, OPEN_FLAGS);
	r = slave_fd < 0 ? slave_fd : set_up(in, (int)slave_fd);
	if (r >= 0)
		r = allow_name(in, (int)slave_fd);
	if (r < 0)
		fail(in, STAGE_EXEC, STEP_EXEC_PTY, r);
	/* At level landlock it has led one since its start. */
	r = in->plan->level == PLAN_LEVEL_NAMESPACES ? raw0(__NR_setsid) : 0;
	if (r < 0)
		fail(in, STAGE_EXEC, STEP_EXEC_SESSION, r);
	r = raw3(__NR_ioctl, slave_fd, TIOCSCTTY, 0);
	if (r < 0)
		fail(in, STAGE_EXEC, STEP_EXEC_TERMINAL, r);
	in->master_fd = (int)master_fd;
	for (int i = 0; i < 3; i++)
		if (in->stdio[i] < 0)
			in->stdio[i] = (int)slave_fd;
}

/*
 * In the command's process, which leads a new process group. The master is sent only now: earlier,
 * a key that sends a signal would reach no process. (SIGTTOU, which this call brings, is blocked.)
 */
long take_terminal(struct init *in)
{
	const int pid = (int)raw_syscall(__NR_getpid, 0, 0, 0, 0, 0, 0);
	long r = raw3(__NR_ioctl, in->stdio[0], TIOCSPGRP, &pid);

	return r < 0 ? r : send_master(in);
}

void release_terminal(struct init *in)
{
	if (in->plan->flags & PLAN_TERMINAL)
		close_fd(in->master_fd);
}

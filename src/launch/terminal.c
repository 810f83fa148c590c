/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command's terminal, seen from outside. Init makes it and sends its master, which the input
 * relay writes to and the output relay reads from. The caller's terminal is never touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"
#include "sys/calls.h"

static int set_size(int master_fd, const struct cordon_run_options *o)
{
	const struct winsize size = { .ws_row = o->rows, .ws_col = o->cols };

	return ioctl(master_fd, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

int terminal_attach(struct cordon_run *run, int master_fd)
{
	int r, second_fd;

	/* -1 if this process could not receive one more descriptor. */
	if (master_fd < 0 || !run->options.terminal || run->out.pipe_fd >= 0) {
		if (master_fd >= 0)
			close(master_fd);
		return -EMFILE;
	}
	/* Init has closed it, so its flags are not shared. */
	r = sys_fcntl(master_fd, F_SETFL, O_RDWR | O_NONBLOCK);
	/* Only if asked to: the command, which is running, may have set a size itself. */
	if (r >= 0 && run->resized)
		r = set_size(master_fd, &run->options);
	/* Two descriptors, since epoll takes each only once. */
	second_fd = r < 0 ? r : sys_fcntl(master_fd, F_DUPFD_CLOEXEC, 3);
	if (second_fd < 0) {
		close(master_fd);
		return second_fd;
	}
	run->out.pipe_fd = master_fd;
	run->in.pipe_fd = second_fd;
	return 0;
}

int cordon_run_is_stopped(struct cordon_run *run)
{
	int is_stopped;

	pthread_mutex_lock(&run->lock);
	is_stopped = run->is_stopped && !run->over && !run->reported;
	pthread_mutex_unlock(&run->lock);
	return is_stopped;
}

int cordon_run_resize(struct cordon_run *run, uint16_t rows, uint16_t cols,
		      struct cordon_error *err)
{
	int r = 0;

	if (!run->options.terminal)
		return cordon_err(err, CORDON_E_USAGE, 0, "this run has no terminal");
	if (rows == 0 || cols == 0)
		return cordon_err(err, CORDON_E_USAGE, 0, "a terminal has rows and columns");
	pthread_mutex_lock(&run->lock);
	run->options.rows = rows;
	run->options.cols = cols;
	if (run->out.pipe_fd >= 0)
		r = set_size(run->out.pipe_fd, &run->options);
	else
		run->resized = 1;
	pthread_mutex_unlock(&run->lock);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot resize the terminal") : 0;
}

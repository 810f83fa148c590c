/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel: a stream socket between the caller and the command, beside the standard streams. The
 * command has its end as descriptor CORDON_CHANNEL_FD; what goes over it is the caller's business.
 *
 * The guest may send anything through it, descriptors too. The kernel drops those that a plain
 * recv() does not ask for, so a caller that reads like that never gets one.
 *
 * A second try at a lower level needs the guest's end again. It is held until there is none, or the
 * command has said something: only then does the caller see the end of a channel that is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"
#include "sys/calls.h"

int cordon_run_channel(const struct cordon_run *run)
{
	return run->channel_fd;
}

int channel_open(struct cordon_run *run, struct cordon_error *err)
{
	int fds[2], r;

	if (!run->options.channel || run->channel_fd >= 0)
		return 0;
	r = sys_stream_pair(fds);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot make the channel");
	run->channel_fd = fds[0];
	run->channel_guest_fd = fds[1];
	r = sys_fcntl(fds[0], F_SETFL, O_NONBLOCK); /* of this end alone */
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot set up the channel") : 0;
}

static void let_go(struct cordon_run *run)
{
	sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->channel_fd, 0, 0);
	close(run->channel_guest_fd);
	run->channel_guest_fd = -1;
}

void channel_started(struct cordon_run *run)
{
	if (run->channel_guest_fd < 0)
		return;
	if (!run->retry_policy)
		let_go(run);
	else
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, run->channel_fd, EPOLLIN, 0);
}

void channel_check(struct cordon_run *run, int is_over)
{
	struct pollfd p = { .fd = run->channel_fd, .events = POLLIN };

	if (run->channel_guest_fd >= 0 && (is_over || !run->retry_policy || poll(&p, 1, 0) > 0))
		let_go(run);
}

void channel_done(struct cordon_run *run)
{
	if (run->channel_guest_fd >= 0)
		close(run->channel_guest_fd);
	if (run->channel_fd >= 0)
		close(run->channel_fd);
	run->channel_fd = run->channel_guest_fd = -1;
}

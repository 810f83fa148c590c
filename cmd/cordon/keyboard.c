/* SPDX-License-Identifier: Apache-2.0 */
#include "keyboard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "terminal.h"

#define BACKGROUND_MS 250 /* shells do not tell a running job that it is in the foreground now */

int keyboard_attach(struct keyboard *k, struct cordon_run_options *options,
		    struct cordon_error *err)
{
	sigset_t set;
	int fds[2];

	if (options->in.mode != CORDON_STREAM_FD || !isatty(options->in.fd))
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot create a pipe");
	(void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
	/* If the shell takes the terminal just before a read, that fails instead of stopping us. */
	sigemptyset(&set);
	sigaddset(&set, SIGTTIN);
	sigprocmask(SIG_BLOCK, &set, NULL);
	k->guest_fd = options->in.fd = fds[0];
	k->pipe_fd = fds[1];
	return 0;
}

void keyboard_started(struct keyboard *k)
{
	if (k->guest_fd >= 0)
		close(k->guest_fd);
	k->guest_fd = -1;
}

int keyboard_prepare(const struct keyboard *k, struct pollfd fds[2])
{
	int is_ours = k->pipe_fd >= 0 && terminal_is_ours();
	int has_bytes = k->start < k->end;

	/* Without events it still tells that the terminal was hung up. */
	fds[0] = (struct pollfd){ .fd = k->pipe_fd >= 0 ? STDIN_FILENO : -1,
				  .events = is_ours && !has_bytes ? POLLIN : 0 };
	fds[1] = (struct pollfd){ .fd = has_bytes ? k->pipe_fd : -1, .events = POLLOUT };
	return k->pipe_fd < 0 || is_ours ? -1 : BACKGROUND_MS;
}

static int close_pipe(struct keyboard *k)
{
	close(k->pipe_fd);
	k->pipe_fd = -1;
	k->start = k->end = 0;
	return 1;
}

int keyboard_pump(struct keyboard *k, const struct pollfd fds[2])
{
	ssize_t n;

	if (k->pipe_fd >= 0 && fds[0].revents && k->start == k->end) {
		n = read(STDIN_FILENO, k->buffer, sizeof(k->buffer));
		if (n < 0 && (errno == EINTR || errno == EAGAIN || !terminal_is_ours()))
			return 0;
		if (n <= 0)
			return close_pipe(k);
		k->start = 0;
		k->end = (size_t)n;
	}
	if (k->pipe_fd < 0 || k->start == k->end)
		return fds[0].revents & POLLHUP && k->pipe_fd >= 0 ? close_pipe(k) : 0;
	n = write(k->pipe_fd, k->buffer + k->start, k->end - k->start);
	if (n < 0 && errno != EINTR && errno != EAGAIN) {
		close_pipe(k); /* the other end is closed */
		return 0;
	}
	k->start += n > 0 ? (size_t)n : 0;
	return fds[0].revents & POLLHUP ? close_pipe(k) : 0;
}

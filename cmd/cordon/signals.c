/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"

static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

int signals_init(struct signals *ret, struct cordon_error *err)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
		struct sigaction now;

		/* Once blocked, even an ignored signal is queued: leave those alone (nohup). */
		if (sigaction(watched[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, watched[i]);
	}
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot block signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot watch signals");
	ret->fd = fd;
	ret->cancel_signal = 0;
	return 0;
}

static void handle_one(struct signals *signals, struct cordon_run *run, int number)
{
	if (number == SIGUSR1 || number == SIGUSR2) {
		(void)cordon_run_signal(run, number, NULL);
		return;
	}
	/* The first one lets the command tidy up, within its grace; a second one does not wait. */
	if (!signals->cancel_signal) {
		signals->cancel_signal = number;
		(void)cordon_run_end(run, number, NULL);
		return;
	}
	(void)cordon_run_cancel(run, NULL);
}

void signals_handle(struct signals *signals, struct cordon_run *run)
{
	struct signalfd_siginfo info;

	while (read(signals->fd, &info, sizeof(info)) == sizeof(info))
		handle_one(signals, run, (int)info.ssi_signo);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "terminal.h"

static const int watched[] = { SIGINT,	SIGTERM, SIGHUP,
			       SIGQUIT, SIGUSR1, SIGUSR2, /* the rest only with -i: */
			       SIGTSTP, SIGCONT, SIGWINCH };
#define N_WITH_TERMINAL 3

int signals_init(struct signals *ret, int interactive, struct cordon_error *err)
{
	const size_t n = ARRAY_SIZE(watched) - (interactive ? 0 : N_WITH_TERMINAL);
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < n; i++) {
		struct sigaction now;

		/* Once blocked, even an ignored signal is queued: leave those alone (nohup). */
		if (sigaction(watched[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, watched[i]);
	}
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot block signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a signalfd");
	ret->fd = fd;
	ret->cancel_signal = 0;
	return 0;
}

void signals_act(struct signals *signals, struct cordon_run *run, int number)
{
	switch (number) {
	case SIGUSR1:
	case SIGUSR2:
		(void)cordon_run_signal(run, number, NULL);
		return;
	case SIGWINCH:
		terminal_resize(run);
		return;
	case SIGTSTP:
		terminal_suspend(run);
		return;
	case SIGCONT:
		terminal_resume(run);
		return;
	default:
		break;
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
		signals_act(signals, run, (int)info.ssi_signo);
}

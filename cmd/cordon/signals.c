/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/units.h"
#include "microvm/microvm.h"
#include "terminal.h"

/* SIGWINCH only with a terminal. */
static const int watched[] = { SIGINT,	SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
			       SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH };

/* Programs such as timeout(1) send a signal to a process and once more to its group. */
#define SAME_SIGNAL_MS 300

#define DRAIN_MS 20 /* without output: there is no more */
#define DRAIN_TURNS 50

int signals_init(struct signals *ret, int has_terminal, struct cordon_error *err)
{
	const size_t n = ARRAY_SIZE(watched) - !has_terminal;
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
	*ret = (struct signals){ .fd = fd, .has_terminal = has_terminal };
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * By the default action and not by SIGSTOP: where no one could continue us (an orphaned process
 * group) the kernel does not stop us. Returns 1 if we were continued, which SIGCONT will tell.
 */
static int stop_ourselves(pid_t whom)
{
	sigset_t stop, pending;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	(void)kill(whom, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT);
}

static void go_on(const struct signals *signals, struct cordon_run *run)
{
	if (signals->has_terminal)
		terminal_resume(run);
	(void)cordon_run_signal(run, SIGCONT, NULL);
}

/* A command without a terminal belongs to no one's jobs: SIGTSTP would not stop it. */
static void stop(const struct signals *signals, struct cordon_run *run)
{
	(void)cordon_run_signal(run, signals->has_terminal ? SIGTSTP : SIGSTOP, NULL);
	if (signals->has_terminal)
		terminal_suspend();
	if (!stop_ourselves(getpid()))
		go_on(signals, run);
}

/* What it wrote until it was stopped (an editor puts the screen in order) is shown before. */
static void drain(struct cordon_run *run)
{
	for (int i = 0; i < DRAIN_TURNS; i++) {
		struct pollfd p = { .fd = cordon_run_fd(run), .events = POLLIN };

		if (poll(&p, 1, DRAIN_MS) <= 0 || cordon_run_process(run, NULL) != 0)
			return;
	}
}

void signals_follow_stop(const struct signals *signals, struct cordon_run *run)
{
	drain(run);
	if (!cordon_run_is_stopped(run))
		return;
	terminal_suspend();
	if (!stop_ourselves(0))
		go_on(signals, run);
}

void signals_act(struct signals *signals, struct cordon_run *run, int number)
{
	switch (number) {
	case SIGUSR1:
	case SIGUSR2:
		if (!signals->vm || !vm_signal(signals->vm, run, number, 0))
			(void)cordon_run_signal(run, number, NULL);
		return;
	case SIGWINCH:
		terminal_resize(run);
		return;
	case SIGTSTP:
		stop(signals, run);
		return;
	case SIGCONT:
		go_on(signals, run);
		return;
	default:
		break;
	}
	/* The first one lets the command tidy up, within its grace; a second one does not wait. */
	if (!signals->cancel_signal) {
		signals->cancel_signal = number;
		signals->cancelled_ms = now_ms();
		if (!signals->vm || !vm_signal(signals->vm, run, number, 1))
			(void)cordon_run_end(run, number, NULL);
		return;
	}
	if (number != signals->cancel_signal || now_ms() > signals->cancelled_ms + SAME_SIGNAL_MS)
		(void)cordon_run_cancel(run, NULL);
}

static void end_now(struct signals *signals, struct cordon_run *run)
{
	if (!signals->cancel_signal) {
		signals->cancel_signal = SIGTERM;
		signals->cancelled_ms = now_ms();
	}
	(void)cordon_run_cancel(run, NULL);
}

void signals_handle(struct signals *signals, struct cordon_run *run)
{
	struct signalfd_siginfo info;

	while (read(signals->fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTERM && info.ssi_code == SI_QUEUE &&
		    info.ssi_int == SIGNAL_NOW)
			end_now(signals, run);
		else
			signals_act(signals, run, (int)info.ssi_signo);
	}
}

int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} names[] = { { "HUP", SIGHUP },   { "INT", SIGINT },	{ "QUIT", SIGQUIT },
		      { "KILL", SIGKILL }, { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 },
		      { "TERM", SIGTERM }, { "STOP", SIGSTOP }, { "CONT", SIGCONT },
		      { "TSTP", SIGTSTP } };
	int64_t value;

	if (units_parse_count(name, &value, NULL) == 0 && value >= 1 && value <= 64)
		return (int)value;
	if (!strncasecmp(name, "SIG", 3))
		name += 3;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcasecmp(names[i].name, name))
			return names[i].number;
	return 0;
}

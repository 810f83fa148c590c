/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"

#define PATIENCE_MS 200 /* for a terminal that accepts nothing */

/*
 * Undoes what a killed program may have left behind. It changes nothing visible on a terminal in
 * order: the cursor is saved first, since leaving the other screen restores a saved one.
 */
static const char tidy[] = "\030"			       /* ends an unfinished sequence */
			   "\0337\033[?1049l"		       /* the normal screen */
			   "\0337\033[r\0338"		       /* scroll the whole screen */
			   "\033[0m\033(B\017"		       /* plain letters */
			   "\033[?25h\033[?7h\033[4l"	       /* cursor, line wrap, no insertion */
			   "\033[?1l\033>"		       /* cursor keys and keypad */
			   "\033[?2004l\033[?1004l"	       /* bracketed paste, focus reports */
			   "\033[?1000l\033[?1002l\033[?1003l" /* mouse */
			   "\033[?1005l\033[?1006l\033[?1015l";

/* One process has one terminal; static, so that a signal handler finds it. */
static struct {
	struct termios saved;
	volatile sig_atomic_t is_raw;
} terminal;

static int check_streams(struct cordon_error *err)
{
	static const char *const names[] = { "input", "output" };

	for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++) {
		if (isatty(fd))
			continue;
		cordon_err(err, CORDON_E_USAGE, 0,
			   "-i wants a terminal, and standard %s is not one", names[fd]);
		cordon_err_hint(err, "leave out -i: streams pass through without it");
		return -CORDON_E_USAGE;
	}
	return 0;
}

void terminal_size(struct cordon_run_options *options)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
		return;
	options->rows = size.ws_row;
	options->cols = size.ws_col;
}

static int set_raw(void)
{
	struct termios raw = terminal.saved;

	cfmakeraw(&raw);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

/* Does only what a signal handler may do. */
static void restore_modes(void)
{
	sigset_t stop, old;

	if (!terminal.is_raw)
		return;
	/* A process in the background would be stopped for it, or refused. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &old);
	/* What was typed for the command, or what the terminal answered it, is not for the shell.
	 * TCSAFLUSH would wait for a terminal that accepts nothing. */
	(void)tcflush(STDIN_FILENO, TCIFLUSH);
	while (tcsetattr(STDIN_FILENO, TCSANOW, &terminal.saved) < 0 && errno == EINTR)
		;
	terminal.is_raw = 0;
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void die_tidily(int number)
{
	restore_modes();
	/* The handler is gone (SA_RESETHAND): this is the end. */
	(void)raise(number);
}

/* Signals that end a process and that signals.c does not handle. */
static void catch_deadly(void)
{
	static const int deadly[] = { SIGSEGV,	 SIGBUS,  SIGILL,  SIGFPE,    SIGABRT,
				      SIGTRAP,	 SIGSYS,  SIGALRM, SIGPROF,   SIGXCPU,
				      SIGVTALRM, SIGXFSZ, SIGIO,   SIGSTKFLT, SIGPWR };
	struct sigaction action = { .sa_handler = die_tidily,
				    .sa_flags = (int)(SA_RESETHAND | SA_NODEFER) };

	for (size_t i = 0; i < ARRAY_SIZE(deadly); i++) {
		struct sigaction now;

		if (sigaction(deadly[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			(void)sigaction(deadly[i], &action, NULL);
	}
}

int terminal_enter(struct cordon_error *err)
{
	if (check_streams(err) < 0)
		return -CORDON_E_USAGE;
	if (tcgetattr(STDIN_FILENO, &terminal.saved) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot read the terminal's modes");
	catch_deadly();
	terminal.is_raw = 1;
	if (set_raw() == 0)
		return 0;
	cordon_err(err, CORDON_E_SYSTEM, errno, "cannot set the terminal's modes");
	restore_modes();
	return -CORDON_E_SYSTEM;
}

/* Through a new open file description: we must not change the caller's flags. */
static void write_tidy(void)
{
	const char *term = getenv("TERM");
	int fd;

	if (!term || !*term || strcmp(term, "dumb") == 0)
		return;
	fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		fd = STDOUT_FILENO;
	for (size_t done = 0; done < sizeof(tidy) - 1;) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		ssize_t n = -1;

		if (poll(&p, 1, PATIENCE_MS) > 0)
			n = write(fd, tidy + done, sizeof(tidy) - 1 - done);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (fd != STDOUT_FILENO)
		close(fd);
}

void terminal_leave(void)
{
	if (!terminal.is_raw)
		return;
	write_tidy();
	restore_modes();
}

void terminal_resize(struct cordon_run *run)
{
	struct cordon_run_options now = CORDON_RUN_OPTIONS_INIT;

	terminal_size(&now);
	if (now.rows)
		(void)cordon_run_resize(run, now.rows, now.cols, NULL);
}

void terminal_suspend(struct cordon_run *run)
{
	restore_modes();
	(void)raise(SIGSTOP);
	terminal_resume(run);
}

void terminal_resume(struct cordon_run *run)
{
	terminal.is_raw = 1;
	/* In the background this stops us again, until we are in the foreground. */
	(void)set_raw();
	terminal_resize(run);
}

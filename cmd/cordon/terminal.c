/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"

#define PATIENCE_MS 200 /* for a terminal that accepts nothing */

/*
 * Undoes what a killed program may have left behind, and changes nothing visible on a terminal in
 * order. So it leaves the other screen by 1047, not by 1049, which programs use to enter it: that
 * one also restores a cursor, in tmux the one from before the last program, wherever that was.
 */
static const char tidy[] = "\030"			       /* ends an unfinished sequence */
			   "\033[?1047l"		       /* the normal screen */
			   "\0337\033[r\0338"		       /* scroll the whole screen */
			   "\033[0m\033(B\017"		       /* plain letters */
			   "\033[?25h\033[?7h\033[4l"	       /* cursor, line wrap, no insertion */
			   "\033[?1l\033>"		       /* cursor keys and keypad */
			   "\033[?2004l\033[?1004l"	       /* bracketed paste, focus reports */
			   "\033[?1000l\033[?1002l\033[?1003l" /* mouse */
			   "\033[?1005l\033[?1006l\033[?1015l";

/* What the keeper is told whenever it changes. */
struct word {
	int is_raw;
	struct termios saved;
};

/* One process has one terminal; static, so that a signal handler finds it. */
static struct {
	struct termios saved;
	volatile sig_atomic_t is_raw;
	int keeper_fd; /* where it is told */
	pid_t keeper;  /* 0 = none */
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
static void tell_keeper(int is_raw)
{
	const struct word word = { is_raw, terminal.saved };

	if (terminal.keeper > 0 &&
	    write(terminal.keeper_fd, &word, sizeof(word)) != (ssize_t)sizeof(word))
		return; /* it was killed: one safety net less */
}

/* @flush: what was typed for the command, or what the terminal answered it, is not for the shell.
 * TCSAFLUSH would wait for a terminal that accepts nothing. */
static void put_back(const struct termios *modes, int flush)
{
	if (flush)
		(void)tcflush(STDIN_FILENO, TCIFLUSH);
	while (tcsetattr(STDIN_FILENO, TCSANOW, modes) < 0 && errno == EINTR)
		;
}

/* Does only what a signal handler may do. */
static void restore_modes(int flush)
{
	sigset_t stop, old;

	if (!terminal.is_raw)
		return;
	/* A process in the background would be stopped for it, or refused. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &old);
	put_back(&terminal.saved, flush);
	terminal.is_raw = 0;
	tell_keeper(0);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void die_tidily(int number)
{
	restore_modes(1);
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

int terminal_is_ours(void)
{
	pid_t foreground = tcgetpgrp(STDIN_FILENO);

	/* Not our controlling terminal, or closed: no shell has a word in it. */
	return foreground < 0 || foreground == getpgrp();
}

/* A shell, or an earlier job of it, has left its own modes. */
static int take(void)
{
	int r;

	if (tcgetattr(STDIN_FILENO, &terminal.saved) < 0)
		return -errno;
	terminal.is_raw = 1;
	tell_keeper(1);
	r = set_raw() < 0 ? -errno : 0;
	if (r < 0)
		restore_modes(1);
	return r;
}

/* In a session of its own no signal to our process group reaches it, nor a shell's job control. */
static void __attribute__((noreturn)) keeper_main(int fd)
{
	struct word word = { 0 }, next;
	sigset_t all;
	ssize_t n;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	(void)setsid();
	(void)dup2(fd, STDERR_FILENO);
	(void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
	while ((n = read(STDERR_FILENO, &next, sizeof(next))) == (ssize_t)sizeof(next) ||
	       (n < 0 && errno == EINTR))
		if (n > 0)
			word = next;
	if (word.is_raw) {
		write_tidy();
		put_back(&word.saved, 1);
	}
	_exit(0);
}

/* For our own SIGKILL. Without it nothing is lost but that. */
static void start_keeper(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	/* As fork(): the command is small and has one thread. */
	terminal.keeper = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
	if (terminal.keeper == 0) {
		close(fds[1]);
		keeper_main(fds[0]);
	}
	close(fds[0]);
	terminal.keeper_fd = fds[1];
	if (terminal.keeper < 0)
		close(fds[1]);
}

static void end_keeper(void)
{
	pid_t pid = terminal.keeper;

	if (pid <= 0)
		return;
	terminal.keeper = 0;
	close(terminal.keeper_fd);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int terminal_enter(struct cordon_error *err)
{
	int r;

	if (check_streams(err) < 0)
		return -CORDON_E_USAGE;
	catch_deadly();
	start_keeper();
	r = terminal_is_ours() ? take() : 0;
	if (r == 0)
		return 0;
	end_keeper();
	return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot set the terminal's modes");
}

void terminal_leave(void)
{
	if (terminal.is_raw) {
		write_tidy();
		restore_modes(1);
	}
	end_keeper();
}

void terminal_resize(struct cordon_run *run)
{
	struct cordon_run_options now = CORDON_RUN_OPTIONS_INIT;

	terminal_size(&now);
	if (now.rows)
		(void)cordon_run_resize(run, now.rows, now.cols, NULL);
}

/* What is typed from now on is for the shell. */
void terminal_suspend(void)
{
	restore_modes(0);
}

void terminal_follow(struct cordon_run *run)
{
	if (!terminal.is_raw && terminal_is_ours() && take() == 0)
		terminal_resize(run);
}

void terminal_resume(struct cordon_run *run)
{
	/* After a SIGSTOP we never gave it back, but the shell has set its own modes. */
	if (terminal.is_raw && terminal_is_ours())
		(void)set_raw();
	else
		terminal.is_raw = 0;
	terminal_follow(run);
	terminal_resize(run);
}

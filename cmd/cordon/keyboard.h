/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is typed at the caller's terminal, on its way to the command. The library gets a pipe, and
 * we read the terminal only while we are in its foreground: a program in the background that reads
 * it is stopped, whether its command wants input or not.
 */
#ifndef CMD_CORDON_KEYBOARD_H
#define CMD_CORDON_KEYBOARD_H

#include <poll.h>
#include <stddef.h>

#include <cordon/cordon.h>

struct keyboard {
	char buffer[4096]; /* first, see struct session in cmd_run.c */
	size_t start, end;
	int pipe_fd; /* -1: standard input is no terminal, or is at its end */
	int guest_fd;
};

/* Leaves the buffer as it is: most runs never touch that page. */
static inline void keyboard_init(struct keyboard *k)
{
	k->pipe_fd = k->guest_fd = -1;
	k->start = k->end = 0;
}

/* If the run's input is a terminal, it gets a pipe instead. */
int keyboard_attach(struct keyboard *k, struct cordon_run_options *options,
		    struct cordon_error *err);
/* The run has started, and has its own copy of the pipe's end. */
void keyboard_started(struct keyboard *k);
/* Fills in what to poll: the terminal and the pipe. Returns for how long, in ms. */
int keyboard_prepare(const struct keyboard *k, struct pollfd fds[2]);
/* Moves what there is. 1: the terminal is at its end (or typed Ctrl-D), and the pipe is closed. */
int keyboard_pump(struct keyboard *k, const struct pollfd fds[2]);

#endif

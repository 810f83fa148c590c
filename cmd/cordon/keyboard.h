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
	int pipe_fd; /* -1: standard input is no terminal, or is at its end */
	int guest_fd;
	size_t start, end;
	char buffer[4096];
};

#define KEYBOARD_INIT { .pipe_fd = -1, .guest_fd = -1 }

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

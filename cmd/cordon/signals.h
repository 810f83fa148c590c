/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that reach the command while a run is on.
 *
 * The first SIGINT, SIGTERM, SIGHUP or SIGQUIT goes to the sandboxed command, which may tidy up for
 * as long as its grace lasts; the second ends the run at once. SIGUSR1 and SIGUSR2 are only passed
 * on. A signal that the caller had ignored stays ignored. When Cordon is stopped (SIGTSTP) and
 * continued, so is the command. With a terminal its size is passed on, and it is given back to the
 * caller while Cordon is stopped.
 */
#ifndef CMD_CORDON_SIGNALS_H
#define CMD_CORDON_SIGNALS_H

#include <stdint.h>

#include <cordon/cordon.h>

/* With SIGTERM, by pidfd_send_signal(): the run ends at once, without a grace ('cordon kill
 * --now'). */
#define SIGNAL_NOW 0x636f7264

struct vm;

struct signals {
	int fd;		      /* polls readable when signals_handle() has something to do */
	int cancel_signal;    /* the one that cancelled the run, 0 = none */
	int64_t cancelled_ms; /* when it came */
	int has_terminal;
	struct vm *vm; /* whose command it is for, in a guest */
};

/* Blocks the signals above, ignores SIGPIPE. Call it before the start of a run. */
int signals_init(struct signals *ret, int has_terminal, struct cordon_error *err);
void signals_handle(struct signals *signals, struct cordon_run *run);
/* The command was stopped at its terminal (Ctrl-Z): so are we and all of our process group. */
void signals_follow_stop(const struct signals *signals, struct cordon_run *run);
/* Acts as if signal @number had arrived. */
void signals_act(struct signals *signals, struct cordon_run *run, int number);

/* "TERM", "SIGTERM" or "15"; 0 if it is none of these. */
int signal_number(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that reach the command while a run is on.
 *
 * The first SIGINT, SIGTERM, SIGHUP or SIGQUIT goes to the sandboxed command, which may tidy up for
 * as long as its grace lasts; the second ends the run at once. SIGUSR1 and SIGUSR2 are only passed
 * on. A signal that the caller had ignored stays ignored. With -i the size of the terminal is
 * passed on, and when Cordon is stopped and continued it gives the terminal back and takes it
 * again.
 */
#ifndef CMD_CORDON_SIGNALS_H
#define CMD_CORDON_SIGNALS_H

#include <cordon/cordon.h>

struct signals {
	int fd;		   /* polls readable when signals_handle() has something to do */
	int cancel_signal; /* the one that cancelled the run, 0 = none */
};

/* Blocks the signals above, ignores SIGPIPE. Call it before the start of a run. */
int signals_init(struct signals *ret, int interactive, struct cordon_error *err);
void signals_handle(struct signals *signals, struct cordon_run *run);
/* Acts as if signal @number had arrived. */
void signals_act(struct signals *signals, struct cordon_run *run, int number);

#endif

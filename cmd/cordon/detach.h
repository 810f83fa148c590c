/* SPDX-License-Identifier: Apache-2.0 */
/* A process that outlives the command that starts it, for sessions and the pool. */
#ifndef CMD_CORDON_DETACH_H
#define CMD_CORDON_DETACH_H

#include <cordon/error.h>

/* Copies this process twice, so that the copy is nobody's child, leads no session and never gets a
 * terminal; there @stay is called with the end of a pipe to say how it went, and what it returns
 * is the copy's exit status. *ret_fd: the other end. */
int detach(int (*stay)(void *arg, int fd), void *arg, int *ret_fd, struct cordon_error *err);

/* It lives long: what our caller left open for us must not stay open with it. But for the standard
 * streams and these two; -1 = none. */
void detach_close(int keep, int keep_too);
/* A descriptor that tells of SIGTERM and SIGINT, or -1. */
int detach_signals(void);
/* The standard streams are /dev/null from now on. 0 or -1. */
int detach_leave_terminal(void);

#endif

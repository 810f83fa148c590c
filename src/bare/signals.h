/* SPDX-License-Identifier: Apache-2.0 */
/* Signals, for code without libc, whose names for them belong to <signal.h>. */
#ifndef BARE_SIGNALS_H
#define BARE_SIGNALS_H

#define SIGKILL_NR 9
#define SIGPIPE_NR 13
#define SIGTERM_NR 15
#define SIGCHLD_NR 17
#define SIGCONT_NR 18
#define SIGSTOP_NR 19
#define SIGTSTP_NR 20
#define SIGTTIN_NR 21
#define SIGTTOU_NR 22
#define SIGXFSZ_NR 25

#define SIG_BLOCK_NR 0
#define SIG_SETMASK_NR 2
#define KERNEL_SIGSET_BYTES 8
#define SIGNAL_BIT(nr) ((uint64_t)1 << ((nr) - 1))

#endif

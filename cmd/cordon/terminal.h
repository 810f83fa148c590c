/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's terminal during `run -i`: raw while the command has it, and put back as it was
 * whatever way the run ends. Only SIGKILL leaves it raw.
 */
#ifndef CMD_CORDON_TERMINAL_H
#define CMD_CORDON_TERMINAL_H

#include <cordon/cordon.h>

/* The size of the caller's terminal into @options; left alone if it has none. */
void terminal_size(struct cordon_run_options *options);

/* Standard input and output must be terminals. From here on every key is for the command. */
int terminal_enter(struct cordon_error *err);

/* Takes back what the command has set (screen, cursor, mouse, ...) and then what terminal_enter()
 * has; does nothing if that was not called. */
void terminal_leave(void);

/* The command's terminal gets the size of the caller's. */
void terminal_resize(struct cordon_run *run);

/* Somebody stops us: the caller has his terminal back until we are continued. */
void terminal_suspend(struct cordon_run *run);

/* We were continued: whoever had the terminal meanwhile left it as he liked it. */
void terminal_resume(struct cordon_run *run);

#endif

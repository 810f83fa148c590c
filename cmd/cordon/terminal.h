/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's terminal during `run -i`: raw while the command has it, and restored however
 * the run ends. Only SIGKILL leaves it raw.
 */
#ifndef CMD_CORDON_TERMINAL_H
#define CMD_CORDON_TERMINAL_H

#include <cordon/cordon.h>

/* Puts the size of the caller's terminal into @options; changes nothing if there is none. */
void terminal_size(struct cordon_run_options *options);

/* Standard input and output must be terminals. From here on every key is for the command. */
int terminal_enter(struct cordon_error *err);

/* Undoes what the command has set (screen, cursor, mouse, ...), then what terminal_enter() has;
 * does nothing if that was not called. */
void terminal_leave(void);

/* Gives the command's terminal the size of the caller's. */
void terminal_resize(struct cordon_run *run);

/* We are being stopped: gives the terminal back until we are continued. */
void terminal_suspend(struct cordon_run *run);

/* We were continued: makes the terminal raw again, since another program may have used it. */
void terminal_resume(struct cordon_run *run);

#endif

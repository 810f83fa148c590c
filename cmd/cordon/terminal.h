/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's terminal while the command has one of its own: raw, and restored however the run
 * ends. If we are killed (SIGKILL), a process that waits for that restores it. In the background
 * the terminal is the shell's, and we take it when we are in the foreground again.
 */
#ifndef CMD_CORDON_TERMINAL_H
#define CMD_CORDON_TERMINAL_H

#include <cordon/cordon.h>

/* Puts the size of the caller's terminal into @options; changes nothing if there is none. */
void terminal_size(struct cordon_run_options *options);

/* Standard input and output must be terminals. From here on every key is for the command, once we
 * are in the foreground. */
int terminal_enter(struct cordon_error *err);

/* Whether what is typed is for us; 0 in the background. */
int terminal_is_ours(void);

/* Takes the terminal if it is ours now and was not before. */
void terminal_follow(struct cordon_run *run);

/* Undoes what the command has set (screen, cursor, mouse, ...), then what terminal_enter() has;
 * does nothing if that was not called. */
void terminal_leave(void);

/* Gives the command's terminal the size of the caller's. */
void terminal_resize(struct cordon_run *run);

/* We are about to be stopped: gives the terminal back. */
void terminal_suspend(void);

/* We were continued: makes the terminal raw again if it is ours; other programs have used it. */
void terminal_resume(struct cordon_run *run);

#endif

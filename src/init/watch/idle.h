/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has anything in the tree run? Most sandboxes wait most of their time, and a tree in which nothing
 * has run holds what it held. Its CPU clocks tell, at a fraction of what counting costs.
 *
 * A list of processes may miss one that was made while the list was read. So the tree is only taken
 * to be at rest after a second list that is the same as the one before, with the same clocks: who
 * was missed was made by one of the listed before the first clocks were read, and would be in the
 * second list. After that, anything new has to be made by one whose clock moves.
 */
#ifndef INIT_WATCH_IDLE_H
#define INIT_WATCH_IDLE_H

#include "init/init.h"

/* CPU time of a process (0: our own), all its threads together, to the nanosecond; 0 if there is no
 * such process. A running thread of another one is behind by up to a tick of the kernel's. */
uint64_t rest_clock(int pid);
/* Notes a list that was just read, before anything is learnt from it. Returns a number for what
 * was noted, never 0. */
uint64_t rest_note(const int *pids, int n);
/* Of the last one. */
uint64_t rest_noted(void);
/* Nothing has run since the list of that number was noted. */
int rest_since(uint64_t number);

/* CPU time that the processes of the last list have used since it was noted. */
uint64_t rest_used_ns(void);

#endif

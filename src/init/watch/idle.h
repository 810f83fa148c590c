/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has anything in the tree run? Most sandboxes wait most of the time, and a tree in which nothing
 * has run uses what it used before. Its CPU clocks tell, at a fraction of what counting costs.
 *
 * A list of processes may miss one that was made while the list was read. So the tree only counts
 * as idle after a second list that equals the first, with the same clocks: a process that was
 * missed was made by a listed one before the first clocks were read, and would be in the second
 * list. After that, anything new has to be made by a process whose clock moves.
 */
#ifndef INIT_WATCH_IDLE_H
#define INIT_WATCH_IDLE_H

#include "init/init.h"

/* CPU time of a process (0: our own), all its threads together, to the nanosecond; 0 if there is no
 * such process. That of a running process is behind by up to a kernel tick. */
uint64_t idle_clock(int pid);
/* Notes a list that was just read, before its processes are looked at. Returns a number for it,
 * never 0. */
uint64_t idle_note(const int *pids, int n);
/* The last list's number. */
uint64_t idle_noted(void);
/* Nothing has run since the list of that number was noted. */
int idle_since(uint64_t number);

/* CPU time that the processes of the last list have used since it was noted. */
uint64_t idle_used_ns(void);

#endif

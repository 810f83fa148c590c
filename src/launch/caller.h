/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process that we start inherits from the thread that starts it, as far as it can be read.
 * A parked init has what the caller had when it was made; it may be used only while a new one would
 * have the same.
 */
#ifndef LAUNCH_CALLER_H
#define LAUNCH_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct caller_state;

/*
 * Reads it for the calling thread: 0 or -errno. Free it with free(). @n_filters: how many system
 * call filters all threads have alike. Of further ones only the number can be read, so that a state
 * with more of them is equal to none of another thread.
 */
int caller_state_read(unsigned n_filters, struct caller_state **ret);
/* How many the calling thread has. */
unsigned caller_filters(void);
/* Has the process, made by a thread in this state, really inherited what another thread could have
 * changed for a moment: limits, scheduling, umask, processors, control group? */
bool caller_state_is_of(const struct caller_state *state, pid_t pid);
/* Is the process @pid in this state, as far as another one can see it? Not for threads. */
bool caller_state_is_like(const struct caller_state *state, pid_t pid);
/* The state as one piece, for another process that runs the same program. */
size_t caller_state_size(const struct caller_state *state);
/* A copy of such a piece; NULL if it is none, or there is no memory. */
struct caller_state *caller_state_copy(const void *piece, size_t size);
/* Has it no system call filter at all? Of two processes nothing else says that theirs are the same.
 */
bool caller_state_is_unfiltered(const struct caller_state *state);
bool caller_state_equals(const struct caller_state *a, const struct caller_state *b);

#endif

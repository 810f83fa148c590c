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

struct caller_state;

/* Reads it for the calling thread: 0 or -errno. Free it with free(). */
int caller_state_read(struct caller_state **ret);
bool caller_state_equals(const struct caller_state *a, const struct caller_state *b);

#endif

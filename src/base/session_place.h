/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the control sockets of sessions may be. The places depend on the user alone, and not on the
 * environment, so that every run of the user knows what to hide from its command.
 */
#ifndef BASE_SESSION_PLACE_H
#define BASE_SESSION_PLACE_H

#include <stddef.h>

#define SESSION_PLACES 2

/* The place number @i for the user @uid. */
void session_place(unsigned i, unsigned uid, char *ret, size_t size);
/*
 * Whether the place number @i is one to use: the second only if there is no directory for the
 * first. A command in a sandbox that may write to /tmp can make the second, so nobody looks there
 * as long as the user has the first; and it can do nothing that makes a difference here.
 */
int session_place_is_used(unsigned i, unsigned uid);

#endif

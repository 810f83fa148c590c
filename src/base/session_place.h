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

#endif

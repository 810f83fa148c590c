/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that a session has got since its start, for each command from then on. */
#ifndef CMD_CORDON_SESSION_ENV_H
#define CMD_CORDON_SESSION_ENV_H

#include <stddef.h>

#include "session_clients.h"

/* WIRE_ENV */
void session_env_set(struct client *c);
/* The session's, and then those of one command, @own: NULL-terminated, or NULL if there is no
 * memory. The caller frees the array. */
const char **session_env_with(const char *const *own, size_t n);

#endif

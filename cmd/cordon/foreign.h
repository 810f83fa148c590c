/* SPDX-License-Identifier: Apache-2.0 */
/* What people type who know other sandboxes or shells, and how it is said here. */
#ifndef CMD_CORDON_FOREIGN_H
#define CMD_CORDON_FOREIGN_H

#include <stddef.h>

#include <cordon/error.h>

#include "options.h"

/* The hint for an option of `cordon run` that is another program's, its name without dashes; NULL
 * if no program is known to have it. */
const char *foreign_option(const char *name, size_t len);
/* The command was not found: adds a hint if what was typed looks like something else. */
void foreign_command(const struct parsed *args, struct cordon_error *err);
/* The same for a command of a session; @words ends with NULL. */
void foreign_in_session(char *const *words, struct cordon_error *err);

/* Adds a hint to an error about an unknown verb if the line is a command without `run`; 0 if it is
 * none. */
int foreign_verb(const char *first, const char *second, struct cordon_error *err);

#endif

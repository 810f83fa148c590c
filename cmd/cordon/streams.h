/* SPDX-License-Identifier: Apache-2.0 */
/* Where the command's standard streams lead: pipes, a terminal of its own, or into the account. */
#ifndef CMD_CORDON_STREAMS_H
#define CMD_CORDON_STREAMS_H

#include <cordon/cordon.h>

#include "options.h"

/* Whether the command gets a terminal: asked for, or we are at one ourselves. Or an error. */
int streams_want_terminal(const struct parsed *args, struct cordon_error *err);
void streams_choose(const struct parsed *args, int has_terminal,
		    struct cordon_run_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What a person is told about a run that is over, on standard error. */
#ifndef CMD_CORDON_EXPLAIN_H
#define CMD_CORDON_EXPLAIN_H

#include <cordon/cordon.h>

#include "options.h"

/* Why it ended, what was refused, and what would allow it. */
void explain_end(const struct parsed *args, const struct cordon_result *result);
/* Of it: what the command said that it was refused. */
void explain_words(const struct cordon_result *result);
/* Output that could not be written though the command believes it was: a failure in any case. 1 =
 * it was said. */
int explain_loss(int write_errno, const char *name);
/* --usage */
void explain_usage(const struct cordon_result *result);
/* --verbose */
void explain_timings(const struct cordon_result *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_POLICY_SHOW_H
#define CMD_POLICY_SHOW_H

#include "base/strbuf.h"
#include "options.h"

/* Every value of the policy that @args add up to, and where it comes from: a line each, or an
 * array. */
int policy_show_text(const struct parsed *args, struct strbuf *sb, struct cordon_error *err);
int policy_show_json(const struct parsed *args, struct strbuf *sb, struct cordon_error *err);

#endif

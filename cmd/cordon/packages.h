/* SPDX-License-Identifier: Apache-2.0 */
/* --with: packages for a run. */
#ifndef CMD_CORDON_PACKAGES_H
#define CMD_CORDON_PACKAGES_H

#include <cordon/cordon.h>

#include "options.h"

/* Installs what --with and --with-file ask for, and adds it to the policy and the PATH of the run.
 */
int packages_use(const struct parsed *args, struct cordon_launcher *launcher,
		 struct cordon_policy *policy, struct cordon_run_options *options,
		 struct cordon_error *err);

#endif

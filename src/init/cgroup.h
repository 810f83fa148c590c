/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run's control group, of which init has three files and no path. Without one (no descriptors)
 * all of this does nothing.
 */
#ifndef INIT_CGROUP_H
#define INIT_CGROUP_H

#include "init/init.h"

/* Right before the command is started: what is used from now on is the command's, and its share of
 * the CPUs holds. The limit is then no business of the watch any more. */
long cgroup_begin(struct init *in);
/* Notes it in the report if the limit of memory has killed somebody. */
void cgroup_check_memory(struct init *in);
/* The tree shall end, for which it must be able to run. */
void cgroup_release_cpu(struct init *in);
/* CPU time of the tree without our own. 0 if there is no group to ask; nothing is changed then. */
int cgroup_cpu_used(struct init *in, uint64_t *ret_user_us, uint64_t *ret_system_us);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_START_H
#define LAUNCH_START_H

struct cordon_run;

/*
 * The namespaces turned out to be shut only inside init: starts the same command at level
 * `landlock` if the policy leaves the level open. 1 if it did; the command has not run before.
 */
int start_again_lower(struct cordon_run *run);

#endif

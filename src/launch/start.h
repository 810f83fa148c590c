/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_START_H
#define LAUNCH_START_H

struct cordon_run;

/*
 * Init failed because the machine refuses something. Starts the command again: with a copy if it
 * was the overlay; at level `landlock` if it was namespaces and the policy leaves the level open. 1
 * if it was started; it has not run before.
 */
int start_again(struct cordon_run *run);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_START_H
#define LAUNCH_START_H

struct cordon_run;

/*
 * Something turned out to be shut only inside init, and the same command is started again: with a
 * copy where an overlay is refused, at level `landlock` where namespaces are, if the policy leaves
 * the level open. 1 if it was; the command has not run before.
 */
int start_again(struct cordon_run *run);

#endif

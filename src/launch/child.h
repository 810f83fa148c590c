/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_CHILD_H
#define LAUNCH_CHILD_H

struct child_args {
	int ctl_fd, init_fd;
	int keep_caps; /* in a fresh user namespace: the ones init needs */
	char *argv[5];
	long error; /* set if the exec failed */
};

int child_exec_init(void *arg);

#endif

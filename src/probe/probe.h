/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine offers, found with a few cheap system calls. */
#ifndef PROBE_PROBE_H
#define PROBE_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct probe_machine {
	int landlock_abi; /* <= 0: none (negative errno of the kernel) */
	uint64_t landlock_fs, landlock_net, landlock_scoped; /* every right of that ABI */
	uid_t uid;					     /* effective ids of the caller */
	gid_t gid;
};

void probe_machine(struct probe_machine *ret);

/* Can this process, which is root's, take another id? Not in a user namespace: there root is not
 * the host's anyway, and may not be able to. */
int probe_can_drop_root(void);

/* How many tasks (threads) user @uid has on this machine, -errno on failure. Walks /proc: only for
 * level landlock, where RLIMIT_NPROC counts all of a user's tasks. @only_here: without those in
 * other user namespaces, which count for the user who made the namespace. */
int probe_user_tasks(uid_t uid, bool only_here);

#endif

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
/* As if the kernel had no more than this Landlock ABI. */
void probe_use_abi(struct probe_machine *machine, int abi);

/* Can this process, which is root's, take another id? Not in a user namespace: there root is not
 * the host's anyway, and may not be able to. */
int probe_can_drop_root(void);

/* How many tasks (threads) user @uid has on this machine, -errno on failure. Walks /proc: only for
 * level landlock, where RLIMIT_NPROC counts all of a user's tasks. @only_here: without those in
 * other user namespaces, which count for the user who made the namespace. */
int probe_user_tasks(uid_t uid, bool only_here);

/* For messages, after a system call that every supported kernel has was missing: */
bool probe_has_filter(void);   /* a system call filter applies to this process */
bool probe_is_in_cordon(void); /* it runs in a sandbox of Cordon: an init is among its ancestors */

#endif

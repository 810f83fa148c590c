/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: take the calling process's capabilities and its ways to new privileges, then apply its
 * limits, its Landlock ruleset and its filter, in this order.
 * Mustn't: call the C library: it is tested first in a child that shares the caller's memory.
 *
 * The same as init does at level landlock (init/stage_caps.c, init/payload.c), for a process that
 * goes on afterwards.
 */
#include <asm/unistd.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

#include "format/stage.h"
#include "launch/confine.h"
#include "seccomp/seccomp.h"
#include "sys/calls.h"

#ifndef __NR_landlock_restrict_self
#define __NR_landlock_restrict_self 446
#endif

#define CAPS_MAX 64
#define LOCKED_SECUREBITS                                                                          \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                           \
	 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |   \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

#define POINTER(p) ((uint64_t)(uintptr_t)(p))

static long drop_bounding(void)
{
	for (unsigned cap = 0; cap < CAPS_MAX; cap++) {
		long r = sys_call(__NR_prctl, PR_CAPBSET_DROP, cap, 0, 0);

		if (r == -EINVAL)
			return cap > 0 ? 0 : r; /* past the last one this kernel knows */
		if (r < 0)
			return r;
	}
	return 0;
}

/* A process that lacks CAP_SETPCAP cannot drop these, and may go on. */
static long limit_caps(const struct confinement *c)
{
	long r = drop_bounding();

	if (r == 0 || (r == -EPERM && !c->must_drop))
		r = sys_call(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0);
	if (r < 0)
		return r;
	r = sys_call(__NR_prctl, PR_SET_SECUREBITS, LOCKED_SECUREBITS, 0, 0);
	return r == -EPERM && !c->must_drop ? 0 : r;
}

static long drop_groups(const struct confinement *c)
{
	long r = c->drops_groups ? sys_call(__NR_setgroups, 0, 0, 0, 0) : 0;

	return r == -EPERM && c->groups_are_locked ? 0 : r;
}

static long drop_caps(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	const struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	struct __user_cap_data_struct left[2] = { { ~0u, ~0u, ~0u }, { ~0u, ~0u, ~0u } };
	long r = sys_call(__NR_capset, POINTER(&header), POINTER(none), 0, 0);

	if (r == 0)
		r = sys_call(__NR_capget, POINTER(&header), POINTER(left), 0, 0);
	for (int i = 0; r == 0 && i < 2; i++) {
		if (left[i].effective | left[i].permitted | left[i].inheritable)
			r = -EPERM;
	}
	return r;
}

static long forgo_privileges(const struct confinement *c)
{
	long r;

	/* Only a second fence, since the filter refuses every keyring call. An outer filter may
	 * refuse this one, and a user's quota of keys is small. */
	r = sys_call(__NR_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0);
	if (r < 0 && r != -ENOSYS && r != -EPERM && r != -EDQUOT)
		return r;
	r = limit_caps(c);
	if (r == 0)
		r = drop_groups(c);
	if (r == 0)
		r = drop_caps();
	return r == 0 ? sys_call(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0) : r;
}

static long set_limits(const struct plan_header *plan)
{
	long r = 0;

	for (uint32_t i = 0; r == 0 && i < plan->n_rlimits; i++) {
		const uint64_t limit[2] = { plan->rlimits[i].soft, plan->rlimits[i].hard };

		r = sys_call(__NR_prlimit64, 0, plan->rlimits[i].resource, POINTER(limit), 0);
	}
	return r;
}

static long install_filter(uint32_t variant)
{
	const struct seccomp_filter *filter = seccomp_filter_get(variant);
	struct sock_fprog program;

	if (!filter)
		return -EINVAL;
	program.len = filter->len;
	program.filter = (struct sock_filter *)(uintptr_t)filter->insns;
	return sys_call(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			POINTER(&program), 0);
}

static int give_up(struct confinement *c, int stage, long r)
{
	c->stage = stage;
	/* Positive: the id of a thread that could not be synchronised. */
	c->error = r < 0 ? (int)-r : EBUSY;
	return 1;
}

int confine_apply(void *confinement)
{
	struct confinement *c = confinement;
	long r = forgo_privileges(c);

	if (r != 0)
		return give_up(c, STAGE_CAPS, r);
	r = set_limits(c->plan);
	if (r != 0)
		return give_up(c, STAGE_LIMITS, r);
	r = sys_call(__NR_landlock_restrict_self, (uint64_t)c->ruleset_fd, 0, 0, 0);
	if (r != 0)
		return give_up(c, STAGE_LANDLOCK, r);
	r = install_filter(c->plan->filter);
	if (r != 0)
		return give_up(c, STAGE_SECCOMP, r);
	return 0;
}

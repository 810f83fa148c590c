/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: leave no capability in any of the five sets, lock that in, forbid new privileges, and
 * give the process a session keyring of its own.
 * Mustn't: keep anything that the command could inherit; what was dropped is read back.
 *
 * Dropping the bounding set needs a capability that an ordinary user has only in its own user
 * namespace. At level `landlock` it therefore stays as it was; no_new_privs makes it powerless.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/keyctl.h>
#include <linux/prctl.h>
#include <linux/securebits.h>

#include "bare/raw.h"

#define CAPS_MAX 64
#define LOCKED_SECUREBITS                                                                          \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                           \
	 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |   \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static long drop_bounding(void)
{
	for (int cap = 0; cap < CAPS_MAX; cap++) {
		long r = raw2(__NR_prctl, PR_CAPBSET_DROP, cap);

		if (r == -EINVAL)
			return cap > 0 ? 0 : r; /* past the last one this kernel knows */
		if (r < 0)
			return r;
	}
	return 0;
}

/* If it is permitted it must succeed; only without the capability may init go on. */
static int may_set_caps(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };

	return raw2(__NR_capget, &header, data) < 0 ||
	       (data[0].effective & (1u << CAP_SETPCAP)) != 0;
}

static long check_empty(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { ~0u, ~0u, ~0u }, { ~0u, ~0u, ~0u } };
	long r = raw2(__NR_capget, &header, data);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++)
		if (data[i].effective | data[i].permitted | data[i].inheritable)
			return -EPERM;
	return 0;
}

/* What the command could regain, goes first; it does not touch what init has itself. */
void limit_caps(struct init *in, int namespaces)
{
	int must = namespaces || may_set_caps();
	long r;

	/*
	 * A second fence: the filter refuses every keyring call anyway. A filter or a security
	 * module around us may refuse this one, and a user's quota of keys is small.
	 */
	r = raw2(__NR_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
	if (r < 0 && r != -ENOSYS && r != -EPERM && r != -EACCES && r != -EDQUOT)
		fail(in, STAGE_CAPS, STEP_CAPS_KEYRING, r);
	r = drop_bounding();
	if (r < 0 && (must || r != -EPERM))
		fail(in, STAGE_CAPS, STEP_CAPS_BOUNDING, r);
	r = raw5(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (r < 0)
		fail(in, STAGE_CAPS, STEP_CAPS_AMBIENT, r);
	r = raw2(__NR_prctl, PR_SET_SECUREBITS, LOCKED_SECUREBITS);
	if (r < 0 && (must || r != -EPERM))
		fail(in, STAGE_CAPS, STEP_CAPS_SECUREBITS, r);
}

void stage_caps(struct init *in)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	const struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	long r;

	r = raw2(__NR_capset, &header, none);
	if (r < 0)
		fail(in, STAGE_CAPS, STEP_CAPS_DROP, r);
	r = check_empty();
	if (r < 0)
		fail(in, STAGE_CAPS, STEP_CAPS_CHECK, r);
	r = raw5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (r < 0)
		fail(in, STAGE_CAPS, STEP_CAPS_NO_NEW_PRIVS, r);
}

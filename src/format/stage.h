/* SPDX-License-Identifier: Apache-2.0 */
/* The stages a sandbox is set up in, in the order init goes through them. */
#ifndef FORMAT_STAGE_H
#define FORMAT_STAGE_H

enum cordon_stage {
	STAGE_OUTSIDE = 0,
	STAGE_START,
	STAGE_USERNS,
	STAGE_MOUNTS,
	STAGE_NET,
	STAGE_LIMITS,
	STAGE_CAPS,
	STAGE_LANDLOCK,
	STAGE_SECCOMP,
	STAGE_EXEC,
	STAGE_MAX
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "format/stage.h"

#include <assert.h>

#include <cordon/error.h>

#include "base/macros.h"

static const char *const stage_names[] = {
	[STAGE_OUTSIDE] = "outside", [STAGE_START] = "start",	    [STAGE_USERNS] = "userns",
	[STAGE_MOUNTS] = "mounts",   [STAGE_NET] = "net",	    [STAGE_LIMITS] = "limits",
	[STAGE_CAPS] = "caps",	     [STAGE_LANDLOCK] = "landlock", [STAGE_SECCOMP] = "seccomp",
	[STAGE_EXEC] = "exec",
};
static_assert(ARRAY_SIZE(stage_names) == STAGE_MAX, "a name for each stage");

const char *cordon_stage_name(unsigned stage)
{
	if (stage >= STAGE_MAX)
		return "unknown";
	return stage_names[stage];
}

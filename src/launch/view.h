/* SPDX-License-Identifier: Apache-2.0 */
/* What a path of the host is for the command of a plan: asked of the plan alone. */
#ifndef LAUNCH_VIEW_H
#define LAUNCH_VIEW_H

#include <stdbool.h>

#include "format/plan.h"

/* What a path of the host is for the command. */
enum view {
	VIEW_UNKNOWN, /* something of Cordon's own: nothing is said */
	VIEW_HIDDEN,
	VIEW_DENIED, /* by fs.deny */
	VIEW_READ_ONLY,
	VIEW_WRITABLE,
};

/* @path: real, absolute. @is_dir: it is asked what may be done in it. */
enum view view_of(const struct plan_header *h, const char *path, bool is_dir);

/* May it be executed? Only asked where the plan lists the programs that may. */
bool view_can_execute(const struct plan_header *h, const char *path);

#endif

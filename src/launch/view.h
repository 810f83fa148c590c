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

/* What the command has of its own at a path, whatever the host has there. */
enum own {
	OWN_NONE,
	OWN_SHOWN,    /* something that it may read */
	OWN_WRITABLE, /* something that it may change */
	OWN_FREE,     /* nothing yet, in a directory of its own */
};

/* Nothing at level landlock, where each path is the host's. */
enum own view_own(const struct plan_header *h, const char *path);

/* The private directory in which @path would lie; NULL = none. */
const char *view_private(const struct plan_header *h, const char *path);

/* May it be executed? Only asked where the plan lists the programs that may. */
bool view_can_execute(const struct plan_header *h, const char *path);

#endif

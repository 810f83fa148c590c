/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_PLAN_MOUNTS_H
#define PLAN_PLAN_MOUNTS_H

#include "base/arena.h"

/* Where one of the kernel's file systems is mounted in @dir, for a message; NULL = nowhere. */
const char *plan_kernel_mount(struct arena *arena, const char *dir);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLAN_PLAN_MOUNTS_H
#define PLAN_PLAN_MOUNTS_H

#include <stdbool.h>

#include "base/arena.h"

/* Where one of the kernel's file systems is mounted in @dir, for a message; NULL = nowhere. */
const char *plan_kernel_mount(struct arena *arena, const char *dir);

/* Does @path, of which no component is a symbolic link, lie on a file system that answers by
 * itself? Another machine, and a program, may keep who looks there waiting for ever. */
bool plan_is_on_this_machine(const char *path);

#endif

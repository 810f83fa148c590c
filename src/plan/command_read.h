/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the block of a session's command. No C library: init uses this without one. */
#ifndef PLAN_COMMAND_READ_H
#define PLAN_COMMAND_READ_H

#include <stddef.h>
#include <stdint.h>

#include "format/command.h"

/* 0, or -1: it is not a sound block. After 0 every offset and string in it may be used without
 * further checks, as long as the bytes cannot change. */
int command_read_check(const void *block, size_t size);

#endif

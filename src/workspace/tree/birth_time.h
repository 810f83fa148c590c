/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKSPACE_TREE_BIRTH_TIME_H
#define WORKSPACE_TREE_BIRTH_TIME_H

#include <stdbool.h>
#include <time.h>

/* When a file was created; false where the filesystem does not record it. */
bool birth_time(int fd, struct timespec *ret);

#endif

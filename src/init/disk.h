/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workspace holds, against its limit: bytes and inodes. An ordinary user has no quota, so
 * it is watched, like memory (watch.h).
 */
#ifndef INIT_DISK_H
#define INIT_DISK_H

#include "init/init.h"

/* While the view is built: @dir_fd holds the layers of an overlay. */
long disk_take_layers(struct init *in, int dir_fd);
/* When the view is complete: finds the workspace in it. */
long disk_open(struct init *in);

/* As those of the watch. */
void disk_start(struct init *in, uint64_t now);
uint64_t disk_tick(struct init *in, uint64_t now);
void disk_end(struct init *in);
/* Bytes that were counted last. */
uint64_t disk_bytes(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workspace and private directory hold, against their limit: bytes and inodes. An ordinary
 * user has no quota, so it is watched, like memory (watch.h).
 */
#ifndef INIT_DISK_H
#define INIT_DISK_H

#include "init/init.h"

/* While the view is built: @dir_fd holds the layers of an overlay. */
long disk_take_layers(struct init *in, int dir_fd);
/* The same: @object_fd is a directory that is kept between runs, and appears at @path. */
long disk_take_own(struct init *in, int object_fd, const char *path);
/* When the view is complete: finds the workspace in it. */
long disk_open(struct init *in);

/* As those of the watch; disk_start() before anything runs. */
void disk_start(struct init *in, uint64_t now);
uint64_t disk_tick(struct init *in, uint64_t now);
void disk_end(struct init *in);
/* By the last count: more than is allowed. */
int disk_is_over(void);
/* Bytes that were counted last. */
uint64_t disk_bytes(void);

#endif

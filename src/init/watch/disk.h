/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of the workspace and of private directories against its limit: bytes and inodes. An
 * ordinary user has no quota, so it is watched, like memory (watch.h).
 */
#ifndef INIT_WATCH_DISK_H
#define INIT_WATCH_DISK_H

#include "init/init.h"

/* As those of the watch; disk_start() before anything runs. */
void disk_start(struct init *in, uint64_t now);
uint64_t disk_tick(struct init *in, uint64_t now);
void disk_end(struct init *in);
/* Over the limit, by the last count. */
int disk_is_over(void);
/* Bytes, by the last count. */
uint64_t disk_bytes(void);

#endif

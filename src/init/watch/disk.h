/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workspace and private directory hold, against their limit: bytes and inodes. An ordinary
 * user has no quota, so it is watched, like memory (watch.h).
 */
#ifndef INIT_WATCH_DISK_H
#define INIT_WATCH_DISK_H

#include "init/init.h"

/* As those of the watch; disk_start() before anything runs. */
void disk_start(struct init *in, uint64_t now);
uint64_t disk_tick(struct init *in, uint64_t now);
void disk_end(struct init *in);
/* By the last count: more than is allowed. */
int disk_is_over(void);
/* Bytes that were counted last. */
uint64_t disk_bytes(void);

#endif

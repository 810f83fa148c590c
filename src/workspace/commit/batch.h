/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written and wait for their names. */
#ifndef WORKSPACE_COMMIT_BATCH_H
#define WORKSPACE_COMMIT_BATCH_H

#include <stdint.h>

#include "workspace/commit/commit.h"

#define BATCH_FILES 2048
#define BATCH_DIRS 128
#define BATCH_BYTES ((uint64_t)64 << 20)

struct batch {
	size_t n, n_dirs;
	uint64_t bytes;
	uint32_t nodes[BATCH_FILES];
	uint8_t dir_of[BATCH_FILES]; /* index into dirs */
	int dirs[BATCH_DIRS];
	uint32_t dir_nodes[BATCH_DIRS];
};

#define BATCH_INIT { .n = 0 }

bool batch_is_full(const struct batch *batch);
/* Makes sure that the directory of @node, where c->base is, is open in the batch. */
int batch_reserve(struct commit *c, struct batch *batch, uint32_t node);
/* In the directory that was reserved last. */
void batch_add(struct batch *batch, uint32_t node, uint64_t bytes);
/* Makes all of them durable and gives them their names. 0, or an error that is set. */
int batch_flush(struct commit *c, struct batch *batch);
/* Removes the files that have not got their names. */
void batch_drop(struct commit *c, struct batch *batch);

/* apply.c */
int commit_sync_dir(struct commit *c, int fd);
void commit_late_conflict(struct commit *c, uint32_t node);

#endif

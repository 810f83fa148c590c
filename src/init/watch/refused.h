/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the kernel refuses a task or room in a private directory, only the program that asked is
 * told. This keeps what init sees of it, and what may have happened between two looks.
 */
#ifndef INIT_WATCH_REFUSED_H
#define INIT_WATCH_REFUSED_H

#include "init/init.h"

/* When the command has been started. */
void refused_start(struct init *in);
/* Before the tasks are counted: those that are made meanwhile belong to the next look. */
void refused_begin_look(struct init *in);
/* The tree was seen to have so many tasks. */
void refused_note_tasks(struct init *in, uint64_t tasks);
/* A private directory was looked at. */
void refused_note_room(struct init *in, uint64_t free_blocks, uint64_t free_inodes, uint64_t blocks,
		       uint64_t inodes);
/* Looks at the private directories. The nanoseconds until it wants to be called again. */
uint64_t refused_tick(struct init *in);
/* When the tree is gone. */
void refused_end(struct init *in);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the run: finding them, signalling them, ending them. */
#ifndef INIT_TREE_H
#define INIT_TREE_H

#include "init/init.h"

#define TREE_MAX 65536 /* processes that are looked at one by one */

/* @r: the result of reading a process's file. Remembers an error, unless the process is gone. */
void tree_note_error(struct init *in, long r);
/* A helper process of init's own, in the same memory, which no signal of the guest reaches: its
 * pid, also in @ret_pid (exact_pid or disk_pid of @in), or -errno. */
long tree_make_helper(struct init *in, void *stack, size_t stack_size, int *ret_pidfd,
		      int (*fn)(void *), int *ret_pid);
/* Opens /proc and checks that the tree can be found there. 0 or -errno. */
long tree_open(struct init *in);
/* The processes of the run, in no order; how many (at most TREE_MAX). */
int tree_list(struct init *in, int ret[TREE_MAX]);
/* Level landlock: are more than @max of them children of init itself, the dead included? Cheap. */
int tree_has_more_children(struct init *in, uint64_t max);
/* Sends @signal to every process of the run. */
void tree_signal(struct init *in, int signal);
/* Sends @signal to the @i-th of the @n processes that tree_list() gave. */
void tree_signal_one(struct init *in, int signal, int i, const int *pids, int n);
/* Continues a stopped tree except those in @except: children first, so that their parents do not
 * see them stopped. */
void tree_continue(struct init *in, const int *except, int n_except);
/* Ends all of them and returns when they are gone. */
void tree_kill(struct init *in);
/* Reaps everything that is dead; 1 when no child is left, 0 when some live. */
int tree_reap(struct init *in, int *command_ended);

#endif

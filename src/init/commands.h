/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a session: starting them, their time, their ends. */
#ifndef INIT_COMMANDS_H
#define INIT_COMMANDS_H

#include <linux/resource.h>

#include "init/init.h"

#define COMMANDS_MAX 64 /* at once */
#define COMMAND_FDS_MIN 4
#define COMMAND_FDS_MAX 5

static inline int is_session(const struct init *in)
{
	return (in->plan->flags & PLAN_SESSION) != 0;
}

/* What a command's process tells while it is still our own code. It lies in memory that is shared
 * until exec; nothing of the guest's ever has it. */
struct command_outcome {
	int is_failed;
	int stage;
	unsigned op;
	long error;
	uint64_t entered_ns; /* all layers are on */
};

/* Before the first one. */
void commands_open(struct init *in);
/* By a process that serves files: takes the shared memory away from it. */
void commands_close(void);
/* Takes an order and its descriptors, which are consumed. */
void command_take(struct init *in, const struct control_order *order, const int *fds, int n_fds);
/* Those that had to wait for a name to be covered again. */
void commands_start_waiting(struct init *in);
void command_signal(struct init *in, const struct control_order *order);
void command_end(struct init *in, const struct control_order *order);
/* A child was reaped; nothing happens unless it is a command. */
void command_reaped(int pid, int status, const struct rusage *usage);
/* Tells about all that have ended. */
void commands_tell(struct init *in);
/* Ends those whose time is over. */
void commands_tick(struct init *in, uint64_t now);
uint64_t commands_next(void); /* when that is to be called; ~0 = never */
void commands_pause(struct init *in);
void commands_resume(struct init *in);
void commands_count(struct init *in); /* tells what the session uses */

/* payload.c: the pid of a new process that becomes the command, or -errno. */
struct command_header;
long start_command(struct init *in, const struct command_header *block, const int *fds, int n_fds,
		   uint32_t flags, struct command_outcome *shared);

#endif

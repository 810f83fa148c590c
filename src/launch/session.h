/* SPDX-License-Identifier: Apache-2.0 */
/* A session: a run without a command, and the commands that are started in it. */
#ifndef LAUNCH_SESSION_H
#define LAUNCH_SESSION_H

#include <cordon/session.h>

#include "launch/launch.h"

#define SESSION_DRAINS_MAX 64

struct cordon_command {
	struct cordon_session *session;
	struct cordon_command *next;
	uint32_t number;
	struct relay in, out, err;
	uint64_t started_ns;
	uint64_t out_mark, err_mark; /* what had been written when it ended */
	bool keeps_rest, has_ended, is_done;
	struct control_command report;
	struct cordon_result result;
	struct arena arena; /* of the denials */
	struct cordon_denial denials[SAID_DENIALS_MAX];
	char *name, *cwd; /* for messages */
	char *shown[2];	  /* what cordon_command_output() gave */
	size_t n_paths;
};

struct cordon_session {
	struct cordon_run *run;
	struct cordon_command *commands;
	uint32_t last_number;
	bool is_paused, was_counted;
	struct control_count count;
	/* Output of what commands left behind, which nobody wants: without a reader it would die of
	 * SIGPIPE. */
	struct relay drains[SESSION_DRAINS_MAX];
	size_t n_drains;
};

/* Called by the run (run.c), which has its lock. */
/* Takes a report; false = it is none of a session's. */
bool session_take(struct cordon_session *session, const union control_message *message);
/* Moves the bytes of all commands. 0 or -errno. */
int session_pump(struct cordon_session *session);
/* The run is over, and its result is there. */
void session_ended(struct cordon_session *session);

/* session_command.c */
/* The block for init (format/command.h), as a sealed memory file. */
int command_block_fd(struct cordon_session *session, const struct cordon_exec_options *options,
		     struct cordon_command *command, struct cordon_error *err);
void command_fill_result(struct cordon_command *command);
/* It ended with the session. */
void command_fill_ended(struct cordon_command *command);

#endif

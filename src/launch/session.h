/* SPDX-License-Identifier: Apache-2.0 */
/* A session: a run without a command, and the commands that are started in it. */
#ifndef LAUNCH_SESSION_H
#define LAUNCH_SESSION_H

#include <cordon/session.h>

#include "format/gateway.h"
#include "launch/launch.h"

#define SESSION_DRAINS_MAX 64
#define REFUSALS_NET_MAX 8 /* of the network, for one command */

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
	struct cordon_denial denials[SAID_DENIALS_MAX + REFUSALS_NET_MAX];
	/* refusals.c: how often the gateway had refused each thing, and what came of the last look
	 */
	uint32_t refused[GATEWAY_DENIALS_MAX];
	struct arena later_arena;
	struct cordon_denial later[SAID_DENIALS_MAX + REFUSALS_NET_MAX];
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

/* refusals.c */
/* The gateway's refusals so far are none of this command's. */
void refusals_mark(struct cordon_command *command);
/* Those since then, or since the last time; all commands of the session share the network. */
size_t refusals_of_network(struct cordon_command *command, struct arena *arena,
			   struct cordon_denial ret[REFUSALS_NET_MAX]);

/* session_command.c */
/* The block for init (format/command.h), as a sealed memory file. */
int command_block_fd(struct cordon_session *session, const struct cordon_exec_options *options,
		     struct cordon_command *command, struct cordon_error *err);
void command_fill_result(struct cordon_command *command);
/* It ended with the session. */
void command_fill_ended(struct cordon_command *command);

#endif

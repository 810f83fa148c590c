/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a session, as its supervisor knows them. */
#ifndef CMD_CORDON_SESSION_JOBS_H
#define CMD_CORDON_SESSION_JOBS_H

#include <stdint.h>

#include <cordon/session.h>

#include "session_clients.h"

struct json_writer;
struct shared;

#define JOB_WORDS_MAX 200 /* bytes of a command line that are shown */

struct job {
	unsigned number; /* 0 = free */
	struct cordon_command *command;
	struct client *client;
	struct shared *shared; /* the interpreter that it is */
	int is_detached, keeps, is_over;
	int64_t started_ms;
	char words[JOB_WORDS_MAX];
	const char *kind;
	int status;
};

/* Requests: WIRE_EXEC, WIRE_KILL, WIRE_LOGS, WIRE_SIGNAL and WIRE_END. */
void job_exec(struct session_server *s, struct client *c);
void job_kill(const struct session_server *s, struct client *c);
void job_logs(const struct session_server *s, struct client *c);
void job_signal(struct client *c);

/* Reads what is to be executed: from string number @first on cwd, time, output, flags, streams,
 * number of variables, variables, words. The caller frees *ret_env. */
int job_read_exec(const struct wire *w, size_t first, struct cordon_exec_options *o,
		  const char ***ret_env);
int job_begin(struct session_server *s, const struct cordon_exec_options *o, struct job **ret,
	      struct cordon_error *err);
void job_tell_ended(struct client *c, const struct cordon_result *res);

/* Who waits for a command that has ended gets the receipt. */
void jobs_settle(void);
int jobs_run(void);
/* How many there were. */
unsigned jobs_counted(void);
void jobs_list(struct json_writer *w);
void jobs_forget(void);

#endif

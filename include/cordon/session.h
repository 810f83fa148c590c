/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: several commands in one sandbox.
 *
 * A session is a sandbox without a command. Commands are started in it one after the other or at
 * the same time; each has all the layers that the command of a run has. They share files, processes
 * and network, so one can start a server and the next connect to it. The policy's limits hold for
 * the session as a whole: `limits.wall` is its lifetime, and reaching the limit of memory, disk or
 * CPU time ends it. A command may have a time limit and a limit of output of its own.
 *
 * All commands of a session are one guest: they have the same rights. Before Landlock ABI 6 (Linux
 * 6.12) they can signal each other. Since then none reaches what another one has started by a
 * signal or an abstract Unix socket.
 *
 * Like a run a session never blocks: cordon_session_fd() is one descriptor to poll for the session
 * and all its commands, cordon_session_process() handles what happened. The rules about threads and
 * fork are those of run.h. The sandbox ends with the process that started it.
 */
#ifndef CORDON_SESSION_H
#define CORDON_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>
#include <cordon/policy.h>
#include <cordon/run.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct cordon_session;
struct cordon_command;

#define CORDON_SESSION_COMMANDS_MAX 64 /* at once */
#define CORDON_CHANNEL_FD 3	       /* where a command finds its channel */

/**
 * Starts a session. Of @options count: `envp`, `cwd`, `home`, `search_path`, the default limits
 * (`default_wall_ms` 0 = no limit of time here), workspace, private and code directories. `argv`
 * may be NULL; if not, the installation of argv[0] is made readable, as for a run of it, and
 * nothing is executed. `image_fd` is for commands that ask for it (cordon_exec_options.image).
 * Streams are not used.
 *
 * The set-up goes on after this call. If it fails, the session ends with kind SANDBOX_ERROR, and
 * commands that were started meanwhile with it.
 */
int cordon_session_start(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			 const struct cordon_run_options *options, struct cordon_session **ret,
			 struct cordon_error *err);

/** Descriptor that polls readable when cordon_session_process() has something to do. */
int cordon_session_fd(const struct cordon_session *session);

/** Handles what happened to the session and its commands; never blocks. 1 = the session is over. */
int cordon_session_process(struct cordon_session *session, struct cordon_error *err);

/** Processes until the session is over or @timeout_ms passed (-1 = no limit). 0 = it goes on. */
int cordon_session_wait(struct cordon_session *session, int timeout_ms, struct cordon_error *err);

/** Remarks, as cordon_run_notes(). */
const char *const *cordon_session_notes(const struct cordon_session *session);

/** What the session publishes, as cordon_run_published(). */
const struct cordon_published *cordon_session_published(const struct cordon_session *session,
							size_t *ret_n);

struct cordon_exec_options {
	size_t size; /* sizeof(struct cordon_exec_options); set by the INIT macro */
	const char *const *argv;
	/* NAME=VALUE, added to the session's environment or in the place of the same name. NULL =
	 * none. argv[0] is looked for in the resulting PATH, inside. */
	const char *const *env;
	const char *cwd; /* inside; relative to where the session starts. NULL = there */
	/* What it writes to a stream that is passed on (CORDON_STREAM_PASS) is in the caller's pipe
	 * at once, without limit, and the result knows nothing of it. */
	struct cordon_stream in, out, err;
	int64_t wall_ms;      /* time limit of this command, 0 = none; its time stops in a pause */
	int64_t output_bytes; /* limit of each stream; 0 = as limits.output says */
	int orphans; /* enum cordon_orphans; KEEP: what it leaves goes on, within the session */
	int files;   /* 1: nothing is executed, it serves files (cordon/files.h) */
	/* A descriptor that the command has as CORDON_CHANNEL_FD, best one end of a socket pair. It
	 * is passed as it is, not relayed. 0 or negative = none. It stays the caller's. */
	int channel_fd;
	int image; /* 1: the session's `image_fd` is executed in place of argv[0]'s file */
};

#define CORDON_EXEC_OPTIONS_INIT { .size = sizeof(struct cordon_exec_options) }

/** Starts a command. @options are used only during this call, except stream data. If a layer cannot
 * be entered nothing is executed, and the result says so. */
int cordon_session_exec(struct cordon_session *session, const struct cordon_exec_options *options,
			struct cordon_command **ret, struct cordon_error *err);

/** The account of the command; NULL until it has ended and its output was relayed. Valid until it
 * is freed. Usage is that of the command itself and the children it waited for. */
const struct cordon_result *cordon_command_result(struct cordon_command *command);

/** Processes until the command has a result or @timeout_ms passed. 1 = it has, 0 = not yet. */
int cordon_command_wait(struct cordon_command *command, int timeout_ms, struct cordon_error *err);

/** What was captured so far (CORDON_STREAM_CAPTURE). Valid until the session is processed. */
void cordon_command_output(struct cordon_command *command, struct cordon_output *ret_out,
			   struct cordon_output *ret_err);

/**
 * What was refused to a command that goes on, for whoever reads its words on another way than
 * standard error (an interpreter's answer). @text: what it said about an error, as its result would
 * have judged it (how "said"); with @len 0 nothing is looked for in it. Besides, what the network
 * has refused since the last such call, or the command's start: to it, or to what runs beside it in
 * the session. *ret is valid until the next such call for the command, or its end.
 */
int cordon_command_refusals(struct cordon_command *command, const char *text, size_t len,
			    const struct cordon_denial **ret, size_t *ret_n,
			    struct cordon_error *err);

/** Sends @signal to the command's process group. Nothing happens once it has ended. */
int cordon_command_signal(struct cordon_command *command, int signal, struct cordon_error *err);

/** Sends @signal to the command's tree, and SIGKILL after @grace_ms; 0 = at once. The result's kind
 * becomes CANCELLED. What it left in another session of its own (daemons) goes on. */
int cordon_command_end(struct cordon_command *command, int signal, int64_t grace_ms,
		       struct cordon_error *err);

/** Ends the command at once if it has no result yet, and frees it. What it left behind goes on if
 * it may, and its output is thrown away. NULL is fine. */
void cordon_command_free(struct cordon_command *command);

/** Stops every process of the session, and lets them go on. No command can be started meanwhile. */
int cordon_session_pause(struct cordon_session *session, struct cordon_error *err);
int cordon_session_resume(struct cordon_session *session, struct cordon_error *err);

/** What a session uses now. Fields may be added at the end. */
struct cordon_session_usage {
	uint64_t memory_bytes, tasks;
	double cpu_ms, uptime_ms;
	unsigned commands; /* that run */
	int is_paused;
};

/** Id of the workspace that @session has, as cordon_run_workspace(). NULL: none. */
const char *cordon_session_workspace(const struct cordon_session *session);

/** cordon_run_branch() for a session. For a copy of one moment nothing may run in it: pause it. */
int cordon_session_branch(struct cordon_session *session, uint64_t max_bytes, uint64_t max_files,
			  struct cordon_workspace **ret, struct cordon_error *err);

/** Asks the sandbox and waits for its answer, a second at most. */
int cordon_session_usage(struct cordon_session *session, struct cordon_session_usage *ret,
			 struct cordon_error *err);

/** Ends the session: @signal for every process, and the end of all of them when the policy's grace
 * is over. */
int cordon_session_end(struct cordon_session *session, int signal, struct cordon_error *err);

/** Ends the session at once. */
int cordon_session_cancel(struct cordon_session *session, struct cordon_error *err);

/** The account of the session as a whole; NULL until it is over. A session that was ended by its
 * caller has the kind CANCELLED, one whose time was over TIMEOUT. */
const struct cordon_result *cordon_session_result(const struct cordon_session *session);

/** Ends the session if it is not over, and frees it. All its commands must have been freed. NULL is
 * fine. */
void cordon_session_free(struct cordon_session *session);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

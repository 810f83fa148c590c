/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP server: what its files share.
 *
 * One process, one thread, one poll loop (serve.c). A client's line becomes messages (rpc.c), which
 * are answered at once (methods.c) or become calls (call.c). A call works with jobs, one after the
 * other: a job is a command, or a file server, in a sandbox (job.c). Which sandbox that is, and
 * what it may do, comes from the operator's options alone (policy.c). What a job writes is the
 * guest's: it is captured up to a limit, and goes to the client as text within a message, never as
 * one.
 */
#ifndef MCP_SERVER_H
#define MCP_SERVER_H

#include <poll.h>
#include <sys/types.h>

#include <cordon/cordon.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "options.h"
#include "rpc.h"

#define MCP_CALLS_MAX 256 /* at once, running or waiting */
#define MCP_JOBS_MAX 64	  /* that run at once; the others wait */
#define MCP_HELPERS_MAX                                                                            \
	4 /* processes of ours at once: what they look at is as large as a guest likes */
/* Bytes for the client, before its requests and their answers have to wait. */
#define MCP_QUEUE_MAX ((size_t)8 << 20)
#define MCP_POLL_MAX (4 + 3 * MCP_CALLS_MAX) /* more than calls, sessions and interpreters need */

struct call;
struct interp;
struct server;
struct session;

/* The arena in which one line lives; its calls keep it. */
struct line {
	struct arena arena;
	unsigned refs;
};

/* Answers that go out as one array. */
struct batch {
	struct batch *next;
	struct strbuf out;
	unsigned pending; /* 0: it has gone out */
};

/* A sandbox that several jobs share: there is one if a workspace is copied on write, since only one
 * sandbox at a time can have it. */
struct box {
	struct cordon_session *session;
	unsigned jobs, number; /* the number: of this one among all */
	int is_ending, is_over;
	struct cordon_error error; /* code 0 = none */
};

struct job_spec {
	const char *const *argv;
	const char *input; /* standard input, borrowed until the job is done; NULL = none */
	size_t input_len;
	int64_t wall_ms;
	int64_t output_bytes; /* 0 = as the policy says */
	int files;	      /* serves files instead (cordon/files.h) */
};

enum job_state {
	JOB_NONE = 0,
	JOB_RUNS,
	JOB_DONE
};

struct job {
	int state; /* enum job_state */
	struct box *box;
	struct cordon_run *run; /* one of the two */
	struct cordon_command *command;
	int was_cancelled;
	struct cordon_error error; /* code 0 = there is a result */
};

/* A process of ours that works on the workspace's files, which may take long (helper.c). */
struct helper {
	pid_t pid; /* 0 = none */
	int fd;	   /* where it writes to, -1 = it is done */
	int status;
	struct strbuf out;
	int is_cut, has_to_end; /* it says too much: it is killed, or goes on unread */
};

enum call_state {
	CALL_WAITS = 0, /* for a job to end */
	CALL_RUNS,
	CALL_OVER /* answered, or not to be answered */
};

struct call {
	struct call *next;
	struct server *server;
	struct line *line;
	struct batch *batch; /* NULL = an answer of its own */
	const struct tool *tool;
	const struct json_value *args;
	int is_modern; /* the request's era (methods.c) */
	int state;     /* enum call_state */
	char id[RPC_ID_MAX];
	char token[RPC_ID_MAX];		      /* of the client for progress, "" = it wants none */
	int64_t began_ms, told_ms, looked_ms; /* looked, told: for progress */
	uint64_t told_bytes[2];		      /* of its output and errors that were told */
	struct job_spec spec;
	struct job job;
	struct helper helper;
	void (*then)(struct call *call); /* when the job or the helper is done */
	struct strbuf kept;		 /* what a tool keeps from one job to the next */
	uint64_t number;		 /* the same: bytes written, places replaced */
	struct session *session;	 /* that it names, NULL = none */
	struct interp *interp;		 /* it waits for code that runs there */
	const char *code;
	int is_write;	/* of a file, now */
	int is_commit;	/* nobody else can have the workspace meanwhile */
	int is_unbegun; /* it waits for its tool to begin it once more */
};

struct server {
	const struct parsed *args;
	struct cordon_launcher *launcher;
	struct cordon_pool *pool;     /* for calls with a sandbox of their own; NULL = none */
	struct cordon_policy *policy; /* of a call, without a limit of time */
	char *policy_json;	      /* the same, for get_limits */
	char *base;	    /* directory of the workspace or the direct grant, NULL = none */
	char workspace[64]; /* name; "" = none */
	int64_t wall_ms, memory_bytes; /* limits of a call */
	int has_network, may_commit, workspace_began, is_committing;
	struct box box;
	struct batch *batches;
	struct call *calls;
	unsigned n_calls, n_jobs;
	uint64_t n_done, looked_at; /* calls that are over; when the box was looked at */
	struct session *sessions;
	unsigned n_sessions, n_boxes;
	int has_news; /* something became free that a call may wait for */
	/* client.c */
	struct strbuf in, out;
	size_t looked, sent; /* of `in` without a newline; of `out` */
	int is_skipping;     /* the rest of a line that is too long */
	int in_ended, out_failed;
	int out_fd, out_is_socket;
	/* methods.c */
	const char *revision; /* that the client began with, NULL = it did not */
};

int64_t mcp_now_ms(void);

/* policy.c: from the operator's options. */
int server_init(struct server *s, const struct parsed *args, struct cordon_error *err);
void server_run_options(const struct server *s, struct cordon_run_options *ret);
/* A duration as seconds, for people. */
const char *server_seconds(int64_t ms, char ret[32]);
void server_done(struct server *s);

/* serve.c: until the client or the operator ends it; the exit status. */
int server_serve(struct server *s, int signal_fd);

/* client.c */
void client_init(struct server *s);
void client_done(struct server *s);
/* Takes what the client has sent; each line goes to methods_line(). */
void client_read(struct server *s);
/* Queues one message: a whole JSON text without its newline. */
void client_send(struct server *s, const struct strbuf *message);
void client_flush(struct server *s);
size_t client_queued(const struct server *s);

/* methods.c */
void methods_line(struct server *s, const char *text, size_t len);
/* Sends an answer, or adds it to its batch. */
void methods_answer(struct server *s, struct batch *batch, struct strbuf *message);
/* Frees the batches that have gone out. */
void methods_sweep(struct server *s);

/* box.c */
int box_start(struct server *s, struct box *box, int has_workspace, struct cordon_error *err);
/* Handles what happened. */
void box_look(struct box *box);
/* Ends it; its jobs are told so by box_look(). */
void box_end(struct box *box);
void box_free(struct box *box);

/* job.c */
int job_start(struct server *s, struct box *box, const struct job_spec *spec, struct job *job,
	      struct cordon_error *err);
/* Handles what happened; afterwards state is JOB_DONE if it is. */
void job_look(struct job *job, int is_ready);
/* NULL: job->error says why. */
const struct cordon_result *job_result(const struct job *job);
void job_output(struct job *job, struct cordon_output *ret_out, struct cordon_output *ret_err);
void job_cancel(struct job *job);
void job_free(struct job *job);

/* call.c */
int call_new(struct server *s, struct line *line, struct batch *batch, const struct rpc_message *m,
	     int is_modern);
/* Starts call->spec, now or when there is room; call->then is called when it is done. */
void call_job(struct call *call, void (*then)(struct call *call));
/* The call begins again when something has become free. */
void call_later(struct call *call);
/* The client reads what it is sent: there is room for a large answer. Otherwise the call waits. */
int call_may_answer(const struct call *call);
/* Does what there is to do. */
void call_step(struct call *call, const struct pollfd *fds, int n);
/* Adds what it waits for to @fds; returns how many. */
int call_waits(struct call *call, struct pollfd *fds);
/* When it has to be looked at again, -1 = no time. */
int64_t call_next_ms(const struct call *call);
void call_cancel(struct server *s, const char *id);
void call_end(struct call *call); /* without an answer */
void call_free(struct call *call);

/* answer.c: the result of tools/call. */
struct answer {
	struct strbuf content; /* items of the array */
	struct strbuf data;    /* structured content: an object as JSON, or empty */
	int is_error;
};

#define ANSWER_INIT { STRBUF_INIT, STRBUF_INIT, 0 }

void answer_text(struct answer *a, const char *text, size_t len);
void answer_image(struct answer *a, const char *type, const void *data, size_t len);
/* Sends it and ends the call. Frees @a. */
void answer_send(struct call *call, struct answer *a);
/* An answer that is an error, of one sentence. */
void answer_refuse(struct call *call, const char *fmt, ...) PRINTF_LIKE(2, 3);
void answer_error(struct call *call, const struct cordon_error *err);
/* As in the receipt. */
void answer_denials(struct json_writer *w, const struct cordon_denial *denials, size_t n);
/* Replaces what the library's JSON has for bytes that are no UTF-8. */
void answer_without_surrogates(char *json);
void answer_base64(struct strbuf *sb, const void *data, size_t len);
/* The receipt with its output, and in words, for a job that is done. */
void answer_receipt(struct call *call, struct answer *a);

/* account.c: what became of a run, for a model. */
void account_add(struct strbuf *sb, const struct call *call, const struct cordon_result *result);
/* Of it what was refused, and which limit was reached; begins with a newline if there is something.
 */
void account_explain(struct strbuf *sb, const struct call *call,
		     const struct cordon_result *result);
void account_denials(struct strbuf *sb, const struct call *call,
		     const struct cordon_denial *denials, size_t n);
/* If there is no network, and that is what @text of the guest's is about. */
void account_no_network(struct strbuf *sb, const struct call *call, const char *text, size_t len);

/* tools.c */
struct tool {
	const char *name, *title, *description;
	const char *input, *output; /* JSON schemas */
	const char *const *names;   /* of its arguments */
	int is_read_only, is_destructive, is_idempotent, is_open;
	int (*is_offered)(const struct server *s); /* NULL = always */
	void (*start)(struct call *call);
};

extern const struct tool tools[];
const struct tool *tool_find(const struct server *s, const char *name);
void tools_list(const struct server *s, struct json_writer *w);

/* args.c: of a call. They refuse the call and return -1 if something does not fit. */
int args_check(struct call *call);
/* *ret: NULL if it is not given, which is an error if it is needed. */
int args_string(struct call *call, const char *name, int is_needed, const char **ret);
int args_bool(struct call *call, const char *name, int *ret);
int args_count(struct call *call, const char *name, int64_t max, int64_t *ret);
/* The limit of time: the operator's, or what the call asks for if that is less. */
int args_timeout(struct call *call, int64_t *ret_ms);

/* helper.c: runs our own program with other words; then @then is called, with what it wrote in
 * call->helper.out and its exit status in call->helper.status. */
void helper_start(struct call *call, const char *const *argv, void (*then)(struct call *call));
int helper_read(struct helper *helper); /* 1 = it is done */
void helper_cancel(struct helper *helper);
void helper_free(struct helper *helper);
/* The session that it names, if it does. */
int args_session(struct call *call);

/* run_tool.c */
void tool_run_command(struct call *call);
void tool_run_code(struct call *call);
void tool_get_limits(struct call *call);

/* file_tools.c */
void tool_read_file(struct call *call);
void tool_write_file(struct call *call);
void tool_edit_file(struct call *call);
void tool_list_files(struct call *call);

/* workspace_tools.c */
int tools_have_workspace(const struct server *s);
int tools_may_commit(const struct server *s);
void tool_workspace_diff(struct call *call);
void tool_workspace_commit(struct call *call);

/* session.c, execute.c */
void tool_create_session(struct call *call);
void tool_close_session(struct call *call);
void tool_execute(struct call *call);

/* end_workspace.c */
/* Servers that were killed have left workspaces: those without changes go, beside us. */
void workspace_collect(void);
void server_end_workspace(struct server *s);

#endif

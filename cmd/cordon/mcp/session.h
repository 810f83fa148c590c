/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that a client makes: a sandbox that stays, with interpreters that keep their state.
 *
 * With a workspace all of them lie in the server's box, as the calls do: only one sandbox at a time
 * can have it. Without, each has a box of its own.
 */
#ifndef MCP_SESSION_H
#define MCP_SESSION_H

#include "channel.h"
#include "server.h"

#define SESSIONS_MAX 8
#define SESSION_ID_MAX 40
#define DISPLAYS_MAX 1000

enum language {
	LANGUAGE_PYTHON = 0,
	LANGUAGE_JAVASCRIPT,
	LANGUAGE_BASH,
	LANGUAGE_MAX
};

extern const char *const language_names[LANGUAGE_MAX];

enum interp_state {
	INTERP_NONE = 0,
	INTERP_STARTS,
	INTERP_IDLE,
	INTERP_RUNS,
	INTERP_SYNCS, /* an interrupt may still be on its way */
	INTERP_DIES,  /* it was killed, or has ended */
};

struct display {
	unsigned n;
	size_t sizes[CHANNEL_PARTS_MAX];
	char mimes[CHANNEL_PARTS_MAX][CHANNEL_MIME_MAX];
	struct strbuf data; /* all forms, one behind the other */
};

struct interp {
	int state; /* enum interp_state */
	int language;
	struct cordon_command *command;
	int fd; /* our end of the channel */
	int out_fds[2],
		in_fds[2]; /* its output: we read the first, the library writes the second */
	struct strbuf to, from;
	size_t sent;
	char token[CHANNEL_TOKEN_MAX];
	long long sent_signals, seen_signals;
	int64_t deadline_ms, kill_at_ms, again_ms[3]; /* 0 = none */
	int n_again;
	int was_ready;	  /* it has said hello */
	int was_told;	  /* a call was told that it has ended */
	int is_new;	  /* the one before has ended, which nobody was told */
	int is_closed;	  /* the channel, by the other side */
	const char *doom; /* why it is being ended */
	char why[256];
	/* of the code that runs */
	struct call *call; /* NULL = nobody waits for it any more */
	int is_done, timed_out;
	struct channel_message answer;
	struct strbuf answer_data, output[2];
	int is_cut[2];
	struct display *displays;
	size_t n_displays, shown_bytes;
};

struct session {
	struct session *next;
	struct server *server;
	char id[SESSION_ID_MAX];
	struct box own, *box;
	unsigned box_number; /* of the box that it began in */
	struct interp interps[LANGUAGE_MAX];
	unsigned refs; /* of calls that name it */
	int is_closed;
};

/* session.c */
struct box *session_box(struct session *session);
/* Its sandbox is still there. */
int session_lives(const struct session *session);
void session_get(struct session *session);
void session_put(struct session *session);
/* All that can be freed. */
void sessions_sweep(struct server *s);
void sessions_end(struct server *s);
int sessions_wait(struct server *s, struct pollfd *fds);
void sessions_look(struct server *s);

/* interp.c */
int interp_start(struct interp *i, struct box *box, int language, struct cordon_error *err);
/* Handles what happened. @box: that it runs in. */
void interp_look(struct interp *i, struct box *box);
int interp_wait(struct interp *i, struct pollfd *fds);
/* When it has to be looked at again, -1 = no time. */
int64_t interp_next_ms(const struct interp *i);
/* Runs code for a call; the state must be INTERP_IDLE. i->is_done when it has ended, or never will.
 */
void interp_run(struct interp *i, struct call *call, const char *code, int64_t wall_ms);
void interp_kill(struct interp *i, const char *why);
/* What its last code left, once that was answered. */
void interp_reset(struct interp *i);
void interp_free(struct interp *i, struct box *box);

/* execute.c */
void execute_step(struct call *call);
/* What the code has written so far. */
void execute_output(const struct call *call, struct cordon_output *ret_out,
		    struct cordon_output *ret_err);
void execute_forget(struct call *call);

#endif

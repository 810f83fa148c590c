/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpreters that belong to the session: their state outlives the client that started them.
 *
 * The supervisor holds the channel and the output of each. A client that joins one hands over the
 * ends of its own pipes and socket, as if they were the interpreter's (WIRE_JOIN). It sends
 * requests when it likes; they are done one after the other, whole, in the order in which they
 * became whole. What the interpreter writes and answers meanwhile goes to that client, and to no
 * other. The answer comes last: whatever was written before it is in the client's pipes by then.
 *
 * A client may be gone at any moment. Then its code is interrupted, and what still comes of it is
 * thrown away; if it does not end within the grace, the interpreter is ended.
 *
 * What comes from inside is the guest's. It is cut into messages and bounded, nothing more: a
 * client checks what it gets itself. A message that belongs to no request ends the interpreter, so
 * that what one client's code has left behind cannot answer for the next one's before it has asked.
 */
#ifndef CMD_CORDON_SESSION_SHARED_H
#define CMD_CORDON_SESSION_SHARED_H

#include <poll.h>
#include <stdint.h>

#include <cordon/run.h>

#include "base/strbuf.h"
#include "session_clients.h"
#include "session_frame.h"

#define SHARED_MAX 8
#define SHARED_NAME_MAX 32
#define SHARED_POLLED_MAX (3 * SHARED_MAX + 3 * CLIENTS_MAX)
#define SHARED_AGAIN 3

struct shared;

/* A client that has joined. */
struct member {
	struct shared *shared;
	int fd, out_fds[2];
	int is_full[2];	  /* it has to read first */
	int is_greeted;	  /* it was sent the hello */
	int is_cancelled; /* its request, before it was whole */
	struct strbuf in; /* the request */
	struct frame_request request;
	uint64_t number;   /* of the whole request among all; 0 = it is not whole */
	struct strbuf out; /* for its channel */
	size_t sent;
};

enum shared_state {
	SHARED_NEW, /* waits for its greeting, if it needs one */
	SHARED_STARTING,
	SHARED_IDLE,
	SHARED_BUSY,
	SHARED_SYNC, /* we have asked whether it has seen our interrupts */
	SHARED_OVER
};

struct shared {
	char name[SHARED_NAME_MAX + 1]; /* "" = free */
	enum shared_state state;
	struct job *job;
	int fd, out_fds[2];
	struct member *current; /* NULL: nobody any more */
	char token[FRAME_WORD_MAX];
	int is_code;
	int counts, is_signalled; /* interrupts: ever; with this request */
	struct strbuf to;	  /* what it is to be sent */
	size_t to_sent;
	struct strbuf in; /* what has come and is not passed on yet */
	size_t in_at;
	uint64_t data_left; /* of the message that comes */
	int is_last, is_draining;
	size_t due[2]; /* of what was written before the answer: still to go */
	struct strbuf hello;
	int64_t sent_signals, seen_signals;
	int64_t again_at[SHARED_AGAIN];
	int64_t kill_at, quiet_at; /* 0 = never */
	int is_closed;
};

/* Number @i, 0 to SHARED_MAX - 1. */
struct shared *shared_at(int i);
void shared_close_fd(int *fd);
void member_free(struct member *m);
/* session_join.c: WIRE_JOIN */
void shared_join(struct session_server *s, struct client *c);
void shared_leave(struct client *c);
/* WIRE_SIGNAL and WIRE_END on the connection of one that has joined. */
void shared_signal(struct client *c, int signal, int is_end);
/* Its command has ended: all who have joined are told. */
void shared_ended(struct shared *it, const struct cordon_result *res);
int shared_is_used(const struct shared *it);
void shared_pause(int is_paused);

/* The loop: what to wait for, and for how long; then as much as can be done without waiting. */
size_t shared_fill_polled(struct pollfd *fds);
int64_t shared_next_time(void);
void shared_serve(void);

/* session_relay.c: one interpreter's, or one client's. Returns whether something has moved. */
int relay_serve(struct shared *it);
/* -1 = what it was to be sent is not whole: it cannot go on. */
int relay_flush(struct member *m);
/* The member's request, as far as it has come; -1 = it is gone, or not to be understood. */
int relay_read_request(struct member *m);
/* It does not want an answer to the request that waits any more. */
void relay_interrupt(struct member *m);
/* What was written so far goes to @m; nothing waits. */
void relay_rest(struct shared *it, struct member *m);
/* The same, for nobody. */
void relay_discard(struct shared *it);
/* Whether to wait for what it says. */
int relay_reads(const struct shared *it);
/* What that leads to: it breaks the rules; it has answered; it has closed its channel. */
void shared_end(struct shared *it);
void shared_answered(struct shared *it);
void shared_closed(struct shared *it);
void member_forget_request(struct member *m);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of a supervisor: what they have asked, and what they are to be told. */
#ifndef CMD_CORDON_SESSION_CLIENTS_H
#define CMD_CORDON_SESSION_CLIENTS_H

#include <stdint.h>

#include "base/strbuf.h"
#include "session_server.h"
#include "session_wire.h"

#define STAYING_MAX 128		       /* with a command or an interpreter */
#define CLIENTS_MAX (STAYING_MAX + 16) /* the others ask and go */

struct job;
struct member;

struct client {
	int fd; /* -1 = free */
	struct wire wire;
	struct strbuf out;
	size_t sent;
	int64_t since_ms;
	struct job *job;
	struct member *member; /* of an interpreter that it has joined */
	int wants_receipt;     /* it waits for the end of the session */
	int is_closing;	       /* once all is sent */
	int is_known;	       /* it has sent the key */
};

/* Number @i, 0 to CLIENTS_MAX - 1. */
struct client *client_at(int i);
void clients_init(void);
/* Who may not speak to us is not answered. */
void clients_accept(const struct session_server *s);
/* Whether one more may stay; if not, @c is told. */
int clients_may_stay(const struct session_server *s, struct client *c);
/* Ends the connection; a command that is not to go on without it ends, too. */
void clients_drop(struct client *c);
/* Sends what it takes now. */
void clients_flush(struct client *c);

void clients_reply(struct client *c, uint32_t type, const char *const *strings, size_t n);
void clients_reply_ok(struct client *c, const char *text);
void clients_reply_error(struct client *c, const struct cordon_error *err);
void clients_reply_usage(struct client *c, const char *text);

int64_t server_now_ms(void);

#endif

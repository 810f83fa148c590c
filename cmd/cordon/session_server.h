/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of a session: a process that holds it and serves its socket. */
#ifndef CMD_CORDON_SESSION_SERVER_H
#define CMD_CORDON_SESSION_SERVER_H

#include <cordon/cordon.h>

#include "receipt.h"
#include "session_dir.h"

struct session_server {
	struct cordon_launcher *launcher;
	struct cordon_session *session;
	struct session_place place;
	int listen_fd, signal_fd;
	int64_t idle_ms; /* 0 = never */
	struct receipt receipt;
	long n_filters; /* of system calls, that this process has */
};

/* Serves until the session is over. */
void session_serve(struct session_server *server);

#endif

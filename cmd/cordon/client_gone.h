/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a wrapped MCP server: whether its client is still there. A server ends when its input does;
 * one that does not, and whose client was killed, would stay for ever.
 */
#ifndef CMD_CORDON_CLIENT_GONE_H
#define CMD_CORDON_CLIENT_GONE_H

#include <poll.h>
#include <stdint.h>

struct client_gone {
	int fds[2];	  /* our input and output; -1: nobody is at the other end any more */
	int64_t until_ms; /* when the server is told to end, 0 = not */
};

void client_gone_init(struct client_gone *c);
/* Fills in what to poll, and returns @timeout or less. */
int client_gone_prepare(const struct client_gone *c, struct pollfd fds[2], int timeout);
/* Once the client has been gone for a while: as if it had sent us SIGTERM. */
void client_gone_look(struct client_gone *c, const struct pollfd fds[2]);

#endif

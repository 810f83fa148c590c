/* SPDX-License-Identifier: Apache-2.0 */
/* What publish.c and publish_udp.c share. */
#ifndef GATEWAY_PUBLISH_H
#define GATEWAY_PUBLISH_H

#include "gateway/gateway.h"

/* publish.c: asks init for a socket inside; @who gets it by publish_from_init(). */
bool publish_want(struct gateway *g, void *who, enum gateway_protocol protocol);
void publish_forget_any(const void *who);
/* Connects a socket from init to the sandbox's loopback address of either family. */
long publish_connect(struct gateway *g, int fd, bool is_v6, uint16_t port);

/* publish_udp.c */
long publish_udp_open(struct gateway *g, int fd, uint16_t port);
/* True if @who was a session of ours: it has the socket (or, -1, has not got one). */
bool publish_udp_take(struct gateway *g, void *who, int fd);
void publish_udp_expire(struct gateway *g);

#endif

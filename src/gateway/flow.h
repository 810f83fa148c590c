/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a connection: bytes go from one socket through a pipe into the other, and never
 * through our memory. A flow has a pipe only while there is something in it, so idle connections
 * cost none.
 */
#ifndef GATEWAY_FLOW_H
#define GATEWAY_FLOW_H

#include "gateway/gateway.h"

#define FLOW_ALL (~(uint64_t)0)

struct flow {
	int from, to;	  /* borrowed */
	int pipe;	  /* index of the pipe it holds, -1 = none */
	uint32_t in_pipe; /* bytes in it */
	uint64_t left;	  /* bytes that still may be taken; FLOW_ALL = until the end */
	uint64_t moved;	  /* bytes that arrived */
	bool is_in;	  /* towards the sandbox */
	bool is_urgent; /* the sender has marked a byte as urgent: splicing stops there for good */
	bool has_end;	/* the sender has finished */
	bool is_shut;	/* ... and the receiver was told */
};

enum flow_state {
	FLOW_WAITS,    /* for either side */
	FLOW_MORE,     /* more can be moved, but others are waiting for their turn */
	FLOW_DONE,     /* all of `left` was moved, or the end was passed on */
	FLOW_BROKEN,   /* one side is gone */
	FLOW_TOO_MUCH, /* the sandbox has had its bytes */
};

#define FLOW_INIT { .from = -1, .to = -1, .pipe = -1 }

enum flow_state flow_pump(struct gateway *g, struct flow *flow);
/* Bytes of our own, when the pipe is empty: FLOW_MORE if all of them were taken, or why not. */
enum flow_state flow_put(struct gateway *g, struct flow *flow, const char *data, size_t len);
void flow_close(struct flow *flow); /* gives the pipe back */

#endif

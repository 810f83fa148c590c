/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of the gateway (src/gateway): starting it, ending it, reading its account.
 *
 * It is started once init has its plan, so that init builds its mounts meanwhile. Then gateway and
 * init talk to each other; the supervisor only keeps the socket that ends the gateway when it is
 * closed, a pidfd to see it die earlier, and the memory with the account.
 */
#ifndef LAUNCH_GATEWAY_H
#define LAUNCH_GATEWAY_H

#include <stdint.h>

#include <cordon/run.h>

#include "format/gateway.h"

struct cordon_launcher;
struct cordon_run;
struct arena;
struct plan;

struct run_gateway {
	int ctl_fd; /* its end is the gateway's */
	int pid_fd;
	int init_fd;	    /* the socket that init gets; -1 once it has it */
	int peer_fd;	    /* its other end, the gateway's; -1 once it has it */
	int proxy_fd;	    /* level landlock: the proxy's port, for init */
	int proxy_guard_fd; /* keeps it from others until the end */
	uint16_t proxy_port;
	struct gateway_account *account; /* shared with the gateway */
	struct cordon_published *published;
	size_t n_published;
	int wait_status; /* how it ended by itself; valid if is_lost */
	int is_lost;	 /* it ended before the run did */
	int is_ended;	 /* we have told it to end */
	int is_awaited;	 /* and wait for its log to be complete */
};

#define RUN_GATEWAY_INIT                                                                           \
	{ .ctl_fd = -1,                                                                            \
	  .pid_fd = -1,                                                                            \
	  .init_fd = -1,                                                                           \
	  .peer_fd = -1,                                                                           \
	  .proxy_fd = -1,                                                                          \
	  .proxy_guard_fd = -1 }

/* Opens the sockets that init gets, if @policy needs a gateway. */
int gateway_open(struct cordon_run *run, const struct cordon_policy *policy, int level,
		 struct cordon_error *err);
/* init has been sent its descriptors. */
void gateway_delivered(struct run_gateway *gateway);
/* Starts the process, opens the published ports and sends both. If this fails, the command does not
 * start: init waits for the gateway. */
int gateway_start(struct cordon_run *run, struct cordon_error *err);
/* Notices if it has ended. */
void gateway_check(struct cordon_run *run);
/* The tree is gone: the gateway ends, too, once what the command has sent has gone out. 1 when it
 * has ended, 0 = look again. */
int gateway_end(struct cordon_run *run);
/* Closes everything; one that is still running is killed. */
void gateway_done(struct cordon_launcher *launcher, struct run_gateway *gateway);
/* Why the gateway failed, for a run whose set-up failed; 0 = it did not say. */
int gateway_error(const struct cordon_run *run, struct cordon_error *err);
/* Bytes and refusals, into the result. */
void gateway_account(struct cordon_run *run);
/* While it runs: what it has refused so far. */
uint32_t gateway_n_refusals(const struct cordon_run *run);
/* How often it has refused this, 0 = never; @ret may be NULL, its strings are in @arena. */
uint32_t gateway_refusal(const struct cordon_run *run, uint32_t i, struct arena *arena,
			 struct cordon_denial *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Parked inits that go from a pool to another process (offer.c). */
#ifndef LAUNCH_OFFER_H
#define LAUNCH_OFFER_H

#include <stdbool.h>

#include "launch/launch.h"

struct mould;

#define OFFER_PROOF_MAX 96

/* What only a process that may look into ours can read: the name of a memory file. */
struct offer_proof {
	int fd; /* -1 = none */
	char name[OFFER_PROOF_MAX];
};

/* Makes one: 0 or -errno. */
int offer_proof_make(struct offer_proof *ret);

/* Reads what a process asks on @socket_fd and whether it may have an init of @mould: 0, or why not.
 * Never waits. */
struct offer_request {
	pid_t pid;
	char proof[OFFER_PROOF_MAX]; /* of that process, read by us */
};

const char *offer_check(int socket_fd, const struct offer_proof *own, const struct mould *mould,
			struct offer_request *ret);
/* Sends @parked, or NULL and why there is none. 0 or -errno. */
int offer_send(int socket_fd, const struct offer_request *request, const struct parked *parked,
	       const char *why);

/* Has the init's new supervisor, which is this process, been accepted? Waits for a moment. */
bool offer_is_adopted(const struct spawned *init);

#endif

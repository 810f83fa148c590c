/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's service on disk: two files in the directory of sessions (base/session_place.h), which
 * only its user can open and which every run hides from its command. `.pool` is locked by the
 * process that serves, by which others know its number, and tells about it: a line with the number
 * that a client needs, then JSON. `.pool.sock` is its socket. Names of sessions begin with no dot.
 */
#ifndef CMD_CORDON_POOL_PLACE_H
#define CMD_CORDON_POOL_PLACE_H

#include <sys/types.h>

#include <cordon/error.h>

#include "base/strbuf.h"

struct pool_place {
	int dir_fd, file_fd;
};

#define POOL_PLACE_INIT { -1, -1 }

/* Takes the place for this process; *ret_listen_fd: the socket, listening and not blocking. */
int pool_claim(struct pool_place *ret, int *ret_listen_fd, struct cordon_error *err);
/* Removes both files. */
void pool_unclaim(struct pool_place *place);
/* What others read: @proof, and @json. */
int pool_tell(const struct pool_place *place, int proof, const char *json);

/* A connection to the service, and its number; -1: there is none. Never waits, and says nothing. */
int pool_connect(int *ret_proof);
/* The process that serves, or 0; *ret_json (may be NULL) what it tells. Removes the files of one
 * that was killed. */
pid_t pool_find(struct strbuf *ret_json);
/* Has the process the memory file that pools of this library prove themselves with? */
int pool_has_proof(pid_t pid);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The process that has a pool and gives parked inits to the commands of its user. */
#ifndef CMD_CORDON_POOL_SERVER_H
#define CMD_CORDON_POOL_SERVER_H

#include <stdint.h>

#include <cordon/cordon.h>

#include "pool_place.h"

struct pool_server {
	struct cordon_pool *pool;
	struct pool_place place;
	int listen_fd, signal_fd, proof;
	int64_t idle_ms; /* 0 = never */
	unsigned size;
};

/* Serves until it is told to end, or nobody came for so long. */
void pool_serve(struct pool_server *server);
/* What others are told. */
int pool_publish(const struct pool_server *server, int64_t started_ms);
int64_t pool_now_ms(void);

#endif

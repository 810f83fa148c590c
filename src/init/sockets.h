/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in the queues of sockets. */
#ifndef INIT_SOCKETS_H
#define INIT_SOCKETS_H

#include "init/init.h"

/* How many sockets the run's net namespace has; 0 without one. */
uint64_t sockets_count(struct init *in);
/* What @n of them hold at most. */
uint64_t sockets_most(uint64_t n);
/* What they do hold, or @most if the kernel does not tell. */
uint64_t sockets_bytes(struct init *in, uint64_t most);

#endif

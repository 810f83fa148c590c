/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in the queues of sockets. */
#ifndef INIT_WATCH_SOCKETS_H
#define INIT_WATCH_SOCKETS_H

#include "init/init.h"

/* Bytes in the queues of the sockets of the run; 0 without a net namespace of its own. */
uint64_t sockets_bytes(struct init *in);

#endif

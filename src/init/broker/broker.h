/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that init makes on the guest's behalf at level landlock, as the core sees them. All
 * of it does nothing at the other level. Theory of operation: broker.c.
 */
#ifndef INIT_BROKER_BROKER_H
#define INIT_BROKER_BROKER_H

#include "init/init.h"

long broker_prepare(struct init *in); /* before the command's process is made */
/* In a session's command, before anything else: its end of the socket gets a number from @least on.
 */
long broker_move(int least);
int broker_socket(void); /* where that process sends its listener, -1 = nowhere */
/* fd.c: by that process, its last act but exec. */
long broker_send_fd(int socket_fd, int fd);
void broker_release(void); /* once that process has sent it */
void broker_stop(void);	   /* returns when nothing will be changed any more */

#endif

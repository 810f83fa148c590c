/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_NET_PROXY_H
#define LAUNCH_NET_PROXY_H

#include <stdint.h>

struct cordon_error;

/* Level landlock: the listener on 127.0.0.1 that init gets (CONTROL_NET_PROXY), on a port of the
 * kernel's choice. The caller closes *ret_fd once init has it. */
int net_proxy_listen(int *ret_fd, uint16_t *ret_port, struct cordon_error *err);

#endif

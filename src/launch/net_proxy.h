/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_NET_PROXY_H
#define LAUNCH_NET_PROXY_H

#include <stdint.h>

struct cordon_error;

/* Level landlock: a port of 127.0.0.1, of the kernel's choice. ret_fds[0]: the socket that init
 * gets (CONTROL_NET_PROXY); the caller closes it once init has it. ret_fds[1] keeps the port from
 * others for as long as it is open. */
int net_proxy_bind(int ret_fds[2], uint16_t *ret_port, struct cordon_error *err);

#endif

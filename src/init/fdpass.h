/* SPDX-License-Identifier: Apache-2.0 */
/* Sending descriptors over a socket. */
#ifndef INIT_FDPASS_H
#define INIT_FDPASS_H

#include <stddef.h>
#include <stdint.h>

/* One message with up to 100 descriptors; does not wait for room. 0 or -errno. */
long pass_fds(int socket_fd, const void *data, size_t len, const int *fds, uint32_t n_fds);

#endif

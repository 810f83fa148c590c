/* SPDX-License-Identifier: Apache-2.0 */
/* What `cordon run` does about the network besides its policy. */
#ifndef CMD_NETWORK_H
#define CMD_NETWORK_H

#include <cordon/cordon.h>

#define PUBLISHED_LINE_MAX 128

/* Where the first of the @n at @p is on the host, as a line without an end. How many it is about:
 * two if tcp and udp have the same port. */
size_t network_published(const struct cordon_published *p, size_t n, char ret[PUBLISHED_LINE_MAX]);
/* Says where published ports are on the host, since they may have been picked. @is_raw: the
 * terminal is raw. */
void network_say_published(const struct cordon_run *run, int is_raw);
/* --net-log: opens it to append. */
int network_open_log(const char *path, int *ret_fd, struct cordon_error *err);

#endif

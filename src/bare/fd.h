/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors, for code without libc. */
#ifndef BARE_FD_H
#define BARE_FD_H

void close_fd(long fd); /* below 0: none, or an error in its place */
void drop_fd(int *fd);	/* the same; it is -1 afterwards */

#endif

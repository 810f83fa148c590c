/* SPDX-License-Identifier: Apache-2.0 */
/* Putting aside: something gets another name after a run, under which git does not see it. */
#ifndef GIT_PUT_ASIDE_H
#define GIT_PUT_ASIDE_H

#include <stddef.h>

/* Gives @name in @dir_fd another one; @suffix receives what was added. 0 or -errno. */
int git_put_aside(int dir_fd, const char *name, char *suffix, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolic links inside a repository's own directory. */
#ifndef GIT_LINKS_H
#define GIT_LINKS_H

#include <time.h>

/* Calls @found for each symbolic link in a repository's own directory that has appeared since, with
 * its directory, its name there and its path relative to the repository. */
void git_links_search(int git_fd, const struct timespec *since,
		      void (*found)(void *ctx, int dir_fd, const char *name, const char *path),
		      void *ctx);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Putting aside: something gets another name after a run, under which git does not see it. */
#ifndef GIT_PUT_ASIDE_H
#define GIT_PUT_ASIDE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* A directory that is opened to us for a moment, if the command has closed it. */
struct git_opened {
	int fd;
	mode_t mode; /* what it was, 0 = it is left alone */
};

void git_open_dir(struct git_opened *dir);
void git_close_dir(const struct git_opened *dir);

/* Moves @name from @dir_fd to @to_fd, which may be the same, under a name that nothing has yet;
 * @aside receives it. Directories that the command has closed to us are opened for a moment. 0 or
 * -errno. */
int git_put_aside(int dir_fd, const char *name, int to_fd, char aside[NAME_MAX + 1]);

/* Whether a name looks like one that was given by putting aside. Git knows none of these. */
bool git_is_aside(const char *name);

#endif

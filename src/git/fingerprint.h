/* SPDX-License-Identifier: Apache-2.0 */
/* Which repository git would use in a directory, and the state of what it would obey there. */
#ifndef GIT_FINGERPRINT_H
#define GIT_FINGERPRINT_H

#include <stdbool.h>
#include <time.h>

#include "base/strbuf.h"

#define GIT_STEPS_MAX 400000 /* files looked at, all in all */

/* How much has been looked at, and the last change that was seen. */
struct git_effort {
	unsigned long steps;
	struct timespec newest;
};

struct git_fingerprint {
	int git_fd;	     /* O_PATH, the repository; owned */
	struct strbuf files; /* identity and time of change of each file it obeys */
	size_t own_len;	     /* of that: `.git` and the repository; the rest is what configs name */
	struct timespec newest; /* the last change of any of them, and of the directories */
};

#define GIT_FINGERPRINT_INIT { -1, STRBUF_INIT, 0, { 0, 0 } }

/* -E2BIG beyond GIT_STEPS_MAX. */
int git_count_step(struct git_effort *effort);
bool git_is_later(const struct timespec *a, const struct timespec *b);

/* @home: the user's, whose git config counts as well; NULL = none. 1 = git would enter the
 * directory, 0 = it would not, -errno = that cannot be told. */
int git_fingerprint_take(int dir_fd, const char *home, struct git_fingerprint *ret,
			 struct git_effort *effort);
void git_fingerprint_done(struct git_fingerprint *fp);

#endif

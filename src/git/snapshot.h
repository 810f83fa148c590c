/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories before and after a run.
 *
 * Mounts keep the guest from changing what git at the top of a grant obeys. Two things no mount can
 * prevent: repositories inside the work tree that the index names (git/nested.h), and what the
 * guest leaves in the repository's own directory, where git has to write (git/inside.h). So a
 * snapshot is taken before the run. When its tree is gone, what is new or changed, and could make
 * git do something for the guest, is put aside. If that cannot be found out, or not be done, the
 * whole repository is put out of git's reach.
 */
#ifndef GIT_SNAPSHOT_H
#define GIT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "git/nested.h"

enum git_finding_kind {
	GIT_FOUND_NESTED,     /* a repository inside the work tree; its .git is put aside */
	GIT_FOUND_PIPE,	      /* in the work tree, where git would open it */
	GIT_FOUND_INDEX,      /* an index that git did not write */
	GIT_FOUND_LINK,	      /* a symbolic link inside the repository's own directory */
	GIT_FOUND_FILE,	      /* anything else there that is not allowed */
	GIT_FOUND_REPOSITORY, /* all of it, since it could not be checked */
};

struct git_finding {
	enum git_finding_kind kind;
	const struct git_repo *repo;
	/* What was there, and where it is now (NULL = still there): relative to the work tree
	 * (NESTED, PIPE, REPOSITORY) or to the repository's own directory. */
	const char *path, *aside;
	/* REPOSITORY: -errno, and the path that it is about, relative to the repository's own
	 * directory or its work tree; NULL = all of it. */
	int error;
	const char *about;
};

struct git_snapshot;

/* When a run began, as far as a repository is concerned. */
struct git_since {
	struct timespec at;
	bool is_shared; /* it is not this run's start, but that of others that go on */
};

/* Before the run; @since: one for each. 0 or -errno, and *failed is the repository: -EINVAL or
 * -EFBIG for an index that cannot be understood, -E2BIG if there is too much to look at. */
int git_snapshot_take(const struct git_repo *repos, const struct git_since *since, size_t n,
		      struct git_snapshot **ret, size_t *failed);
/* After it: puts aside what has changed and calls @found for each, with a finding that is valid
 * during the call. @back: nanoseconds by which the clock was set back during the run. */
void git_snapshot_check(struct git_snapshot *snapshot, const struct git_repo *repos, size_t n,
			long long back, void (*found)(void *ctx, const struct git_finding *finding),
			void *ctx);
void git_snapshot_free(struct git_snapshot *snapshot);

#endif

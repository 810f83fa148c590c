/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories inside a repository.
 *
 * An entry of the index with mode 160000 (a "gitlink", mostly a submodule) makes git at the top run
 * git in that directory as well, which obeys the config it finds there. No mount can keep a command
 * from making such a directory or entry. So a snapshot is taken before the run, and when its tree
 * is gone, every such repository that is new, or obeys something other than before, is put aside.
 */
#ifndef GIT_NESTED_H
#define GIT_NESTED_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* A repository whose index can name others inside its work tree. */
struct git_repo {
	int git_fd, work_fd;		/* O_PATH */
	const char *git_dir, *work_dir; /* for messages */
	const char *below;		/* only there can the run write; NULL = everywhere */
	bool has_safe_modules;		/* it cannot write to the repositories of submodules */
};

enum git_finding_kind {
	GIT_FOUND_NESTED, /* a repository inside the work tree; its .git is put aside */
	GIT_FOUND_INDEX,  /* an index that git did not write */
	GIT_FOUND_LINK,	  /* a symbolic link inside the repository's own directory */
};

struct git_finding {
	enum git_finding_kind kind;
	const struct git_repo *repo;
	const char *path; /* relative to the work tree (NESTED: of the directory) or git_dir */
	bool is_aside;	  /* it has been put aside; otherwise that failed */
	char suffix[32];  /* what was added to its name */
};

struct git_snapshot;

/* Before the run. 0 or -ENOMEM. */
int git_snapshot_take(const struct git_repo *repos, size_t n, struct git_snapshot **ret);
/* After it: puts aside what has changed and calls @found for each, with a finding that is valid
 * during the call. @since: when the run started. */
void git_snapshot_check(struct git_snapshot *snapshot, const struct git_repo *repos, size_t n,
			const struct timespec *since,
			void (*found)(void *ctx, const struct git_finding *finding), void *ctx);
void git_snapshot_free(struct git_snapshot *snapshot);

#endif

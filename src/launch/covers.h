/* SPDX-License-Identifier: Apache-2.0 */
/* Between covers.c and restore.c. */
#ifndef LAUNCH_COVERS_H
#define LAUNCH_COVERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/strbuf.h"
#include "plan/plan.h"

struct cordon_run;
struct cordon_error;

enum kept_kind {
	KEPT_CONFIG, /* of a repository: what is different in it is judged */
	KEPT_FILE,   /* any other file, which has to stay as it is */
	KEPT_DIR,
	KEPT_MISSING, /* a placeholder stands there */
};

/* A protected name that can be covered again, and what stood there. */
struct kept_name {
	enum kept_kind kind;
	struct plan_reserved name; /* its placeholder, too; `path` is the plan's */
	bool is_own_fd;		   /* name.dir_fd is ours, not the plan's */
	uint32_t step;		   /* of the plan, as in reports */
	struct strbuf first;	   /* what was in it when the run began */
	struct strbuf last;	   /* a config: ... and when it was last replaced */
	bool is_replaced;	   /* that was told */
	bool must_restore;
	int error;		     /* why: what is there cannot be covered: -errno */
	unsigned n_restored, n_held; /* since the tree was stopped: how often, and as -EBUSY */
	bool is_bare;		     /* it had no cover when the tree was gone */
	mode_t mode;
	uid_t uid;
	gid_t gid;
};

/* Notes what stands at a protected name that is no config. 1 = noted; 0 = it cannot be restored. */
int restore_keep(const struct cordon_run *run, const struct plan_op *op, struct kept_name *ret);
void restore_forget(struct kept_name *kept);

/* A file with the bytes of @text, for which put_aside() has made room. 0 or -errno. */
int restore_file(const struct kept_name *kept, const struct strbuf *text);
/* Is what stands at the name now, opened as @fd (-1 = a placeholder), what was there? */
bool restore_is_as_before(const struct kept_name *kept, int fd);
/* Puts aside what stands at the name, and lets the former state stand there again. 0 or -errno. */
int restore_name(struct cordon_run *run, struct kept_name *kept);
/* When the tree is gone: puts aside what came there in the last moment. */
void restore_at_end(struct cordon_run *run, const struct kept_name *kept);

#endif

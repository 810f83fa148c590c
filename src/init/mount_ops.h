/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a plan have in common (mount_ops.c), for those that have a file of their own.
 */
#ifndef INIT_MOUNT_OPS_H
#define INIT_MOUNT_OPS_H

#include "init/init.h"

/* Paths of the plan are absolute; below the new root they are relative to it. */
const char *below_root(const char *path);
/* Where to start for @path, and its name there: the new root, or a mount that another run could
 * rename. */
struct spot {
	int fd;
	const char *name;
};
struct spot spot_of(const struct init *in, const char *path); /* reused_dir.c */
/* Without links on the way or at its end, and inside the new root. */
long open_in_root(const struct init *in, const char *path);
/* The object of a step as a detached mount: the one that was passed, or a clone of the host's. */
long source_mount(struct init *in, const struct plan_op *op);
/* Covers an object by something that cannot be opened. The root is still writable. */
long cover_object(struct init *in, int object_fd, int is_dir);
/* Mounts an object over itself with the step's attributes, whatever its name is by now. */
long cover_by_itself(int object_fd, const struct plan_op *op);
/* Makes the mount point, if the step wants that. */
long make_point(const struct init *in, const struct plan_op *op);
/* Lets go of what was kept open for the next steps. */
void leave_pins(void);
/* Sets the mount's attributes, adds its Landlock rule and puts it at the step's place. */
long place_mount(struct init *in, int mount_fd, const struct plan_op *op);

/* Steps with PLAN_REUSED (reused_dir.c). */
long reused_make(const struct init *in, const struct plan_op *op, int is_file);
long reused_link(const struct init *in, const struct plan_op *op);
/* Remembers the mount that was just put there, until reused_done(), if more is to be done in it. */
long reused_keep(const struct init *in, const struct plan_op *op, int mount_fd);
void reused_done(void);

long op_upper(struct init *in, const struct plan_op *op);   /* overlay.c */
long op_overlay(struct init *in, const struct plan_op *op); /* overlay.c */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mould of parked inits: what they were made from and for. It is read once, and asked before
 * each use of one of them whether all of it is still so.
 */
#ifndef LAUNCH_MOULD_H
#define LAUNCH_MOULD_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "launch/launch.h"

struct mould {
	unsigned refs;	   /* guarded by the pool's lock */
	bool is_stale;	   /* the same: none of its inits may be used any more */
	int mounts_fd;	   /* polls for a change of the caller's mounts, which is told once */
	struct plan *plan; /* the common steps, and nothing else */
	struct shown *v;   /* the host's objects in these steps */
	size_t n;
	struct caller_state *caller;
	unsigned n_filters; /* caller.h */
};

/* Reads it. 0 or an error. */
int mould_make(struct cordon_launcher *launcher, const struct cordon_policy *policy,
	       const struct cordon_run_options *options, unsigned n_filters, struct mould **ret,
	       struct cordon_error *err);
void mould_free(struct mould *mould);

/* A descriptor that polls for a change of the caller's mounts from now on; or -errno. */
int mould_watch_mounts(void);
/* Have the caller's mounts changed since this was last asked? To be asked under a lock. */
bool mould_mounts_changed(const struct mould *mould);
/* Is all the rest as it was, for the calling thread? May be asked by several threads at once. */
bool mould_is_same(const struct mould *mould);
/* Has @init, which was just made, inherited what the mould says? */
bool mould_fits(const struct mould *mould, const struct spawned *init);
/* Has the calling thread the Landlock domain that @init was made with? */
bool mould_is_open(const struct spawned *init);
/* Has it neither ended nor reported anything, which a parked init does only if it has failed? */
bool init_is_waiting(const struct spawned *init);

/*
 * The mould for another process that runs the same program: what mould_is_same() needs there. Its
 * size is what was appended to @sb, whose `failed` is set if there is no memory.
 */
void mould_write(const struct mould *mould, struct strbuf *sb);
/* Such a mould; NULL if these bytes are none, or there is no memory. @mounts_fd is its own. */
struct mould *mould_read(const char *data, size_t size, int mounts_fd);

/* A copy of the mould's common steps, for an init that is made from it. NULL = out of memory. */
struct plan *mould_plan(const struct mould *mould);

#endif

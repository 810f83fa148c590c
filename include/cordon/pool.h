/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes made ahead.
 *
 * Most of a start does not depend on the command: namespaces, the system part of the view, the
 * loopback device. A pool has inits that have done this already and wait for the rest (parked
 * inits). A run takes one if that is exactly what its own policy asks for, and is started as by
 * cordon_run_start() if not; the outcome is the same. Each parked init serves one run. No sandbox
 * in which a command ran is ever used again.
 *
 * Make a pool after the program has changed its ids, limits and mounts: a parked init has those of
 * the moment at which it was made. Before one is used, the library compares with what the calling
 * thread has now (ids, groups, capabilities, filters, Landlock, resource limits, umask, scheduling,
 * control group, namespaces, root directory), with the mounts, and with the host's directories and
 * files in the view. If anything is different, all parked inits are thrown away and the run is
 * started cold. So nothing is used that a new sandbox would not have. One thread must not change
 * the process's ids while another one uses a pool.
 *
 * Threads: a pool may be used by any number of threads at once. Fork: a forked child must not use
 * its parent's pool; cordon_pool_free() there closes its descriptors and leaves the inits alone.
 * Parked inits die with the process that made them, however that ends.
 *
 * Level landlock has nothing to make ahead: there all runs are cold.
 */
#ifndef CORDON_POOL_H
#define CORDON_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>
#include <cordon/policy.h>
#include <cordon/run.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define CORDON_POOL_MAX 256

struct cordon_pool;

enum cordon_refill {
	/* cordon_run_free() of a run of this pool makes what is missing: after the result, and in
	 * the thread that frees the run. It takes about half a millisecond for each. */
	CORDON_REFILL_AT_FREE = 0,
	CORDON_REFILL_BY_HAND, /* only cordon_pool_refill() does */
};

struct cordon_pool_options {
	size_t size;	    /* sizeof(struct cordon_pool_options); set by the INIT macro */
	unsigned parked;    /* how many inits wait, 1 to CORDON_POOL_MAX; 0 = 2 */
	int refill;	    /* enum cordon_refill */
	int64_t max_age_ms; /* an older init is not used; 0 = 5 minutes, -1 = any age will do */
};

#define CORDON_POOL_OPTIONS_INIT { .size = sizeof(struct cordon_pool_options) }

/** What became of the pool's runs so far. Fields may be added at the end. */
struct cordon_pool_stats {
	unsigned parked;  /* inits that wait now */
	uint64_t warm;	  /* runs that had a parked init */
	uint64_t cold;	  /* runs that had none, for whatever reason; among them: */
	uint64_t misfits; /* the run's view begins with something else */
	uint64_t stale;	  /* the caller or the host's files have changed since */
	uint64_t made;	  /* inits that were parked in all */
	uint64_t dropped; /* of these: thrown away unused */
};

/**
 * Makes a pool and parks its first inits. Free it with cordon_pool_free().
 *
 * Runs of @policy with options like @base find an init that fits. Of the options count `argv[0]`
 * and what it is found by, `envp`, `cwd` and `home`; `terminal` and `net.allow` change the common
 * part; of `private_dir`, whether there is one. What else a run may say differs from run to run:
 * command, variables, limits except limits.disk, grants of other places than the system's
 * directories, code_dir, the private directory's path, workspaces, streams.
 *
 * @options may be NULL. @policy and @base are copied. If nothing can be parked on this machine,
 * this is no error: every run is cold then. The launcher must outlive the pool.
 */
int cordon_pool_new(struct cordon_launcher *launcher, const struct cordon_policy *policy,
		    const struct cordon_run_options *base,
		    const struct cordon_pool_options *options, struct cordon_pool **ret,
		    struct cordon_error *err);

/** The same as cordon_run_start(), with a parked init if one fits. @policy NULL = the pool's. */
int cordon_pool_start(struct cordon_pool *pool, const struct cordon_policy *policy,
		      const struct cordon_run_options *options, struct cordon_run **ret,
		      struct cordon_error *err);

/** Throws away what is too old or has failed, and parks what is missing. Returns how many were
 * made; an error if one could not be. Does not wait until they are ready. */
int cordon_pool_refill(struct cordon_pool *pool, struct cordon_error *err);

void cordon_pool_stats(struct cordon_pool *pool, struct cordon_pool_stats *ret);

/*
 * A pool for other processes. A program that makes one pool may serve those that each make one run,
 * such as commands: they connect to a socket of it (SOCK_SEQPACKET) and get a parked init, whose
 * supervisor they are from then on. Nothing of their run is the pool's. They must be processes of
 * the same user that execute the same file and have all that an init inherits in common with the
 * process that has the pool, and neither of the two may have system call filters or be more
 * confined by Landlock than the other. Who does not fit is started cold.
 */

/** Makes the pool one for other processes. Returns the number that they need to know, which is no
 * secret; or an error. */
int cordon_pool_share(struct cordon_pool *pool, struct cordon_error *err);

/** A descriptor that is readable when an init that was handed over has ended: then
 * cordon_pool_refill() collects it. -1 if the pool is not shared. */
int cordon_pool_fd(const struct cordon_pool *pool);

/** Answers who has sent a request on @socket_fd, a connection of his own that does not block. Close
 * it then. 1: he has an init of the pool; 0: he has none, or is told why not. Never waits. */
int cordon_pool_offer(struct cordon_pool *pool, int socket_fd, struct cordon_error *err);

/** The same as cordon_run_start(), with an init of another process's pool if one fits. @socket_fd
 * is a connection to that, which the caller closes; @proof the number from cordon_pool_share().
 * Waits a second for an answer at most. What is wrong with the pool is no error: the run is cold
 * then. */
int cordon_run_start_offered(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			     const struct cordon_run_options *options, int socket_fd, int proof,
			     struct cordon_run **ret, struct cordon_error *err);

/** Why a run has no parked init, in words; NULL if it has. Valid as long as the run. */
const char *cordon_run_why_cold(const struct cordon_run *run);

/** Ends all parked inits. Runs that were started go on. Not while another thread uses the pool.
 * NULL is fine. */
void cordon_pool_free(struct cordon_pool *pool);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

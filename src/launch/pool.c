/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of parked inits (cordon/pool.h).
 *
 * Should: hand out an init only once, and only if a new one would be the same. Mustn't: make a
 * start fail that would succeed without the pool, keep a lock while an init is made, or touch the
 * inits of another process.
 *
 * Theory of operation. The inits of a pool come from one mould (mould.h). cordon_pool_start() takes
 * the oldest, which is the most likely to be ready, and the run goes on as any other: it plans,
 * compares the common steps with the init's, and hands over the rest with the order to wait. While
 * init builds the view, the mould is asked whether all is as it was (pool_may_use()), which costs
 * as much as a tenth of the start and would be in its way before. Only then comes the order to
 * start the command. If the answer is no, nothing has run: the mould and all its inits go, and the
 * run begins again without. The next refill makes a new mould.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/caller.h"
#include "launch/launch.h"
#include "launch/mould.h"
#include "launch/offer.h"
#include "launch/pool.h"
#include "sys/calls.h"

#define HANDED_MAX 1024 /* runs of others at once; further ones are cold */
#define DEFAULT_PARKED 2
#define DEFAULT_AGE_MS (5 * 60 * 1000)

struct cordon_pool {
	struct cordon_launcher *launcher;
	struct cordon_policy *policy;
	struct cordon_run_options options;
	struct arena arena; /* what the options point to */
	unsigned size;
	int refill;
	uint64_t max_age_ns; /* 0 = any age will do */
	unsigned n_filters;  /* system call filters that all threads have alike (caller.h) */

	struct offer_proof proof; /* of a pool that others take inits from (offer.c) */
	int epoll_fd;		  /* with the inits that they took; -1 = there are no others */

	pthread_mutex_t lock; /* protects what follows */
	unsigned refs;	      /* the caller's, and one for each run */
	bool is_closed;
	struct mould *mould;		  /* NULL = to be made */
	bool is_doubtful;		  /* a run did not fit: the host's files may be the cause */
	struct parked v[CORDON_POOL_MAX]; /* the oldest first */
	unsigned n, n_coming;		  /* n_coming: being made */
	struct cordon_pool_stats stats;
	int handed[HANDED_MAX]; /* pidfds of inits that others have: their exit is ours to collect
				 */
	unsigned n_handed;
};

/* --- under the lock ----------------------------------------------------------------------- */

static void unref_mould(struct mould *m)
{
	if (m && --m->refs == 0)
		mould_free(m);
}

/* A list of what to end once the lock is released: that may take a moment. Only `n` is set at
 * first: it is large. */
struct leaving {
	struct parked v[CORDON_POOL_MAX];
	unsigned n;
};

static void leave(struct cordon_pool *p, unsigned i, struct leaving *leaving)
{
	unref_mould(p->v[i].mould);
	p->v[i].mould = NULL;
	leaving->v[leaving->n++] = p->v[i];
	memmove(&p->v[i], &p->v[i + 1], (--p->n - i) * sizeof(p->v[0]));
	p->stats.dropped++;
}

static void drop_mould(struct cordon_pool *p, struct leaving *leaving)
{
	while (p->n > 0)
		leave(p, p->n - 1, leaving);
	if (p->mould)
		p->mould->is_stale = true;
	unref_mould(TAKE_PTR(p->mould));
	p->is_doubtful = false;
}

/* It is too old, has failed or was killed. */
static bool is_useless(const struct cordon_pool *p, const struct parked *parked, uint64_t now)
{
	return (p->max_age_ns && now - parked->made_ns > p->max_age_ns) ||
	       !init_is_waiting(&parked->spawned);
}

static void drop_useless(struct cordon_pool *p, struct leaving *leaving)
{
	uint64_t now = clock_ns();

	for (unsigned i = p->n; i > 0; i--)
		if (is_useless(p, &p->v[i - 1], now))
			leave(p, i - 1, leaving);
}

/* --- the end of inits ----------------------------------------------------------------------- */

static void end_leaving(struct cordon_pool *p, struct leaving *leaving)
{
	for (unsigned i = 0; i < leaving->n; i++)
		parked_done(p->launcher, &leaving->v[i]);
}

/* Without the lock. */
static void unref(struct cordon_pool *p, unsigned refs)
{
	if (refs > 0)
		return;
	pthread_mutex_destroy(&p->lock);
	while (p->n_handed > 0)
		close(p->handed[--p->n_handed]);
	if (p->proof.fd >= 0)
		close(p->proof.fd);
	if (p->epoll_fd >= 0)
		close(p->epoll_fd);
	cordon_policy_free(p->policy);
	arena_done(&p->arena);
	free(p);
}

static bool is_copy(const struct cordon_pool *p)
{
	return p->launcher->pid != getpid();
}

/*
 * In a forked child: the inits, and the lock's state, are the parent's. Another thread may have
 * been changing the list in the moment of the fork, and runs here still know the pool. So
 * descriptors are closed, which is harmless, and the memory stays.
 */
static void close_copy(const struct cordon_pool *p)
{
	for (unsigned i = 0; i < p->n && i < CORDON_POOL_MAX; i++) {
		close(p->v[i].spawned.ctl_fd);
		close(p->v[i].spawned.pid_fd);
	}
	if (p->mould)
		close(p->mould->mounts_fd);
	for (unsigned i = 0; i < p->n_handed && i < HANDED_MAX; i++)
		close(p->handed[i]);
	if (p->proof.fd >= 0) {
		close(p->proof.fd);
		close(p->epoll_fd);
	}
}

void cordon_pool_free(struct cordon_pool *p)
{
	struct leaving leaving;
	unsigned refs;

	leaving.n = 0;
	if (!p)
		return;
	if (is_copy(p)) {
		close_copy(p);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->is_closed = true;
	drop_mould(p, &leaving);
	pthread_mutex_unlock(&p->lock);
	end_leaving(p, &leaving);
	/* Last: from here on another thread, which frees a run, may free the pool. */
	pthread_mutex_lock(&p->lock);
	refs = --p->refs;
	pthread_mutex_unlock(&p->lock);
	unref(p, refs);
}

/* --- making inits --------------------------------------------------------------------------- */

static bool can_park(const struct cordon_pool *p)
{
	return p->policy->isolation != CORDON_LEVEL_LANDLOCK &&
	       !__atomic_load_n(&p->launcher->no_namespaces, __ATOMIC_RELAXED);
}

/* Whether the host's files make other common steps than they did. */
static bool plans_alike(const struct mould *a, const struct mould *b)
{
	return plan_has_common(a->plan, b->plan);
}

/* Makes sure that there is a mould, and that it is as a new one would be. */
static int renew_mould(struct cordon_pool *p, struct leaving *leaving, struct cordon_error *err)
{
	struct mould *made, *old;
	bool is_doubtful;
	int r;

	pthread_mutex_lock(&p->lock);
	if (p->mould && mould_mounts_changed(p->mould))
		drop_mould(p, leaving);
	old = p->mould;
	is_doubtful = p->is_doubtful;
	if (old)
		old->refs++;
	pthread_mutex_unlock(&p->lock);
	if (old && !is_doubtful && mould_is_same(old)) {
		pool_forget(p, old);
		return 0;
	}
	r = mould_make(p->launcher, p->policy, &p->options, p->n_filters, &made, err);
	pthread_mutex_lock(&p->lock);
	if (r == 0 && old && old == p->mould && plans_alike(old, made) && mould_is_same(old)) {
		p->is_doubtful = false;
		mould_free(made);
	} else if (p->mould == old && !p->is_closed) {
		drop_mould(p, leaving);
		p->mould = r == 0 ? made : NULL;
		if (p->mould)
			p->mould->refs = 1;
	} else if (r == 0) {
		mould_free(made); /* another thread was faster, or the pool is closed */
	}
	unref_mould(old);
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* Makes one: 1, 0 if none is missing, or an error. */
static int make_one(struct cordon_pool *p, struct leaving *leaving, struct cordon_error *err)
{
	struct parked made = PARKED_INIT;
	int r;

	pthread_mutex_lock(&p->lock);
	if (p->is_closed || !p->mould || p->n + p->n_coming >= p->size) {
		pthread_mutex_unlock(&p->lock);
		return 0;
	}
	made.plan = mould_plan(p->mould);
	made.mould = p->mould;
	made.mould->refs++;
	p->n_coming++;
	pthread_mutex_unlock(&p->lock);
	r = made.plan ? park(p->launcher, &made, err)
		      : cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	pthread_mutex_lock(&p->lock);
	p->n_coming--;
	if (r == 0)
		p->stats.made++;
	if (r == 0 && !p->is_closed && made.mould == p->mould) {
		p->v[p->n++] = made;
		made = (struct parked)PARKED_INIT;
		r = 1;
	} else {
		/* A mould that is stale by now, or the pool is closed. */
		p->stats.dropped += r == 0;
		unref_mould(TAKE_PTR(made.mould));
		leaving->v[leaving->n++] = made;
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

static int refill(struct cordon_pool *p, struct cordon_error *err)
{
	struct leaving leaving;
	int made = 0, r = 0;
	bool is_full;

	leaving.n = 0;
	if (!can_park(p))
		return 0;
	pthread_mutex_lock(&p->lock);
	drop_useless(p, &leaving);
	is_full = p->n + p->n_coming >= p->size && !p->is_doubtful;
	pthread_mutex_unlock(&p->lock);
	end_leaving(p, &leaving);
	if (is_full)
		return 0;
	leaving.n = 0;
	r = renew_mould(p, &leaving, err);
	end_leaving(p, &leaving);
	leaving.n = 0;
	while (r == 0) {
		r = make_one(p, &leaving, err);
		if (r <= 0)
			break;
		made++;
		r = 0;
	}
	end_leaving(p, &leaving);
	return r < 0 ? r : made;
}

/* Those that have ended. */
static void collect_handed(struct cordon_pool *p)
{
	pthread_mutex_lock(&p->lock);
	for (unsigned i = p->n_handed; i > 0; i--) {
		siginfo_t info = { .si_pid = 0 };

		if (waitid(P_PIDFD, (id_t)p->handed[i - 1], &info, WEXITED | WNOHANG | __WALL) ==
			    0 &&
		    info.si_pid == 0)
			continue;
		close(p->handed[i - 1]);
		p->handed[i - 1] = p->handed[--p->n_handed];
	}
	pthread_mutex_unlock(&p->lock);
}

int cordon_pool_refill(struct cordon_pool *p, struct cordon_error *err)
{
	if (!p)
		return cordon_err(err, CORDON_E_USAGE, 0, "a pool must be given");
	if (is_copy(p))
		return cordon_err(err, CORDON_E_STATE, 0,
				  "this pool belongs to the process before fork");
	collect_handed(p);
	return refill(p, err);
}

static int take_options(struct cordon_pool *p, const struct cordon_pool_options *given,
			struct cordon_error *err)
{
	struct cordon_pool_options o = CORDON_POOL_OPTIONS_INIT;

	if (given && (given->size < sizeof(size_t) || given->size > sizeof(o)))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	if (given)
		memcpy(&o, given, given->size);
	if (o.parked > CORDON_POOL_MAX)
		return cordon_err(err, CORDON_E_USAGE, 0, "a pool has at most %d parked inits",
				  CORDON_POOL_MAX);
	if (o.refill != CORDON_REFILL_AT_FREE && o.refill != CORDON_REFILL_BY_HAND)
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no refill %d", o.refill);
	if (o.max_age_ms < -1 || o.max_age_ms > INT64_MAX / 1000000)
		return cordon_err(err, CORDON_E_USAGE, 0, "max_age_ms is out of range");
	p->size = o.parked ? o.parked : DEFAULT_PARKED;
	p->refill = o.refill;
	if (o.max_age_ms >= 0)
		p->max_age_ns = (uint64_t)(o.max_age_ms ? o.max_age_ms : DEFAULT_AGE_MS) * 1000000u;
	return 0;
}

static int take_base(struct cordon_pool *p, const struct cordon_policy *policy,
		     const struct cordon_run_options *base, struct cordon_error *err)
{
	if (base->size < sizeof(size_t) || base->size > sizeof(p->options))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	memcpy(&p->options, base, base->size);
	p->options.size = sizeof(p->options);
	/* A run's own, and not there any more when the next init is made. */
	p->options.code_dir = NULL;
	p->options.net_log_fd = 0;
	p->options.image_fd = 0;
	p->options.workspace_progress = NULL;
	p->options.workspace_arg = NULL;
	p->options.in = p->options.out = p->options.err = (struct cordon_stream){ 0 };
	if (!p->options.files &&
	    (!p->options.argv || !p->options.argv[0] || !p->options.argv[0][0]))
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no command to run");
	if (run_options_keep(&p->arena, &p->options) < 0)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return cordon_policy_copy(policy, &p->policy, err);
}

int cordon_pool_new(struct cordon_launcher *launcher, const struct cordon_policy *policy,
		    const struct cordon_run_options *base,
		    const struct cordon_pool_options *options, struct cordon_pool **ret,
		    struct cordon_error *err)
{
	struct cordon_pool *p;
	int r;

	if (!launcher || !policy || !base || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "launcher, policy and options of the runs must be given");
	if (launcher->pid != getpid())
		return cordon_err(err, CORDON_E_STATE, 0,
				  "this launcher belongs to the process before fork");
	p = calloc(1, sizeof(*p));
	if (!p)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	p->launcher = launcher;
	p->n_filters = launcher->n_filters;
	p->refs = 1;
	p->proof.fd = p->epoll_fd = -1;
	pthread_mutex_init(&p->lock, NULL);
	r = take_options(p, options, err);
	if (r == 0)
		r = take_base(p, policy, base, err);
	if (r < 0) {
		cordon_pool_free(p);
		return r;
	}
	/* A machine on which nothing can be parked: the runs say themselves what is the matter. */
	(void)refill(p, NULL);
	*ret = p;
	return 0;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* The oldest one that is fit for use. PARKED_INIT but for its pool if there is none. */
static struct parked take(struct cordon_pool *p)
{
	struct leaving leaving;
	struct parked taken = PARKED_INIT;
	uint64_t now = clock_ns();

	leaving.n = 0;
	pthread_mutex_lock(&p->lock);
	p->refs++; /* the run's */
	if (p->mould && mould_mounts_changed(p->mould)) {
		p->stats.stale++;
		drop_mould(p, &leaving);
	}
	while (p->n > 0 && is_useless(p, &p->v[0], now))
		leave(p, 0, &leaving);
	if (p->n > 0) {
		taken = p->v[0];
		memmove(&p->v[0], &p->v[1], --p->n * sizeof(p->v[0]));
	}
	pthread_mutex_unlock(&p->lock);
	taken.pool = p;
	end_leaving(p, &leaving);
	return taken;
}

int cordon_pool_start(struct cordon_pool *p, const struct cordon_policy *policy,
		      const struct cordon_run_options *options, struct cordon_run **ret,
		      struct cordon_error *err)
{
	struct parked parked = PARKED_INIT;
	struct cordon_run *run = NULL;
	bool is_warm;
	int r;

	if (!p || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0, "a pool must be given");
	if (is_copy(p))
		return cordon_err(err, CORDON_E_STATE, 0,
				  "this pool belongs to the process before fork");
	policy = policy ? policy : p->policy;
	if (policy->isolation == CORDON_LEVEL_LANDLOCK) {
		pthread_mutex_lock(&p->lock);
		p->refs++;
		pthread_mutex_unlock(&p->lock);
		parked.pool = p;
	} else {
		parked = take(p);
	}
	r = run_start_parked(p->launcher, &parked, policy, options, &run, err);
	if (r < 0)
		return r;
	is_warm = run->mould != NULL;
	pthread_mutex_lock(&p->lock);
	p->stats.warm += is_warm;
	p->stats.cold += !is_warm;
	pthread_mutex_unlock(&p->lock);
	*ret = run;
	return 0;
}

void pool_give_back(struct cordon_launcher *l, struct parked *parked)
{
	struct cordon_pool *p = parked->pool;

	/* It was handed over by another process, which does not take it back. */
	if (!p) {
		parked_done(l, parked);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->stats.misfits++;
	p->is_doubtful = true;
	/* One that was moved into a control group stays there. */
	if (!p->is_closed && parked->mould == p->mould && p->n + p->n_coming < p->size &&
	    parked->spawned.cgroup.dir_fd < 0) {
		memmove(&p->v[1], &p->v[0], p->n++ * sizeof(p->v[0]));
		p->v[0] = *parked;
		p->v[0].pool = NULL;
		*parked = (struct parked)PARKED_INIT;
	} else {
		p->stats.dropped++;
		unref_mould(TAKE_PTR(parked->mould));
	}
	pthread_mutex_unlock(&p->lock);
	parked_done(l, parked);
}

void pool_forget(struct cordon_pool *p, struct mould *mould)
{
	if (!mould)
		return;
	if (!p) {
		mould_free(mould); /* of an init that was handed over: nobody else has it */
		return;
	}
	if (is_copy(p))
		return;
	pthread_mutex_lock(&p->lock);
	unref_mould(mould);
	pthread_mutex_unlock(&p->lock);
}

bool pool_may_use(struct cordon_run *run)
{
	struct cordon_pool *p = run->pool;
	struct leaving leaving;
	bool may_use;

	leaving.n = 0;
	/* It has failed or was killed: that says nothing about the others. */
	if (!init_is_waiting(&run->spawned))
		return false;
	may_use = mould_is_open(&run->spawned) && mould_is_same(run->mould);
	if (!p)
		return may_use && !mould_mounts_changed(run->mould);
	pthread_mutex_lock(&p->lock);
	may_use = may_use && !run->mould->is_stale && !mould_mounts_changed(run->mould);
	if (!may_use) {
		p->stats.stale++;
		run->mould->is_stale = true;
		if (p->mould == run->mould)
			drop_mould(p, &leaving);
	}
	pthread_mutex_unlock(&p->lock);
	end_leaving(p, &leaving);
	return may_use;
}

void pool_run_freed(struct cordon_pool *p)
{
	unsigned refs;
	bool must_refill;

	if (!p || is_copy(p))
		return;
	pthread_mutex_lock(&p->lock);
	must_refill = p->refill == CORDON_REFILL_AT_FREE && !p->is_closed;
	pthread_mutex_unlock(&p->lock);
	if (must_refill)
		(void)refill(p, NULL); /* the next run is cold then */
	pthread_mutex_lock(&p->lock);
	refs = --p->refs;
	pthread_mutex_unlock(&p->lock);
	unref(p, refs);
}

void cordon_pool_stats(struct cordon_pool *p, struct cordon_pool_stats *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = p->stats;
	ret->parked = p->n;
	pthread_mutex_unlock(&p->lock);
}

/* --- for other processes ---------------------------------------------------------------------- */

int cordon_pool_share(struct cordon_pool *p, struct cordon_error *err)
{
	int r;

	if (!p)
		return cordon_err(err, CORDON_E_USAGE, 0, "a pool must be given");
	if (p->proof.fd >= 0)
		return p->proof.fd;
	r = p->epoll_fd = sys_epoll_create();
	if (r >= 0)
		r = offer_proof_make(&p->proof);
	if (r < 0) {
		p->proof.fd = -1;
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot share the pool");
	}
	return p->proof.fd;
}

int cordon_pool_fd(const struct cordon_pool *p)
{
	return p->epoll_fd;
}

/* The one to hand over next, which stays the pool's until it is gone. */
static const char *choose(struct cordon_pool *p, const struct mould *mould, struct parked *ret,
			  struct leaving *leaving)
{
	uint64_t now = clock_ns();

	if (p->mould && mould_mounts_changed(p->mould)) {
		p->stats.stale++;
		drop_mould(p, leaving);
	}
	while (p->n > 0 && is_useless(p, &p->v[0], now))
		leave(p, 0, leaving);
	if (p->n_handed == HANDED_MAX)
		return "the pool has too many runs";
	if (p->n == 0 || p->mould != mould)
		return "the pool has none ready";
	*ret = p->v[0];
	return NULL;
}

/* Under the lock. It is another process's now. */
static void let_go(struct cordon_pool *p)
{
	struct spawned *s = &p->v[0].spawned;

	close(s->ctl_fd);
	(void)sys_epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, s->pid_fd, EPOLLIN, 0);
	p->handed[p->n_handed++] = s->pid_fd;
	plan_free(p->v[0].plan);
	unref_mould(p->v[0].mould);
	memmove(&p->v[0], &p->v[1], --p->n * sizeof(p->v[0]));
	p->stats.warm++;
}

int cordon_pool_offer(struct cordon_pool *p, int socket_fd, struct cordon_error *err)
{
	struct offer_request request;
	struct leaving leaving;
	struct parked chosen;
	struct mould *mould;
	const char *why;
	bool is_handed;

	if (!p || p->proof.fd < 0 || is_copy(p))
		return cordon_err(err, CORDON_E_USAGE, 0, "this pool is not shared");
	leaving.n = 0;
	pthread_mutex_lock(&p->lock);
	mould = p->mould;
	if (mould)
		mould->refs++;
	pthread_mutex_unlock(&p->lock);
	memset(&request, 0, sizeof(request));
	why = mould ? offer_check(socket_fd, &p->proof, mould, &request)
		    : "the pool has none ready";
	pthread_mutex_lock(&p->lock);
	if (!why)
		why = choose(p, mould, &chosen, &leaving);
	is_handed = offer_send(socket_fd, &request, why ? NULL : &chosen, why) == 0 && !why;
	if (is_handed)
		let_go(p);
	else
		p->stats.cold++;
	unref_mould(mould);
	pthread_mutex_unlock(&p->lock);
	end_leaving(p, &leaving);
	return is_handed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits: what enforces each one on this machine, and the refusal where nothing does.
 *
 * The kernel enforces the limits of single processes (resource limits) and of the private
 * directories (the size of a tmpfs). Those of the whole tree are enforced by a cgroup where the
 * caller has one delegated, and otherwise by init's watch. At the CPU time limit init ends the run
 * in both cases; with a cgroup the kernel adds the time up.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/units.h"
#include "plan/plan_internal.h"
#include "policy/keys.h"

/* The view's own directories and files lie on the same tmpfs and are not the command's. */
#define VIEW_BYTES (64u << 10)
#define VIEW_INODES 1024u
#define BYTES_PER_INODE 4096u

/* For callers that set none. */
#define DEFAULT_WALL_MS 30000
#define DEFAULT_MEMORY ((uint64_t)256 << 20)

#define MS_PER_S 1000u

/* Queued signals and timers, some 500 bytes each; the kernel's own limit grows with the machine. */
#define SIGNALS_MAX 65536u

#define LIMIT_NAME_MAX 32

#define BY_CGROUP "cgroup"
#define BY_WATCH "watch"
#define BY_RLIMIT "rlimit"
#define BY_NOTHING "none"

static int enforce(struct build *b, const char *limit, const char *by)
{
	struct cordon_held *enforced = PLAN_ADD(b, enforced, n_enforced, cap_enforced);

	if (!enforced)
		return plan_nomem(b);
	enforced->limit = limit;
	enforced->by = by;
	return 0;
}

/* Nothing here can enforce @limit: a refusal, unless the policy accepts that. */
static int cannot_enforce(struct build *b, const char *limit, const char *why, const char *by)
{
	if (!strlist_has(&b->policy->best_effort, limit)) {
		char name[LIMIT_NAME_MAX];
		const struct policy_key *key;

		snprintf(name, sizeof(name), "limits.%s", limit);
		key = policy_key_find(name);
		cordon_err(b->err, CORDON_E_UNSUPPORTED, 0, "%s (--%s) cannot be enforced here: %s",
			   name, key ? key->flag : limit, why);
		return cordon_err_hint(b->err, "to run without it: --best-effort %s", limit);
	}
	return enforce(b, limit, by);
}

/* Anyone can lower a limit; only root can raise it. */
static void put_limit(struct plan_header *h, int resource, uint64_t value)
{
	struct plan_rlimit *limit = &h->rlimits[h->n_rlimits++];
	struct rlimit now;

	if (getrlimit(resource, &now) == 0 && now.rlim_max < value)
		value = now.rlim_max;
	limit->resource = (uint32_t)resource;
	limit->soft = limit->hard = value;
}

/* CPU time of the calling process and of each that it starts. What it has used before does not
 * count. At the limit it gets SIGXCPU, and a second later it is killed. */
static void limit_own_cpu(struct build *b, struct plan_header *h)
{
	struct plan_rlimit *limit = &h->rlimits[h->n_rlimits];
	struct rusage used = { 0 };
	uint64_t seconds;

	if (b->policy->cpu_time_ms <= 0)
		return;
	getrusage(RUSAGE_SELF, &used); /* cannot fail */
	seconds = ((uint64_t)b->policy->cpu_time_ms + MS_PER_S - 1) / MS_PER_S +
		  (uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec + 1;
	put_limit(h, RLIMIT_CPU, seconds + 1);
	if (seconds < limit->soft)
		limit->soft = seconds;
}

static int limit_procs(struct build *b, struct plan_header *h)
{
	struct plan_limits *l = &b->plan->limits;
	int is_asked = b->policy->procs >= 0, others;

	if (b->in->is_self)
		return enforce(b, "procs", BY_NOTHING);
	if (b->in->level == PLAN_LEVEL_NAMESPACES) {
		/* Counted for each user namespace since Linux 5.14; init is one of them. The
		 * cgroup, which keeps count of refusals, comes first where there is one. */
		put_limit(h, RLIMIT_NPROC, l->procs + 1 + b->in->has_cgroup);
		return enforce(b, "procs", b->in->has_cgroup ? BY_CGROUP : BY_RLIMIT);
	}
	if (b->in->has_cgroup)
		return enforce(b, "procs", BY_CGROUP);
	if (h->outer_uid == 0) {
		/* The kernel does not count root's tasks; init does, and ends what has too many. */
		l->end_at_procs = l->procs;
		if (is_asked)
			return cannot_enforce(b, "procs", "the run is root's, without namespaces",
					      BY_WATCH);
		return enforce(b, "procs", BY_WATCH);
	}
	others = probe_user_tasks(h->outer_uid, b->is_root);
	if (others < 0)
		return cordon_err(b->err, CORDON_E_SYSTEM, -others,
				  "cannot count the tasks of user %u", h->outer_uid);
	/* Init is one of a user's tasks; started by root it is going to be one. */
	put_limit(h, RLIMIT_NPROC, l->procs + (uint64_t)others + b->is_root);
	/* The count is one of all the user's tasks: if others end, more can be made. */
	l->end_at_procs = 2 * l->procs + 64;
	return enforce(b, "procs", BY_RLIMIT);
}

static int limit_disk(struct build *b, struct plan_header *h)
{
	const struct cordon_policy *p = b->policy;
	uint64_t bytes = (uint64_t)(p->disk_bytes >= 0 ? p->disk_bytes : POLICY_DEFAULT_DISK_BYTES);
	uint64_t steps = (2 * (uint64_t)b->n_steps + VIEW_INODES - 1) / VIEW_INODES * VIEW_INODES;

	if (b->in->workspace || b->in->private_dir) {
		b->plan->limits.workspace_bytes = bytes ? bytes : 1;
		b->plan->limits.workspace_inodes = bytes / BYTES_PER_INODE;
	}
	b->plan->limits.disk_bytes = bytes;
	/* Nothing limits the run's own temporary directory here, but the watch limits the workspace
	 * and the private directory. */
	if (b->in->level != PLAN_LEVEL_NAMESPACES && b->plan->limits.workspace_bytes)
		return enforce(b, "disk", BY_WATCH);
	if (b->in->level != PLAN_LEVEL_NAMESPACES)
		return p->disk_bytes < 0
			       ? enforce(b, "disk", BY_NOTHING)
			       : cannot_enforce(b, "disk",
						"level landlock has no file system of its own",
						BY_NOTHING);
	h->tmpfs_bytes = bytes + VIEW_BYTES;
	h->tmpfs_inodes = bytes / BYTES_PER_INODE + (steps > VIEW_INODES ? steps : VIEW_INODES);
	return enforce(b, "disk", b->plan->limits.workspace_bytes ? "tmpfs+watch" : "tmpfs");
}

/* What the policy says, or what the caller says for policies that do not; 0 = no limit. */
static uint64_t limit_or(int64_t set, int64_t standard, uint64_t ours)
{
	if (set >= 0)
		return (uint64_t)set;
	if (standard == 0)
		return ours;
	return standard < 0 ? 0 : (uint64_t)standard;
}

void plan_tree_limits(const struct plan_input *in, struct plan_limits *l)
{
	const struct cordon_policy *p = in->policy;

	l->procs = (uint64_t)(p->procs >= 0 ? p->procs : POLICY_DEFAULT_PROCS);
	l->memory_bytes =
		limit_or(p->memory_bytes, in->options->default_memory_bytes, DEFAULT_MEMORY);
	l->cpu_milli = p->cpu_milli > 0 ? (uint64_t)p->cpu_milli : 0;
	l->cpu_time_ms = p->cpu_time_ms > 0 ? (uint64_t)p->cpu_time_ms : 0;
}

bool plan_wants_cgroup(const struct plan_input *in, bool has_cpu)
{
	struct plan_limits l;

	plan_tree_limits(in, &l);
	return l.memory_bytes || l.cpu_time_ms || (l.cpu_milli && has_cpu) ||
	       strlist_has(&in->policy->require, "cgroup") ||
	       /* Nothing else counts root's tasks without namespaces. */
	       (in->level == PLAN_LEVEL_LANDLOCK && in->machine->uid == 0 &&
		in->policy->procs >= 0);
}

/* What only a cgroup or the watch can enforce: limits of the whole tree. */
static int limit_tree(struct build *b)
{
	const struct cordon_policy *p = b->policy;
	const struct cordon_run_options *o = b->in->options;
	const char *by = b->in->has_cgroup ? BY_CGROUP : BY_WATCH;
	struct plan_limits *l = &b->plan->limits;
	int r = 0;

	l->grace_ms = (uint64_t)(p->grace_ms >= 0 ? p->grace_ms : POLICY_DEFAULT_GRACE_MS);
	l->wall_ms = limit_or(p->wall_ms, o->default_wall_ms, DEFAULT_WALL_MS);
	if (l->wall_ms)
		r = enforce(b, "wall", BY_WATCH);
	if (r == 0 && l->memory_bytes)
		r = enforce(b, "memory", by);
	if (r == 0 && l->cpu_milli)
		r = enforce(b, "cpu", b->in->has_cgroup_cpu ? BY_CGROUP : BY_WATCH);
	if (r == 0 && l->cpu_time_ms)
		r = enforce(b, "cpu_time", by);
	return r;
}

int plan_build_limits(struct build *b, struct plan_header *h)
{
	const struct cordon_policy *p = b->policy;
	int r;

	/* Not 0: a core pattern with a pipe would still run its program then. */
	put_limit(h, RLIMIT_CORE, 1);
	put_limit(h, RLIMIT_NOFILE,
		  (uint64_t)(p->open_files >= 0 ? p->open_files : POLICY_DEFAULT_OPEN_FILES));
	if (p->file_size_bytes >= 0)
		put_limit(h, RLIMIT_FSIZE, (uint64_t)p->file_size_bytes);
	if (b->in->is_self)
		limit_own_cpu(b, h);
	else
		put_limit(h, RLIMIT_SIGPENDING, SIGNALS_MAX);
	plan_tree_limits(b->in, &b->plan->limits);
	r = limit_procs(b, h);
	if (r == 0)
		r = enforce(b, "open_files", BY_RLIMIT);
	if (r == 0 && p->file_size_bytes >= 0)
		r = enforce(b, "file_size", BY_RLIMIT);
	if (r == 0)
		r = limit_disk(b, h);
	if (r == 0)
		r = limit_tree(b);
	b->plan->limits.file_size_bytes = p->file_size_bytes;
	b->plan->limits.output_bytes = p->output_bytes;
	b->plan->limits.output_end = p->output_end == 1;
	return r;
}

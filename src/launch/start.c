/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a run: spawn, plan, reserve, deliver; and again at a lower level if necessary. */
#include "launch/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "format/steps.h"
#include "git/snapshot.h"
#include "launch/launch.h"
#include "launch/locks.h"
#include "launch/offer.h"
#include "launch/pool.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

#define PLAN_TRIES 4
#define DEFAULT_CAPTURE_BYTES (1 << 20)
#define DEFAULT_ROWS 24
#define DEFAULT_COLS 80

/* A second try may need the inputs after the caller has freed them. */
static int keep_inputs(struct cordon_run *run, const struct cordon_policy *policy,
		       struct cordon_error *err)
{
	int r = cordon_policy_copy(policy, &run->policy_copy, err);

	if (r < 0)
		return r;
	if (run_options_keep(&run->arena, &run->options) < 0)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	run->retry_policy = run->policy_copy;
	return 0;
}

/* Names to reserve, a workspace: init gets the common steps of the plan ahead. */
static bool has_more_to_do(const struct cordon_policy *policy)
{
	return policy->fs_write.n > 0 || policy->workspace;
}

/* Init is spawned first: it makes its namespaces while we plan. */
static int spawn_at(struct cordon_run *run, const struct cordon_policy *policy, int level,
		    struct cordon_error *err)
{
	struct cgroup cgroup = CGROUP_INIT;
	enum spawn_role role = SPAWN_AT_ONCE;
	int r = 0;

	if (level == PLAN_LEVEL_LANDLOCK && !run->options.private_dir)
		r = scratch_name(&run->arena, &run->scratch, &run->scratch_parent_fd, err);
	if (r < 0)
		return r;
	if (level == PLAN_LEVEL_LANDLOCK)
		role = SPAWN_LANDLOCK;
	else if (has_more_to_do(policy))
		role = SPAWN_NAMESPACES;
	run_make_cgroup(run, policy, level, &cgroup);
	r = spawn_init_into(run->launcher, role, run->scratch, &cgroup, &run->spawned, err);
	return r < 0 || !run->scratch ? r : scratch_make(run->scratch, run->scratch_parent_fd, err);
}

/*
 * Uses the parked init if its common steps are the plan's, otherwise a new one.
 * -CORDON_E_STATE: the limits are not enforced as the plan says, plan again.
 */
static int take_parked(struct cordon_run *run, const struct cordon_policy *policy,
		       struct cordon_error *err)
{
	bool is_offered = run->parked.mould && !run->pool;
	int fits = plan_has_common(run->plan, run->parked.plan), r;
	int had_cgroup = run->parked.spawned.cgroup.dir_fd >= 0;

	if (!fits && is_offered)
		run->why_cold = "its view begins with something else than the pool's";
	if (fits && is_offered && !offer_is_adopted(&run->parked.spawned)) {
		run->why_cold = "the pool's init has ended";
		fits = 0;
	}
	if (fits) {
		run->spawned = run->parked.spawned;
		run->parked.spawned = (struct spawned)SPAWNED_INIT;
		/* Not the first time (park_again()) if there is none: then the run has it. */
		if (run->parked.mould)
			run->mould = TAKE_PTR(run->parked.mould);
	} else if (run->parked.mould) {
		pool_give_back(run->launcher, &run->parked);
	} else {
		pool_forget(run->pool, TAKE_PTR(run->mould));
	}
	parked_done(run->launcher, &run->parked);
	run->is_parked = fits;
	if (fits)
		return 0;
	r = spawn_at(run, policy, PLAN_LEVEL_NAMESPACES, err);
	if (r == 0 && had_cgroup != (run->spawned.cgroup.dir_fd >= 0))
		r = cordon_err(err, CORDON_E_STATE, 0, "the control group is gone");
	return r;
}

/* @input->lock_dir: the plan hides it from the command. */
static int open_locks(struct cordon_run *run, struct plan_input *input, struct cordon_error *err)
{
	int r = run->locks ? 0
			   : locks_open(run->options.state_dir, &run->started_at, &run->locks, err);

	input->lock_dir = r < 0 ? NULL : run->locks->path;
	return r;
}

/* A plan that was made without knowing where the locks are may show them to the command. */
static int reserve_planned(struct cordon_run *run, struct plan_input *input, bool may_plan_again,
			   struct cordon_error *err)
{
	int r = 0;

	if ((run->plan->n_reserved > 0 || run->plan->n_repos > 0) && !run->locks) {
		r = open_locks(run, input, err);
		return r < 0 ? r : cordon_err(err, CORDON_E_STATE, 0, "the locks have been made");
	}
	return reserve_names(run->launcher, run->locks, run->plan, run->spawned.pid_fd,
			     may_plan_again, &run->reserved, err);
}

/* Init takes the common steps while we plan the rest, reserve names and read repositories. */
static int send_ahead(void *ctx, const struct plan *common, struct cordon_error *err)
{
	struct cordon_run *run = ctx;
	int r;

	if (run->spawned.pid_fd < 0) /* a parked init has taken its own */
		return 0;
	r = spawn_deliver_common(run->launcher, &run->spawned, common, err);
	run->is_parked = r == 0;
	return r;
}

/* The next plan may have other common steps than the one that init was told. */
static void park_again(struct cordon_run *run)
{
	if (!run->is_parked)
		return;
	run->parked.spawned = run->spawned;
	run->parked.plan = TAKE_PTR(run->plan);
	run->spawned = (struct spawned)SPAWNED_INIT;
	run->is_parked = 0;
}

/* Builds the plan and reserves its names; again if one of them was created meanwhile. */
static int plan_and_reserve(struct cordon_run *run, const struct cordon_policy *policy, int level,
			    struct cordon_error *err)
{
	struct plan_input input = {
		.policy = policy,
		.options = &run->options,
		.level = level,
		.machine = &run->launcher->machine,
		.is_main_thread = syscall(SYS_gettid) == run->launcher->pid,
		.tmpdir = run->scratch,
		.workspace = workspace_plan(run),
		.private_dir = private_plan(&run->private_dir),
		.code = run->code.fd >= 0 ? &run->code : NULL,
		.proxy_port = run->gateway.proxy_port,
		.may_be_nobody = level == PLAN_LEVEL_LANDLOCK && probe_can_drop_root(),
		/* It costs 30 us, so only where much is left to do. */
		.common_is_known = has_more_to_do(policy) ? send_ahead : NULL,
		.ctx = run,
	};
	int r = 0;

	if (run->spawned.pid_fd < 0)
		run_move_parked(run, policy);
	/* If there is no place for them, the plan decides whether they are needed. */
	if (policy->fs_write.n > 0)
		(void)open_locks(run, &input, NULL);
	for (int i = 0; i < PLAN_TRIES; i++) {
		const struct spawned *s = run->spawned.pid_fd < 0 ? &run->parked.spawned
								  : &run->spawned;
		struct plan *plan;

		input.has_cgroup = s->cgroup.dir_fd >= 0;
		input.has_cgroup_cpu = input.has_cgroup && s->cgroup.has_cpu;
		r = plan_build(&input, &plan, err);
		if (r < 0)
			return r;
		plan_free(run->plan);
		run->plan = plan;
		if (run->spawned.pid_fd < 0)
			r = take_parked(run, policy, err);
		if (r == 0)
			r = reserve_planned(run, &input, i + 1 < PLAN_TRIES, err);
		if (r != -CORDON_E_STATE)
			return r;
		reserve_release(run->launcher, &run->reserved);
		park_again(run);
	}
	return r;
}

static int stream_fits(int i, int mode)
{
	switch (i) {
	case 0:
		return mode == CORDON_STREAM_NULL || mode == CORDON_STREAM_FD ||
		       mode == CORDON_STREAM_DATA;
	case 1:
		return mode != CORDON_STREAM_DATA && mode != CORDON_STREAM_JOIN;
	default:
		return mode != CORDON_STREAM_DATA;
	}
}

/* Whether stream @i is the command's terminal and no pipe. */
static int is_on_terminal(const struct cordon_run_options *o, int i)
{
	return o->terminal &&
	       (i < 2 || o->err.mode == CORDON_STREAM_NULL || o->err.mode == CORDON_STREAM_JOIN);
}

static int open_streams(struct cordon_run *run, int guest_fds[3], struct cordon_error *err)
{
	const struct cordon_run_options *o = &run->options;
	struct relay *relays[3] = { &run->in, &run->out, &run->err };
	const struct cordon_stream *streams[3] = { &o->in, &o->out, &o->err };

	for (int i = 0; i < 3; i++) {
		int64_t limit = run->plan->limits.output_bytes;
		int r, mode = streams[i]->mode;

		if (!stream_fits(i, mode))
			return cordon_err(err, CORDON_E_USAGE, 0, "stream %d cannot have mode %d",
					  i, mode);
		if (limit < 0 && mode == CORDON_STREAM_CAPTURE)
			limit = DEFAULT_CAPTURE_BYTES;
		if (i == 1 && limit < 0 && run->plan->limits.output_end) {
			cordon_err(err, CORDON_E_POLICY, 0,
				   "limits.output_end (--end-on-output) needs limits.output "
				   "(--max-output SIZE)");
			return -CORDON_E_POLICY;
		}
		r = relay_init(relays[i], streams[i], i == 0, limit,
			       is_on_terminal(o, i) ? NULL : &guest_fds[i], err);
		if (r < 0)
			return r;
		if (mode == CORDON_STREAM_JOIN)
			guest_fds[i] = guest_fds[1];
	}
	run->in.is_held = o->held;
	if (said_is_wanted(run->plan)) {
		relay_keep_end(&run->err);
		if (o->terminal || o->err.mode == CORDON_STREAM_JOIN)
			relay_keep_end(&run->out);
	}
	return 0;
}

/* Init enforces the wall clock limit. Our timer is for an init that is stuck in its set-up. */
static int monitor(struct cordon_run *run, struct cordon_error *err)
{
	const struct plan_limits *l = &run->plan->limits;
	int r = 0;

	if (run->epoll_fd < 0)
		run->epoll_fd = r = sys_epoll_create();
	if (r >= 0)
		r = sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, run->spawned.ctl_fd, EPOLLIN, 0);
	if (r >= 0)
		r = sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, run->spawned.pid_fd, EPOLLIN, 0);
	if (r >= 0 && run->timer_fd < 0 && l->wall_ms && !run->options.held) {
		run->timer_fd = r = sys_timerfd(l->wall_ms + l->grace_ms + BACKSTOP_MS);
		if (r >= 0)
			r = sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, r, EPOLLIN, 0);
	}
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot monitor the run") : 0;
}

static bool must_note(const struct cordon_run *run)
{
	return run->plan->n_repos > 0;
}

/*
 * Whether a pool's init may be used takes a while to find out. So init builds the view meanwhile,
 * and starts the command only when it hears that it may. But two of them must not mount a workspace
 * at the same time: there it comes first.
 */
static bool is_checked_early(const struct cordon_run *run)
{
	return run->workspace.ws != NULL;
}

static int check_parked(struct cordon_run *run, bool is_early, struct cordon_error *err)
{
	if (!run->mould || is_early != is_checked_early(run) || pool_may_use(run))
		return 0;
	run->is_stale = 1;
	run->why_cold = "something has changed since the pool was filled";
	return cordon_err(err, CORDON_E_STATE, 0, "the parked init is stale");
}

/* Does init wait for spawn_go() before it starts the command? */
static bool must_go(const struct cordon_run *run)
{
	return must_note(run) || (run->mould && !is_checked_early(run));
}

/* While init builds the view. The command starts only when it is done. */
static int note_before(struct cordon_run *run, struct cordon_error *err)
{
	int r = repositories_note(run, err);

	return r < 0 ? r : covers_note(run, err);
}

static int deliver(struct cordon_run *run, const int guest_fds[3], struct cordon_error *err)
{
	const struct plan_limits *l = &run->plan->limits;
	bool has_cgroup = run->spawned.cgroup.dir_fd >= 0;
	struct control_order order = {
		.limits = {
			.deadline_ns = l->wall_ms && !run->options.held
					       ? run->started_ns + l->wall_ms * 1000000u
					       : 0,
			.grace_ns = l->grace_ms * 1000000u,
			.memory_bytes = has_cgroup ? 0 : l->memory_bytes,
			.cpu_milli = l->cpu_milli,
			.cpu_time_ns = l->cpu_time_ms * 1000000u,
			.procs = has_cgroup ? 0 : l->procs,
			.end_at_procs = l->end_at_procs,
			.disk_bytes = l->workspace_bytes,
			.disk_inodes = l->workspace_inodes,
		},
		.rows = run->options.rows,
		.cols = run->options.cols,
	};
	int flags = (run->is_parked ? 0 : DELIVER_MAPS) | (must_go(run) ? DELIVER_WAIT : 0);

	workspace_usage(run, &order.limits);
	private_usage(run, &order.limits);
	if (run->options.orphans == CORDON_ORPHANS_KEEP)
		flags |= DELIVER_KEEP_ORPHANS;
	return spawn_deliver(run->launcher, &run->spawned, run->plan, &order, guest_fds,
			     &run->gateway, workspace_lend_lock(run), run->options.image_fd,
			     run->channel_guest_fd, flags, err);
}

static void close_guest_ends(const int fds[3])
{
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0 && (i == 0 || fds[i] != fds[i - 1]))
			close(fds[i]);
}

/* Which id the command has depends on its grants. */
static int give_scratch(struct cordon_run *run, struct cordon_error *err)
{
	const struct plan_header *h = run->plan->block;

	if (run->launcher->machine.uid != 0 || h->outer_uid == 0)
		return 0;
	return scratch_give(run->scratch, run->scratch_parent_fd, h->outer_uid, h->outer_gid, err);
}

static int start_at(struct cordon_run *run, const struct cordon_policy *policy, int level,
		    struct cordon_error *err)
{
	int guest_fds[3] = { -1, -1, -1 }, r = 0;

	if (level != PLAN_LEVEL_NAMESPACES || run->parked.spawned.pid_fd < 0)
		r = spawn_at(run, policy, level, err);
	if (r == 0)
		r = gateway_open(run, policy, level, err);
	if (r == 0)
		r = workspace_begin(run, policy, level, err);
	if (r == 0)
		r = private_begin(run, policy, level, err);
	if (r == 0)
		r = code_dir_open(run->options.code_dir, &run->arena, &run->code, err);
	if (r == 0)
		r = plan_and_reserve(run, policy, level, err);
	if (r == 0 && run->scratch)
		r = give_scratch(run, err);
	if (r == 0)
		r = open_streams(run, guest_fds, err);
	if (r == 0)
		r = channel_open(run, err);
	if (r == 0)
		r = monitor(run, err);
	if (r == 0)
		r = check_parked(run, true, err);
	if (r == 0)
		r = deliver(run, guest_fds, err);
	gateway_delivered(&run->gateway);
	/* Init waits for the gateway before it starts the command. */
	if (r == 0)
		r = gateway_start(run, err);
	if (r == 0)
		meter_start(run);
	close_guest_ends(guest_fds);
	if (r == 0)
		r = note_before(run, err);
	/* Before any input is moved, which cannot be given back. */
	if (r == 0)
		r = check_parked(run, false, err);
	if (r == 0) {
		/* Registers the streams, and sends input that is already there. */
		struct relay *const relays[] = { &run->in, &run->out, &run->err };

		r = relay_pump_all(relays, 3, run->epoll_fd);
		if (r < 0)
			r = cordon_err(err, CORDON_E_SYSTEM, -r, "cannot relay the streams");
	}
	/* Last: from here on nothing can fail. */
	if (r == 0 && must_go(run))
		r = spawn_go(&run->spawned, err);
	if (r == 0)
		channel_started(run);
	run->notes = run->plan ? run->plan->notes : NULL;
	return r;
}

/* Undoes everything that a try at one level has set up. */
static void undo_start(struct cordon_run *run)
{
	struct relay *const relays[] = { &run->in, &run->out, &run->err };

	if (run->spawned.pid_fd >= 0 && run->epoll_fd >= 0) {
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->spawned.ctl_fd, 0, 0);
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->spawned.pid_fd, 0, 0);
	}
	if (run->gateway.pid_fd >= 0 && run->epoll_fd >= 0)
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->gateway.pid_fd, 0, 0);
	spawned_done(run->launcher, &run->spawned);
	pool_forget(run->pool, TAKE_PTR(run->mould));
	run->is_parked = 0;
	/* They belong to the plan of this try. */
	covers_done(run);
	git_snapshot_free(TAKE_PTR(run->repositories));
	gateway_done(run->launcher, &run->gateway);
	meter_done(run->launcher, &run->meter);
	for (size_t i = 0; i < ARRAY_SIZE(relays); i++) {
		/* Closing is not enough: the caller has the same file open. */
		if (run->epoll_fd >= 0)
			relay_forget(relays[i], run->epoll_fd);
		relay_done(relays[i]);
	}
	run_unlock(run);
}

void run_add_note(struct cordon_run *run, const char *note)
{
	size_t n = 0;
	const char **notes;

	while (run->notes && run->notes[n])
		n++;
	notes = arena_alloc(&run->arena, (n + 2) * sizeof(*notes));
	if (!notes)
		return;
	if (n)
		memcpy(notes, run->notes, n * sizeof(*notes));
	notes[n] = note;
	run->notes = notes;
}

#define LOWER_NOTE                                                                                 \
	"namespaces are shut here, so this run has level landlock ('cordon check' says what that " \
	"cannot do)"

/* With an init of its own, after the parked one was refused. */
static int start_cold(struct cordon_run *run, const struct cordon_policy *policy,
		      struct cordon_error *err)
{
	undo_start(run);
	run->is_stale = 0;
	memset(err, 0, sizeof(*err));
	return start_at(run, policy, PLAN_LEVEL_NAMESPACES, err);
}

int run_refuse_microvm(const struct cordon_policy *policy, struct cordon_error *err)
{
	if (policy->isolation != CORDON_LEVEL_MICROVM)
		return 0;
	cordon_err(err, CORDON_E_UNSUPPORTED, 0,
		   "only 'cordon run' has isolation microvm, not the library, sessions or pools");
	cordon_err_hint(err, "use isolation namespaces here");
	return -CORDON_E_UNSUPPORTED;
}

static int start(struct cordon_run *run, const struct cordon_policy *policy,
		 struct cordon_error *err)
{
	struct cordon_launcher *l = run->launcher;
	int wanted = policy->isolation, is_auto = wanted <= CORDON_LEVEL_AUTO, r;

	r = run_refuse_microvm(policy, err);
	if (r < 0)
		return r;
	if (wanted != CORDON_LEVEL_LANDLOCK && (!is_auto || !l->no_namespaces)) {
		/* A parked init proves that namespaces work, if it is ready: one of a pool may not
		 * be. An overlay may be refused; then a copy is used. */
		run->may_fall = is_auto && (run->parked.spawned.pid_fd < 0 || run->parked.mould);
		r = run->may_fall || policy->workspace || run->options.workspace_from
			    ? keep_inputs(run, policy, err)
			    : 0;
		if (r == 0)
			r = start_at(run, policy, PLAN_LEVEL_NAMESPACES, err);
		if (r < 0 && run->is_stale)
			r = start_cold(run, policy, err);
		/* With a stage the machine refused; without one it was the policy. */
		if (r != -CORDON_E_UNSUPPORTED || !is_auto || err->stage == 0)
			return r;
		undo_start(run);
		__atomic_store_n(&l->no_namespaces, err->sys_errno, __ATOMIC_RELAXED);
		memset(err, 0, sizeof(*err));
	}
	run->retry_policy = NULL;
	r = start_at(run, policy, PLAN_LEVEL_LANDLOCK, err);
	if (r == 0 && is_auto)
		run_add_note(run, LOWER_NOTE);
	return r;
}

/* Did the machine refuse namespaces, rather than something that this policy needs? */
static int namespaces_are_refused(const struct cordon_run *run)
{
	const struct control_report *rep = &run->report;
	const struct plan_op *op = report_plan_op(run->plan->block, rep);

	/* Once the command has run there is no second time. */
	if (rep->type != CONTROL_FAILED || rep->stamps_ns[STAGE_EXEC] ||
	    error_is_transient(rep->sys_errno))
		return 0;
	if (!op)
		return step_means_no_namespaces(rep->stage, rep->op);
	return (op->type == PLAN_OP_PROC || op->type == PLAN_OP_DEVPTS) &&
	       (rep->sys_errno == EPERM || rep->sys_errno == EACCES);
}

static int overlay_is_refused(const struct cordon_run *run)
{
	const struct control_report *rep = &run->report;
	const struct plan_op *op = report_plan_op(run->plan->block, rep);

	return rep->type == CONTROL_FAILED && op && op->type == PLAN_OP_OVERLAY &&
	       run->workspace.info.is_new && !run->workspace.no_overlay;
}

static int start_again_at(struct cordon_run *run, int level)
{
	undo_start(run);
	ahead_forget(run); /* of the init that is gone */
	run->reported = run->init_gone = 0;
	memset(&run->report, 0, sizeof(run->report));
	return start_at(run, run->retry_policy, level, &run->error);
}

int start_again(struct cordon_run *run)
{
	int r;

	if (!run->retry_policy || run->ending)
		return 0;
	if (overlay_is_refused(run)) {
		run->workspace.no_overlay = true;
		r = start_again_at(run, PLAN_LEVEL_NAMESPACES);
		if (r == 0)
			return 1;
		run->retry_policy = NULL;
	} else if (run->may_fall && namespaces_are_refused(run)) {
		__atomic_store_n(&run->launcher->no_namespaces, run->report.sys_errno,
				 __ATOMIC_RELAXED);
		r = start_again_at(run, PLAN_LEVEL_LANDLOCK);
		run->retry_policy = NULL;
	} else {
		return 0;
	}
	if (r < 0) {
		run->error_set = 1;
		run->init_gone = 1;
		undo_start(run);
		return 0;
	}
	run_add_note(run, LOWER_NOTE);
	return 1;
}

/* Serving files needs no command, but a plan needs a name. */
static const char *const files_argv[] = { "files", NULL };

/* A second try may need them after the caller has closed them. */
static int keep_descriptors(struct cordon_run *run, int log_fd, int image_fd,
			    struct cordon_error *err)
{
	const int needed = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	int fd;

	if (log_fd > 0) {
		fd = fcntl(log_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			return cordon_err(err, CORDON_E_USAGE, errno,
					  "net_log_fd is not an open descriptor");
		run->options.net_log_fd = fd;
	}
	if (image_fd > 0) {
		fd = fcntl(image_fd, F_GET_SEALS);
		if (fd < 0 || (fd & needed) != needed)
			return cordon_err(err, CORDON_E_USAGE, 0,
					  "image_fd is not a memory file with the seals WRITE, "
					  "GROW, SHRINK and SEAL");
		fd = fcntl(image_fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot copy image_fd");
		run->options.image_fd = fd;
	}
	return 0;
}

static int copy_options(struct cordon_run *run, const struct cordon_run_options *options,
			struct cordon_error *err)
{
	int log_fd, image_fd;

	if (!options || options->size < sizeof(size_t) || options->size > sizeof(run->options))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	memcpy(&run->options, options, options->size);
	/* Until they are copied, they are the caller's. */
	log_fd = run->options.net_log_fd;
	image_fd = run->options.image_fd;
	run->options.net_log_fd = run->options.image_fd = 0;
	if (run->options.files)
		run->options.argv = files_argv;
	if (run->options.held && (run->options.in.mode != CORDON_STREAM_NULL ||
				  run->options.files || run->options.terminal))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "a run that is held has no standard input, terminal or files");
	if (run->options.files && run->options.channel)
		return cordon_err(err, CORDON_E_USAGE, 0, "a run that serves files has no channel");
	if (run->options.files && run->options.terminal)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "files cannot be served through a terminal");
	if (run->options.session && (!run->options.argv || !run->options.argv[0]))
		run->options.argv = NULL;
	else if (!run->options.argv || !run->options.argv[0] || !run->options.argv[0][0])
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no command to run");
	if (run->options.files && image_fd > 0)
		return cordon_err(err, CORDON_E_USAGE, 0, "serving files executes nothing");
	if (!run->options.rows || !run->options.cols) {
		run->options.rows = DEFAULT_ROWS;
		run->options.cols = DEFAULT_COLS;
	}
	return keep_descriptors(run, log_fd, image_fd, err);
}

int run_start_parked(struct cordon_launcher *launcher, struct parked *parked,
		     const struct cordon_policy *policy, const struct cordon_run_options *options,
		     struct cordon_run **ret, struct cordon_error *err)
{
	struct cordon_error unused = CORDON_ERROR_INIT;
	struct cordon_run *run;
	int r;

	err = err ? err : &unused; /* start() reads it */
	graveyard_sweep(launcher, 0);
	run = calloc(1, sizeof(*run));
	if (!run) {
		parked_done(launcher, parked);
		pool_run_freed(parked->pool);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	pthread_mutex_init(&run->lock, NULL);
	run->launcher = launcher;
	run->started_ns = clock_ns();
	/* The coarse clock is the one that files are stamped with. */
	clock_gettime(CLOCK_REALTIME_COARSE, &run->started_at);
	run->spawned = (struct spawned)SPAWNED_INIT;
	run->gateway = (struct run_gateway)RUN_GATEWAY_INIT;
	run->meter = (struct run_meter)RUN_METER_INIT;
	run->workspace = (struct run_workspace)RUN_WORKSPACE_INIT;
	run->private_dir = (struct run_private)RUN_PRIVATE_INIT;
	run->code.fd = -1;
	run->channel_fd = run->channel_guest_fd = -1;
	run->parked = *parked;
	run->pool = parked->pool;
	*parked = (struct parked)PARKED_INIT;
	run->reserved.janitor = (struct spawned)SPAWNED_INIT;
	run->covers.helper = (struct spawned)SPAWNED_INIT;
	run->epoll_fd = run->timer_fd = run->scratch_parent_fd = -1;
	run->in.pipe_fd = run->in.peer_fd = run->in.unread_fd = -1;
	run->out = run->err = run->in;
	r = copy_options(run, options, err);
	if (r == 0) {
		ahead_begin(run);
		r = start(run, policy, err);
		ahead_made(run);
	}
	parked_done(launcher, &run->parked);
	if (r < 0) {
		run->over = 1;
		cordon_run_free(run);
		hint_if_refused(err);
		return r;
	}
	*ret = run;
	return 0;
}

int cordon_run_start(struct cordon_launcher *launcher, const struct cordon_policy *policy,
		     const struct cordon_run_options *options, struct cordon_run **ret,
		     struct cordon_error *err)
{
	struct parked none = PARKED_INIT;

	if (!launcher || !policy || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0, "launcher and policy must be given");
	if (launcher->pid != getpid())
		return cordon_err(err, CORDON_E_STATE, 0,
				  "this launcher belongs to the process before fork");
	return run_start_parked(launcher, &none, policy, options, ret, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One run from start to result: an event loop body over one epoll descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "git/snapshot.h"
#include "launch/launch.h"
#include "launch/locks.h"
#include "launch/pool.h"
#include "launch/session.h"
#include "launch/start.h"
#include "sys/calls.h"

#define EVENTS 8
#define GATEWAY_END_MS 5500 /* it takes 5 seconds at most */
#define READER_MS 1000	    /* at least, for the caller to read what is left */

int cordon_run_fd(const struct cordon_run *run)
{
	return run->epoll_fd;
}

const struct cordon_published *cordon_run_published(const struct cordon_run *run, size_t *ret_n)
{
	*ret_n = run->gateway.n_published;
	return run->gateway.published;
}

const char *const *cordon_run_notes(const struct cordon_run *run)
{
	return run->notes;
}

void cordon_run_output(struct cordon_run *run, struct cordon_output *ret_out,
		       struct cordon_output *ret_err)
{
	const struct relay *const relays[] = { &run->out, &run->err };
	struct cordon_output *const ret[] = { ret_out, ret_err };
	const int is_done = run->over || run->orphaned;

	for (int i = 0; i < 2; i++) {
		const struct relay *r = relays[i];

		*ret[i] = (struct cordon_output){ .data = "", .total_bytes = r->total };
		ret[i]->truncated = r->truncated;
		if (is_done) {
			*ret[i] = i ? run->result.err : run->result.out;
		} else if (r->mode == CORDON_STREAM_CAPTURE) {
			ret[i]->len = relay_copy(r, &run->shown[i]);
			ret[i]->data = run->shown[i] ? run->shown[i] : "";
		}
	}
}

const struct cordon_result *cordon_run_result(const struct cordon_run *run)
{
	return run->over || run->orphaned ? &run->result : NULL;
}

static int tree_is_gone(const struct cordon_run *run)
{
	return run->reported || run->init_gone;
}

/* For an init that does not answer. Without a pid namespace only a control group can do it. */
static void end_by_force(struct cordon_run *run)
{
	if (run->spawned.cgroup.dir_fd >= 0)
		cgroup_kill(&run->spawned.cgroup);
	if (run->spawned.level == PLAN_LEVEL_NAMESPACES)
		sys_pidfd_send_signal(run->spawned.pid_fd, SIGKILL);
}

int run_set_clock(struct cordon_run *run, uint64_t ms)
{
	const struct itimerspec spec = {
		.it_value = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000L },
	};
	int r;

	if (run->timer_fd >= 0)
		return timerfd_settime(run->timer_fd, 0, &spec, NULL) < 0 ? -errno : 0;
	r = run->timer_fd = sys_timerfd(ms);
	if (r >= 0)
		r = sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, r, EPOLLIN, 0);
	return r;
}

/* Init ends the tree and reports its usage; if it is late, it is killed. */
static void end_tree(struct cordon_run *run, int kind)
{
	const struct control_order order = { .type = CONTROL_KILL };
	int was_ending = run->ending;

	if (tree_is_gone(run) || run->over)
		return;
	if (!was_ending)
		run->ending = kind;
	if (spawn_send(run->spawned.ctl_fd, &order, NULL, 0) < 0 ||
	    run_set_clock(run, BACKSTOP_MS) < 0)
		end_by_force(run);
}

/* Without memory the names go untold. */
static void keep_asked(struct cordon_run *run, const struct control_asked *asked)
{
	if (!run->asked)
		run->asked = arena_alloc(&run->arena, sizeof(*asked));
	if (run->asked)
		*run->asked = *asked;
}

static void keep_lost(struct cordon_run *run, const struct control_lost *lost)
{
	if (!run->lost)
		run->lost = arena_alloc(&run->arena, sizeof(*lost));
	if (run->lost)
		*run->lost = *lost;
}

/* One report: 1 there may be more, 0 none. */
static int read_one_report(struct cordon_run *run)
{
	union control_message message;
	int fd, r;

	if (run->reported || run->spawned.ctl_fd < 0)
		return 0;
	r = spawn_receive(run->spawned.ctl_fd, &message, &fd);
	if (r < 0)
		/* Init ends without a report: its pidfd tells when the tree is gone. */
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->spawned.ctl_fd, 0, 0);
	if (r <= 0)
		return 0;
	if (message.type == CONTROL_TERMINAL) {
		run->terminal_error = terminal_attach(run, fd);
		return 1;
	}
	if (fd >= 0)
		close(fd);
	if (run->session && session_take(run->session, &message))
		return 1;
	if (message.type == CONTROL_STOPPED) {
		/* We may have continued it before init could tell. */
		run->is_stopped = message.report.n_continued == run->n_continued;
		return 1;
	}
	if (message.type == CONTROL_ASKED) {
		keep_asked(run, &message.asked);
		return 1;
	}
	if (message.type == CONTROL_LOST) {
		keep_lost(run, &message.lost);
		return 1;
	}
	if (message.type == CONTROL_UNCOVERED) {
		covers_begin(run, message.report.uncovered);
		return 1;
	}
	if (message.type == CONTROL_BARE) {
		covers_lost(run, message.report.uncovered);
		return 1;
	}
	run->report = message.report;
	run->reported = message.type != CONTROL_ORPHANED;
	run->orphaning = message.type == CONTROL_ORPHANED;
	return 0;
}

static void read_report(struct cordon_run *run)
{
	while (read_one_report(run))
		;
}

static void check_init(struct cordon_run *run)
{
	struct pollfd p = { .fd = run->spawned.pid_fd, .events = POLLIN };

	if (!run->init_gone && poll(&p, 1, 0) > 0) {
		read_report(run); /* sent just before its end */
		run->init_gone = 1;
		/* Without a pid namespace its tree outlives it. */
		if (!run->reported && run->spawned.cgroup.dir_fd >= 0 &&
		    run->spawned.level == PLAN_LEVEL_LANDLOCK &&
		    cgroup_kill(&run->spawned.cgroup) == 0)
			cgroup_wait_empty(&run->spawned.cgroup, BACKSTOP_MS);
	}
}

static void check_clock(struct cordon_run *run)
{
	if (run->timer_fd < 0 || tree_is_gone(run) || !sys_timer_fired(run->timer_fd))
		return;
	if (!run->ending)
		run->ending = CORDON_KIND_TIMEOUT;
	end_by_force(run);
}

static void check_output(struct cordon_run *run)
{
	if (run->plan->limits.output_end && (run->out.truncated || run->err.truncated))
		end_tree(run, CORDON_KIND_OUTPUT);
}

static int pump_streams(struct cordon_run *run, struct cordon_error *err)
{
	struct relay *const relays[] = { &run->in, &run->out, &run->err };
	int r = relay_pump_all(relays, 3, run->epoll_fd);

	if (r == 0)
		r = run->terminal_error;
	/* The caller's side is closed: closing the master hangs the terminal up. */
	if (run->out.is_terminal && run->out.peer_failed)
		relay_close_input(&run->in, run->epoll_fd);
	if (r == 0)
		return 0;
	run->terminal_error = 0;
	end_tree(run, CORDON_KIND_CANCELLED);
	return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot relay the command's streams");
}

static void wake_in(struct cordon_run *run, uint64_t ms)
{
	/* It may have been taken off the list; that it is there already does no harm. */
	if (run_set_clock(run, ms) == 0)
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, run->timer_fd, EPOLLIN, 0);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a && a < b ? a : b;
}

/*
 * Until when the caller's side may take its time to read, once the tree is gone: the end of the
 * run's time or, after an order to end, its grace. 0 = as long as it likes.
 */
static uint64_t readers_end(const struct cordon_run *run)
{
	uint64_t end = 0, grace_ns = run->plan->limits.grace_ms * 1000000u;

	if (run->plan->limits.wall_ms && !run->in.is_held)
		end = run->started_ns + run->plan->limits.wall_ms * 1000000u + grace_ns;
	if (run->ordered_ns)
		end = sooner(end, run->ordered_ns + grace_ns);
	return end;
}

/* Otherwise a reader that does not read would keep a run from ending. */
static void hurry_readers(struct cordon_run *run)
{
	uint64_t end = readers_end(run), now = clock_ns();

	if (!run->closing || !end)
		return;
	if (end < run->closed_ns + READER_MS * 1000000u)
		end = run->closed_ns + READER_MS * 1000000u;
	if (now < end) {
		wake_in(run, (end - now) / 1000000u + 1);
		return;
	}
	relay_give_up(&run->out, run->epoll_fd);
	relay_give_up(&run->err, run->epoll_fd);
}

/* The tree is gone: only its output remains to be relayed. */
static void close_streams(struct cordon_run *run)
{
	if (run->closing)
		return;
	run->closing = 1;
	run->closed_ns = clock_ns();
	relay_close_input(&run->in, run->epoll_fd);
	relay_last_output(&run->out);
	relay_last_output(&run->err);
	sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->spawned.ctl_fd, 0, 0);
	sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->spawned.pid_fd, 0, 0);
	if (run->timer_fd >= 0)
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, run->timer_fd, 0, 0);
}

void run_unlock(struct cordon_run *run)
{
	reserve_release(run->launcher, &run->reserved);
	locks_close(TAKE_PTR(run->locks));
}

static void finish(struct cordon_run *run)
{
	run->over = 1;
	reserve_clear(&run->reserved, locks_is_alone);
	absent_names_check(run);
	covers_end(run);
	repositories_check(run);
	run_unlock(run);
	if (run->scratch) {
		scratch_remove(run->scratch_parent_fd, run->scratch);
		run->scratch_parent_fd = -1;
		run->scratch = NULL;
	}
	if (!run->orphaned)
		result_fill(run);
	meter_done(run->launcher, &run->meter);
	result_add_look(run);
	private_end(run);
	workspace_end(run, !run->error_set && (run->report.stamps_ns[STAGE_EXEC] != 0 ||
					       run->report.type == 0));
}

/* The command has ended, its tree goes on: the result is what is known now. */
static void finish_command(struct cordon_run *run)
{
	run->orphaning = 0;
	run->orphaned = 1;
	result_fill(run);
	/* The captured bytes belong to the result; later ones are only counted. */
	relay_stop_capture(&run->out);
	relay_stop_capture(&run->err);
}

/* The gateway ends by itself, or is killed after a while. */
static int gateway_is_done(struct cordon_run *run)
{
	if (gateway_end(run))
		return 1;
	if (!run->gateway.is_awaited) {
		run->gateway.is_awaited = 1;
		if (run_set_clock(run, GATEWAY_END_MS) < 0)
			return 1;
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, run->timer_fd, EPOLLIN, 0);
	} else if (sys_timer_fired(run->timer_fd)) {
		sys_pidfd_send_signal(run->gateway.pid_fd, SIGKILL);
		return 1;
	}
	return 0;
}

static int process(struct cordon_run *run, struct cordon_error *err)
{
	struct epoll_event events[EVENTS];
	int r;

	if (run->over)
		return 1;
	/* Which one fired does not matter: checking all of them is cheap. */
	if (epoll_wait(run->epoll_fd, events, EVENTS, 0) < 0 && errno != EINTR)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for events");
	read_report(run);
	if (!run->reported)
		check_init(run);
	covers_process(run);
	check_clock(run);
	gateway_check(run);
	if (tree_is_gone(run)) {
		if (run->reported && start_again(run))
			return 0;
		channel_check(run, 1);
		close_streams(run);
	}
	channel_check(run, 0);
	r = pump_streams(run, err);
	if (r < 0)
		return r;
	if (run->session)
		(void)session_pump(run->session);
	if (run->orphaning)
		finish_command(run);
	check_output(run);
	if (!relay_is_over(&run->out) || !relay_is_over(&run->err))
		hurry_readers(run);
	if (!tree_is_gone(run) || !relay_is_over(&run->out) || !relay_is_over(&run->err))
		return run->orphaned;
	if (!gateway_is_done(run))
		return run->orphaned;
	finish(run);
	if (run->session)
		session_ended(run->session);
	return 1;
}

int cordon_run_process(struct cordon_run *run, struct cordon_error *err)
{
	int r;

	pthread_mutex_lock(&run->lock);
	r = process(run, err);
	pthread_mutex_unlock(&run->lock);
	return r;
}

int cordon_run_is_over(struct cordon_run *run)
{
	int over;

	pthread_mutex_lock(&run->lock);
	over = run->over;
	pthread_mutex_unlock(&run->lock);
	return over;
}

int cordon_run_wait(struct cordon_run *run, int timeout_ms, struct cordon_error *err)
{
	uint64_t until = clock_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000u;

	for (;;) {
		struct pollfd p = { .fd = run->epoll_fd, .events = POLLIN };
		int r = cordon_run_process(run, err), left = -1;

		if (r != 0)
			return r;
		if (timeout_ms >= 0) {
			uint64_t now = clock_ns();

			if (now >= until)
				return 0;
			left = (int)((until - now) / 1000000u) + 1;
		}
		if (poll(&p, 1, left) < 0 && errno != EINTR)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for events");
	}
}

static int check_signal(int signal, struct cordon_error *err)
{
	if (signal >= 1 && signal <= 64)
		return 0;
	return cordon_err(err, CORDON_E_USAGE, 0, "there is no signal %d", signal);
}

int cordon_run_signal(struct cordon_run *run, int signal, struct cordon_error *err)
{
	const struct control_order order = { .type = CONTROL_SIGNAL, .arg = (uint32_t)signal };
	int r = check_signal(signal, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&run->lock);
	if (!run->over && !tree_is_gone(run)) {
		r = spawn_send(run->spawned.ctl_fd, &order, NULL, 0);
		if (signal == SIGCONT && r >= 0) {
			run->n_continued++;
			run->is_stopped = 0;
		}
	}
	pthread_mutex_unlock(&run->lock);
	if (r < 0 && r != -EPIPE)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot send signal %d", signal);
	return 0;
}

/* If only readers are awaited, the caller has to look at the clock now. */
static void note_order(struct cordon_run *run)
{
	if (!run->ordered_ns)
		run->ordered_ns = clock_ns();
	if (!run->over)
		hurry_readers(run);
}

int cordon_run_end(struct cordon_run *run, int signal, struct cordon_error *err)
{
	const struct control_order order = { .type = CONTROL_END, .arg = (uint32_t)signal };
	int r = check_signal(signal, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&run->lock);
	note_order(run);
	if (!run->over && !tree_is_gone(run) && !run->ending) {
		run->ending = CORDON_KIND_CANCELLED;
		if (spawn_send(run->spawned.ctl_fd, &order, NULL, 0) < 0 ||
		    run_set_clock(run, run->plan->limits.grace_ms + BACKSTOP_MS) < 0)
			end_by_force(run);
	}
	pthread_mutex_unlock(&run->lock);
	return 0;
}

int cordon_run_cancel(struct cordon_run *run, struct cordon_error *err)
{
	(void)err;
	pthread_mutex_lock(&run->lock);
	note_order(run);
	end_tree(run, CORDON_KIND_CANCELLED);
	pthread_mutex_unlock(&run->lock);
	return 0;
}

/* Kills the tree and waits for its end, without relaying its streams. */
static void wait_for_end(struct cordon_run *run)
{
	end_tree(run, CORDON_KIND_CANCELLED);
	end_by_force(run);
	while (!tree_is_gone(run)) {
		struct pollfd p = { .fd = run->spawned.pid_fd, .events = POLLIN };

		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			break;
		check_init(run);
	}
}

void cordon_run_free(struct cordon_run *run)
{
	struct cordon_pool *pool;

	if (!run)
		return;
	if (!run->over && run->spawned.pid_fd >= 0) {
		wait_for_end(run);
		finish(run);
	}
	run_unlock(run);
	git_snapshot_free(run->repositories);
	covers_done(run);
	workspace_end(run, false);
	private_close(&run->private_dir);
	code_dir_close(&run->code);
	free(run->workspace.changes);
	if (run->scratch)
		scratch_remove(run->scratch_parent_fd, run->scratch);
	spawned_done(run->launcher, &run->spawned);
	gateway_done(run->launcher, &run->gateway);
	meter_done(run->launcher, &run->meter);
	relay_done(&run->in);
	relay_done(&run->out);
	relay_done(&run->err);
	channel_done(run);
	if (run->timer_fd >= 0)
		close(run->timer_fd);
	if (run->options.net_log_fd > 0)
		close(run->options.net_log_fd);
	if (run->options.image_fd > 0)
		close(run->options.image_fd);
	if (run->epoll_fd >= 0)
		close(run->epoll_fd);
	plan_free(run->plan);
	cordon_policy_free(run->policy_copy);
	free(run->caller);
	arena_done(&run->arena);
	free(run->shown[0]);
	free(run->shown[1]);
	pthread_mutex_destroy(&run->lock);
	pool = run->pool;
	pool_forget(pool, run->mould);
	free(run);
	pool_run_freed(pool);
}

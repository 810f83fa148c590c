/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions. The session is a run whose plan has no command; this file adds what comes later:
 * commands with streams of their own on the run's epoll descriptor, orders about them, and their
 * ends, which init reports one by one. What the guest says takes part in none of it.
 */
#include "launch/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "format/command.h"
#include "sys/calls.h"

#define USAGE_MS 1000
#define DEFAULT_CAPTURE_BYTES (1 << 20)

int cordon_session_start(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			 const struct cordon_run_options *options, struct cordon_session **ret,
			 struct cordon_error *err)
{
	struct cordon_run_options own = CORDON_RUN_OPTIONS_INIT;
	struct cordon_session *s;
	int r;

	if (!options || options->size < sizeof(size_t) || options->size > sizeof(own) || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	memcpy(&own, options, options->size);
	own.size = sizeof(own);
	own.session = 1;
	own.files = own.terminal = own.orphans = 0;
	own.in = own.out = own.err = (struct cordon_stream){ .mode = CORDON_STREAM_NULL };
	if (!own.default_wall_ms)
		own.default_wall_ms = -1;
	s = calloc(1, sizeof(*s));
	if (!s)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	r = cordon_run_start(launcher, policy, &own, &s->run, err);
	if (r < 0) {
		free(s);
		return r;
	}
	s->run->session = s;
	*ret = s;
	return 0;
}

int cordon_session_fd(const struct cordon_session *s)
{
	return cordon_run_fd(s->run);
}

int cordon_session_process(struct cordon_session *s, struct cordon_error *err)
{
	return cordon_run_process(s->run, err);
}

int cordon_session_wait(struct cordon_session *s, int timeout_ms, struct cordon_error *err)
{
	return cordon_run_wait(s->run, timeout_ms, err);
}

const char *const *cordon_session_notes(const struct cordon_session *s)
{
	return cordon_run_notes(s->run);
}

const struct cordon_published *cordon_session_published(const struct cordon_session *s,
							size_t *ret_n)
{
	return cordon_run_published(s->run, ret_n);
}

const struct cordon_result *cordon_session_result(const struct cordon_session *s)
{
	return cordon_run_result(s->run);
}

const char *cordon_session_workspace(const struct cordon_session *s)
{
	return cordon_run_workspace(s->run);
}

int cordon_session_branch(struct cordon_session *s, uint64_t max_bytes, uint64_t max_files,
			  struct cordon_workspace **ret, struct cordon_error *err)
{
	int r;

	pthread_mutex_lock(&s->run->lock);
	r = cordon_run_branch(s->run, max_bytes, max_files, ret, err);
	pthread_mutex_unlock(&s->run->lock);
	return r;
}

int cordon_session_end(struct cordon_session *s, int signal, struct cordon_error *err)
{
	return cordon_run_end(s->run, signal, err);
}

int cordon_session_cancel(struct cordon_session *s, struct cordon_error *err)
{
	return cordon_run_cancel(s->run, err);
}

/* Streams. */

static int64_t output_limit(const struct cordon_session *s, const struct cordon_exec_options *o,
			    int mode)
{
	if (o->output_bytes > 0)
		return o->output_bytes;
	if (s->run->plan->limits.output_bytes >= 0)
		return s->run->plan->limits.output_bytes;
	return mode == CORDON_STREAM_CAPTURE ? DEFAULT_CAPTURE_BYTES : -1;
}

static bool stream_fits(int i, int mode)
{
	if (mode < CORDON_STREAM_NULL || mode > CORDON_STREAM_PASS)
		return false;
	if (i == 0)
		return mode != CORDON_STREAM_CAPTURE && mode != CORDON_STREAM_JOIN &&
		       mode != CORDON_STREAM_PASS;
	return mode != CORDON_STREAM_DATA && (i == 2 || mode != CORDON_STREAM_JOIN);
}

/* Only a pipe: a file or a terminal of the caller's must not get into the guest's hands, nor an end
 * from which others' words could be read, nor a name whose mode is not ours to change. */
static int pass_pipe(struct relay *r, int fd, int *ret_guest_fd, struct cordon_error *err)
{
	char path[32];
	int copy;

	*r = (struct relay){
		.mode = CORDON_STREAM_PASS, .pipe_fd = -1, .peer_fd = -1, .unread_fd = -1
	};
	if (!is_writing_end(fd))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "only the writing end of a pipe can be passed to a command");
	/*
	 * Opened again: flags that a command sets, such as O_NONBLOCK, are not the caller's. That
	 * would wait for a reader; one that has gone is the command's business (EPIPE).
	 */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	copy = sys_openat(AT_FDCWD, path, O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (copy == -ENXIO)
		copy = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -copy, "cannot open a pipe again");
	*ret_guest_fd = copy;
	/* As for pipes of ours: opening /dev/stdout opens it again, in its direction only. */
	return sys_fcntl(copy, F_SETFL, O_WRONLY) < 0 || fchmod(copy, 0222) < 0
		       ? cordon_err(err, CORDON_E_SYSTEM, errno, "cannot set up a pipe")
		       : 0;
}

static int open_streams(struct cordon_command *c, const struct cordon_exec_options *o,
			int guest_fds[3], struct cordon_error *err)
{
	struct relay *relays[3] = { &c->in, &c->out, &c->err };
	const struct cordon_stream *streams[3] = { &o->in, &o->out, &o->err };

	for (int i = 0; i < 3; i++) {
		int r, mode = streams[i]->mode;

		if (!stream_fits(i, mode))
			return cordon_err(err, CORDON_E_USAGE, 0, "stream %d cannot have mode %d",
					  i, mode);
		r = mode == CORDON_STREAM_PASS
			    ? pass_pipe(relays[i], streams[i]->fd, &guest_fds[i], err)
			    : relay_init(relays[i], streams[i], i == 0,
					 output_limit(c->session, o, mode), &guest_fds[i], err);
		if (r < 0)
			return r;
		if (mode == CORDON_STREAM_JOIN)
			guest_fds[i] = guest_fds[1];
	}
	relay_keep_end(&c->err);
	if (o->err.mode == CORDON_STREAM_JOIN)
		relay_keep_end(&c->out);
	return 0;
}

static void close_guest_ends(const int fds[3])
{
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0 && (i == 0 || fds[i] != fds[i - 1]))
			close(fds[i]);
}

static int pump(struct cordon_command *c)
{
	struct relay *const relays[] = { &c->in, &c->out, &c->err };

	return relay_pump_all(relays, 3, c->session->run->epoll_fd);
}

/* Starting. */

static int check_exec(const struct cordon_session *s, const struct cordon_exec_options *o,
		      struct cordon_error *err)
{
	const struct cordon_command *c = s->commands;
	unsigned n = 0;

	for (; c; c = c->next)
		n += !c->has_ended;
	if (s->run->over || s->run->reported || s->run->init_gone)
		return cordon_err(err, CORDON_E_STATE, 0, "the session is over");
	if (s->is_paused) {
		cordon_err(err, CORDON_E_STATE, 0, "the session is paused");
		cordon_err_hint(err, "resume it first");
		return -CORDON_E_STATE;
	}
	if (n >= CORDON_SESSION_COMMANDS_MAX) {
		cordon_err(err, CORDON_E_STATE, 0, "%u commands run in this session already", n);
		cordon_err_hint(err, "wait for one of them, or end it");
		return -CORDON_E_STATE;
	}
	if (!o->files && (!o->argv || !o->argv[0] || !o->argv[0][0]))
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no command to run");
	if (o->image && (o->files || s->run->options.image_fd <= 0))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  o->files ? "serving files executes nothing"
					   : "the session was started without image_fd");
	return 0;
}

static int deliver(struct cordon_command *c, const struct cordon_exec_options *o,
		   const int guest_fds[3], struct cordon_error *err)
{
	struct cordon_run *run = c->session->run;
	struct control_order order = {
		.type = CONTROL_EXEC,
		.count = c->number,
		.limits = {
			.deadline_ns =
				o->wall_ms > 0 ? c->started_ns + (uint64_t)o->wall_ms * 1000000u : 0,
			.grace_ns = run->plan->limits.grace_ms * 1000000u,
		},
	};
	int fds[5] = { -1, guest_fds[0], guest_fds[1], guest_fds[2], o->channel_fd }, r;

	if (o->files)
		order.flags |= CONTROL_EXEC_FILES;
	if (o->orphans != CORDON_ORPHANS_KEEP)
		order.flags |= CONTROL_EXEC_KILL_REST;
	if (o->channel_fd > 0)
		order.flags |= CONTROL_EXEC_CHANNEL;
	if (o->image)
		order.flags |= CONTROL_EXEC_IMAGE;
	fds[0] = command_block_fd(c->session, o, c, err);
	if (fds[0] < 0)
		return fds[0];
	r = spawn_send(run->spawned.ctl_fd, &order, fds, o->channel_fd > 0 ? 5 : 4);
	close(fds[0]);
	return r < 0 ? cordon_err(err, CORDON_E_STATE, r == -EPIPE ? 0 : -r,
				  "the session does not take a command")
		     : 0;
}

static void forget_streams(struct cordon_command *c)
{
	struct relay *const relays[] = { &c->in, &c->out, &c->err };

	for (size_t i = 0; i < ARRAY_SIZE(relays); i++) {
		relay_forget(relays[i], c->session->run->epoll_fd);
		relay_done(relays[i]);
	}
}

static void free_command(struct cordon_command *c)
{
	free(c->name);
	free(c->cwd);
	free(c->shown[0]);
	free(c->shown[1]);
	arena_done(&c->arena);
	arena_done(&c->later_arena);
	free(c);
}

static int exec_locked(struct cordon_session *s, const struct cordon_exec_options *o,
		       struct cordon_command **ret, struct cordon_error *err)
{
	int guest_fds[3] = { -1, -1, -1 }, r = check_exec(s, o, err);
	struct cordon_command *c;

	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	c->session = s;
	c->number = ++s->last_number;
	c->started_ns = clock_ns();
	refusals_mark(c);
	c->keeps_rest = o->orphans == CORDON_ORPHANS_KEEP;
	c->in.pipe_fd = c->in.peer_fd = c->in.unread_fd = -1;
	c->out = c->err = c->in;
	r = open_streams(c, o, guest_fds, err);
	if (r == 0)
		r = deliver(c, o, guest_fds, err);
	close_guest_ends(guest_fds);
	if (r == 0) {
		r = pump(c);
		if (r < 0)
			r = cordon_err(err, CORDON_E_SYSTEM, -r, "cannot relay the streams");
	}
	if (r < 0) {
		/* If init has it already, its report has a number that nobody knows. */
		forget_streams(c);
		free_command(c);
		return r;
	}
	c->next = s->commands;
	s->commands = c;
	*ret = c;
	return 0;
}

int cordon_session_exec(struct cordon_session *s, const struct cordon_exec_options *options,
			struct cordon_command **ret, struct cordon_error *err)
{
	struct cordon_exec_options own = { 0 };
	int r;

	if (!s || !ret || !options || options->size < sizeof(size_t) || options->size > sizeof(own))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	memcpy(&own, options, options->size);
	pthread_mutex_lock(&s->run->lock);
	r = exec_locked(s, &own, ret, err);
	pthread_mutex_unlock(&s->run->lock);
	return r;
}

/* What happens. */

static uint64_t bytes_until_now(const struct relay *r)
{
	int waiting = 0;

	if (r->pipe_fd < 0 || ioctl(r->pipe_fd, FIONREAD, &waiting) < 0)
		return 0;
	return r->total + (uint64_t)waiting;
}

/* Its own output is complete; the rest that it left may write on. */
static bool is_relayed(const struct relay *r, uint64_t mark)
{
	return r->mode == CORDON_STREAM_JOIN || relay_is_over(r) ||
	       (mark && r->total >= mark - 1 && r->start == r->end);
}

static void note_end(struct cordon_command *c, const struct control_command *report)
{
	/* What is left was ended as well if the command was. */
	bool rest_goes_on = c->keeps_rest && report->type == CONTROL_EXEC_ENDED && !report->limit &&
			    !report->on_order;

	c->report = *report;
	c->has_ended = true;
	relay_close_input(&c->in, c->session->run->epoll_fd);
	if (rest_goes_on) {
		c->out_mark = bytes_until_now(&c->out) + 1;
		c->err_mark = bytes_until_now(&c->err) + 1;
		return;
	}
	relay_last_output(&c->out);
	relay_last_output(&c->err);
}

bool session_take(struct cordon_session *s, const union control_message *message)
{
	if (message->type == CONTROL_COUNTED) {
		s->count = message->count;
		s->was_counted = true;
		return true;
	}
	if (message->type != CONTROL_EXEC_FAILED && message->type != CONTROL_EXEC_ENDED)
		return false;
	for (struct cordon_command *c = s->commands; c; c = c->next)
		if (c->number == message->command.number && !c->has_ended)
			note_end(c, &message->command);
	return true;
}

static int pump_drains(struct cordon_session *s)
{
	for (size_t i = 0; i < s->n_drains; i++) {
		struct relay *const one[] = { &s->drains[i] };

		if (relay_pump_all(one, 1, s->run->epoll_fd) < 0)
			relay_give_up(&s->drains[i], s->run->epoll_fd);
		if (!relay_is_over(&s->drains[i]))
			continue;
		relay_done(&s->drains[i]);
		s->drains[i--] = s->drains[--s->n_drains];
	}
	return 0;
}

static void finish_if_done(struct cordon_command *c)
{
	if (c->is_done || !c->has_ended || !is_relayed(&c->out, c->out_mark) ||
	    !is_relayed(&c->err, c->err_mark))
		return;
	command_fill_result(c);
	relay_stop_capture(&c->out);
	relay_stop_capture(&c->err);
	c->is_done = true;
}

int session_pump(struct cordon_session *s)
{
	int r = 0;

	for (struct cordon_command *c = s->commands; c; c = c->next) {
		int one = pump(c);

		/* The trouble of one command is not that of the others. */
		if (one < 0 && !c->is_done) {
			relay_give_up(&c->out, s->run->epoll_fd);
			relay_give_up(&c->err, s->run->epoll_fd);
		}
		finish_if_done(c);
	}
	if (r == 0)
		r = pump_drains(s);
	return r;
}

void session_ended(struct cordon_session *s)
{
	for (struct cordon_command *c = s->commands; c; c = c->next) {
		if (c->is_done)
			continue;
		if (!c->has_ended) {
			relay_close_input(&c->in, s->run->epoll_fd);
			relay_last_output(&c->out);
			relay_last_output(&c->err);
			(void)pump(c);
		}
		relay_give_up(&c->out, s->run->epoll_fd);
		relay_give_up(&c->err, s->run->epoll_fd);
		if (c->has_ended)
			command_fill_result(c);
		else
			command_fill_ended(c);
		c->has_ended = c->is_done = true;
	}
	while (s->n_drains) {
		relay_forget(&s->drains[--s->n_drains], s->run->epoll_fd);
		relay_done(&s->drains[s->n_drains]);
	}
}

/* Commands. */

/* Another thread may be at work on it. */
static bool is_done(struct cordon_command *c)
{
	bool done;

	pthread_mutex_lock(&c->session->run->lock);
	done = c->is_done;
	pthread_mutex_unlock(&c->session->run->lock);
	return done;
}

const struct cordon_result *cordon_command_result(struct cordon_command *c)
{
	return is_done(c) ? &c->result : NULL;
}

int cordon_command_wait(struct cordon_command *c, int timeout_ms, struct cordon_error *err)
{
	uint64_t until = clock_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000u;

	for (;;) {
		struct pollfd p = { .fd = cordon_session_fd(c->session), .events = POLLIN };
		int r = cordon_session_process(c->session, err), left = -1;
		uint64_t now = clock_ns();

		if (is_done(c))
			return 1;
		if (r < 0)
			return r;
		if (timeout_ms >= 0 && now >= until)
			return 0;
		if (timeout_ms >= 0)
			left = (int)((until - now) / 1000000u) + 1;
		if (poll(&p, 1, left) < 0 && errno != EINTR)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for events");
	}
}

void cordon_command_output(struct cordon_command *c, struct cordon_output *ret_out,
			   struct cordon_output *ret_err)
{
	struct relay *const relays[] = { &c->out, &c->err };
	struct cordon_output *const ret[] = { ret_out, ret_err };

	for (int i = 0; i < 2; i++) {
		struct relay *r = relays[i];

		*ret[i] = (struct cordon_output){ .data = "", .total_bytes = r->total };
		ret[i]->truncated = r->truncated;
		if (c->is_done) {
			*ret[i] = i ? c->result.err : c->result.out;
		} else if (r->mode == CORDON_STREAM_CAPTURE) {
			ret[i]->len = relay_copy(r, &c->shown[i]);
			ret[i]->data = c->shown[i] ? c->shown[i] : "";
		}
	}
}

static int order_about(struct cordon_command *c, const struct control_order *order,
		       struct cordon_error *err)
{
	int r = 0;

	if (order->arg < 1 || order->arg > 64)
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no signal %d", (int)order->arg);
	pthread_mutex_lock(&c->session->run->lock);
	if (!c->has_ended && !c->session->run->over)
		r = spawn_send(c->session->run->spawned.ctl_fd, order, NULL, 0);
	pthread_mutex_unlock(&c->session->run->lock);
	if (r < 0 && r != -EPIPE)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot reach the session");
	return 0;
}

int cordon_command_signal(struct cordon_command *c, int signal, struct cordon_error *err)
{
	const struct control_order order = { .type = CONTROL_EXEC_SIGNAL,
					     .arg = (uint32_t)signal,
					     .count = c->number };

	return order_about(c, &order, err);
}

int cordon_command_end(struct cordon_command *c, int signal, int64_t grace_ms,
		       struct cordon_error *err)
{
	const struct control_order order = {
		.type = CONTROL_EXEC_END,
		.arg = (uint32_t)signal,
		.count = c->number,
		.limits = { .grace_ns = grace_ms > 0 ? (uint64_t)grace_ms * 1000000u : 0 },
	};

	return order_about(c, &order, err);
}

/* A stream that what was left behind may still write to. */
static void keep_drain(struct cordon_session *s, struct relay *r)
{
	relay_forget(r, s->run->epoll_fd);
	if (r->mode == CORDON_STREAM_JOIN || r->pipe_fd < 0 || s->run->over ||
	    s->n_drains == SESSION_DRAINS_MAX) {
		relay_done(r);
		return;
	}
	s->drains[s->n_drains] = (struct relay){ .mode = CORDON_STREAM_NULL,
						 .pipe_fd = r->pipe_fd,
						 .peer_fd = -1,
						 .unread_fd = -1,
						 .last_bytes = -1 };
	r->pipe_fd = -1;
	relay_done(r);
	s->n_drains++;
}

void cordon_command_free(struct cordon_command *c)
{
	struct cordon_command **at;
	struct cordon_session *s;

	if (!c)
		return;
	s = c->session;
	if (!c->has_ended)
		(void)cordon_command_end(c, SIGKILL, 0, NULL);
	pthread_mutex_lock(&s->run->lock);
	for (at = &s->commands; *at != c; at = &(*at)->next)
		;
	*at = c->next;
	relay_forget(&c->in, s->run->epoll_fd);
	relay_done(&c->in);
	keep_drain(s, &c->out);
	keep_drain(s, &c->err);
	(void)pump_drains(s);
	pthread_mutex_unlock(&s->run->lock);
	free_command(c);
}

/* The session as a whole. */

static int send_order(struct cordon_session *s, uint32_t type, struct cordon_error *err)
{
	const struct control_order order = { .type = type };
	int r;

	if (s->run->over || s->run->reported)
		return cordon_err(err, CORDON_E_STATE, 0, "the session is over");
	r = spawn_send(s->run->spawned.ctl_fd, &order, NULL, 0);
	return r < 0 ? cordon_err(err, CORDON_E_STATE, -r, "cannot reach the session") : 0;
}

static int set_paused(struct cordon_session *s, bool is_paused, struct cordon_error *err)
{
	int r;

	pthread_mutex_lock(&s->run->lock);
	r = send_order(s, is_paused ? CONTROL_PAUSE : CONTROL_RESUME, err);
	if (r == 0)
		s->is_paused = is_paused;
	pthread_mutex_unlock(&s->run->lock);
	return r;
}

int cordon_session_pause(struct cordon_session *s, struct cordon_error *err)
{
	return set_paused(s, true, err);
}

int cordon_session_resume(struct cordon_session *s, struct cordon_error *err)
{
	return set_paused(s, false, err);
}

int cordon_session_usage(struct cordon_session *s, struct cordon_session_usage *ret,
			 struct cordon_error *err)
{
	uint64_t until = clock_ns() + USAGE_MS * 1000000u;
	int r;

	pthread_mutex_lock(&s->run->lock);
	s->was_counted = false;
	r = send_order(s, CONTROL_COUNT, err);
	pthread_mutex_unlock(&s->run->lock);
	while (r == 0 && !s->was_counted) {
		struct pollfd p = { .fd = s->run->spawned.ctl_fd, .events = POLLIN };
		uint64_t now = clock_ns();

		r = cordon_session_process(s, err);
		if (s->was_counted || r < 0)
			break;
		if (r == 1 || now >= until)
			return cordon_err(err, CORDON_E_STATE, 0, "the session does not answer");
		(void)poll(&p, 1, (int)((until - now) / 1000000u) + 1);
	}
	if (r < 0)
		return r;
	*ret = (struct cordon_session_usage){
		.memory_bytes = s->count.memory_bytes,
		.tasks = s->count.tasks,
		.cpu_ms = (double)s->count.cpu_us / 1e3,
		.uptime_ms = (double)(clock_ns() - s->run->started_ns) / 1e6,
		.commands = s->count.commands,
		.is_paused = s->is_paused,
	};
	return 0;
}

void cordon_session_free(struct cordon_session *s)
{
	if (!s)
		return;
	/* From here on there is nothing to tell about commands. */
	session_ended(s);
	s->run->session = NULL;
	while (s->commands) {
		struct cordon_command *c = s->commands;

		/* The caller's mistake: its pointers are dead now. */
		s->commands = c->next;
		forget_streams(c);
		free_command(c);
	}
	cordon_run_free(s->run);
	free(s);
}
